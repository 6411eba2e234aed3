//! Random messages from their descriptors: such as a caller might send, or with values that no caller should.

use std::collections::HashMap;

use fastrand::Rng;
use prost::bytes::Bytes;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

use super::known::{COLLECTIONS, RETRIEVER};

/// Deeper messages have no more messages in them. Past the recursion limit of protobuf (100) by far in bytes, so that this is
/// not what stops a message; [`super::mutation::deep`] goes further.
const MAX_DEPTH: u32 = 24;

/// Dimensions that fit one of the collections, mostly, and one that fits none.
const DIMENSIONS: [usize; 5] = [2, 64, 2, 64, 3];

/// What values are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taste {
    /// Such that most calls succeed.
    Plausible,
    /// Every few of them are extreme.
    Nasty,
}

/// Makes messages.
pub struct Messages<'a> {
    pub random: &'a mut Rng,
    pub taste: Taste,
}

impl Messages<'_> {
    /// A random message of a type.
    pub fn message(&mut self, descriptor: &MessageDescriptor) -> DynamicMessage {
        self.at_depth(descriptor, 0)
    }

    fn at_depth(&mut self, descriptor: &MessageDescriptor, depth: u32) -> DynamicMessage {
        let mut message = DynamicMessage::new(descriptor.clone());
        if descriptor.full_name() == "toller.v1.Vector" && !self.is_nasty() {
            self.fill_vector(&mut message);
            return message;
        }
        let is_left_out = |messages: &mut Self| messages.taste == Taste::Nasty && messages.random.u32(..4) == 0;
        for field in descriptor.fields() {
            // `optional` is a oneof of one.
            let is_choice = field.containing_oneof().is_some_and(|oneof| oneof.fields().len() > 1);
            let is_optional = field.containing_oneof().is_some() && !is_choice;
            // A filter on top of a filter leaves nothing to find.
            let may_be_left_out = (is_optional || field.name() == "filter") && self.random.bool();
            if !is_choice && !may_be_left_out && !is_left_out(self) {
                self.set(&mut message, &field, depth);
            }
        }
        for oneof in descriptor.oneofs().filter(|oneof| oneof.fields().len() > 1) {
            // Who names neither a model nor vectors of his own gets the server's model.
            let has_default = descriptor.full_name() == "toller.v1.CollectionsCreateRequest" && self.random.bool();
            if !has_default && !is_left_out(self) {
                let fields: Vec<_> = oneof.fields().collect();
                // Deep down, what has no further messages in it.
                let flat = fields.iter().find(|field| !matches!(field.kind(), Kind::Message(_)));
                let field = match flat {
                    Some(flat) if depth >= MAX_DEPTH => flat,
                    _ => &fields[self.random.usize(..fields.len())],
                };
                self.set(&mut message, field, depth);
            }
        }
        if descriptor.full_name() == "toller.v1.VectorStoreRetriever" && !self.is_nasty() {
            self.agree(&mut message);
        }
        message
    }

    /// Leaves out what contradicts the type of a search.
    fn agree(&mut self, search: &mut DynamicMessage) {
        const THRESHOLD: i32 = 2;
        const MMR: i32 = 3;
        let search_type = search.get_field_by_name("search_type").and_then(|value| value.as_enum_number()).unwrap_or(0);
        if search_type != MMR {
            search.clear_field_by_name("fetch_k");
            search.clear_field_by_name("lambda_mult");
        }
        if search_type == THRESHOLD {
            search.set_field_by_name("score_threshold", Value::F64(0.1));
        }
        if self.random.bool() {
            search.clear_field_by_name("relevance_fn");
        }
    }

    fn is_nasty(&mut self) -> bool {
        self.taste == Taste::Nasty && self.random.u32(..4) == 0
    }

    fn set(&mut self, message: &mut DynamicMessage, field: &FieldDescriptor, depth: u32) {
        if depth >= MAX_DEPTH && matches!(field.kind(), Kind::Message(_)) {
            return;
        }
        let value = if field.is_map() {
            let Kind::Message(entry) = field.kind() else { return };
            let mut entries = HashMap::new();
            for _ in 0..self.count(depth) {
                let key = MapKey::String(self.text("key"));
                entries.insert(key, self.value(&entry.map_entry_value_field(), depth));
            }
            Value::Map(entries)
        } else if field.is_list() {
            Value::List((0..self.count(depth)).map(|_| self.value(field, depth)).collect())
        } else {
            self.value(field, depth)
        };
        message.set_field(field, value);
    }

    /// How many elements; fewer the deeper, so that messages end.
    fn count(&mut self, depth: u32) -> usize {
        let most = if depth < 4 { 4 } else { 2 };
        if depth < 2 && self.is_nasty() && self.random.u32(..8) == 0 {
            return self.random.usize(..1500);
        }
        self.random.usize(..most)
    }

    fn value(&mut self, field: &FieldDescriptor, depth: u32) -> Value {
        match field.kind() {
            Kind::Double => Value::F64(self.double()),
            Kind::Float => Value::F32(self.double() as f32),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(self.integer() as i32),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(self.integer()),
            Kind::Uint32 | Kind::Fixed32 => Value::U32(self.integer() as u32),
            Kind::Uint64 | Kind::Fixed64 => Value::U64(self.integer() as u64),
            Kind::Bool => Value::Bool(self.random.bool()),
            Kind::String => Value::String(self.text(field.name())),
            Kind::Bytes => Value::Bytes(self.bytes()),
            Kind::Message(descriptor) => Value::Message(self.at_depth(&descriptor, depth + 1)),
            Kind::Enum(descriptor) => {
                let numbers: Vec<i32> = descriptor.values().map(|value| value.number()).collect();
                let nasty = [-1, 99, i32::MIN, i32::MAX];
                let choices = if self.is_nasty() { &nasty[..] } else { &numbers };
                Value::EnumNumber(choices[self.random.usize(..choices.len())])
            }
        }
    }

    fn integer(&mut self) -> i64 {
        if !self.is_nasty() {
            return self.random.i64(1..30);
        }
        let bounds =
            [0, 1, -1, i64::MAX, i64::MIN, 1 << 53, i64::from(u32::MAX), i64::from(i32::MAX) + 1, 65_536, 65_537, 1001];
        if self.random.bool() { bounds[self.random.usize(..bounds.len())] } else { self.random.i64(..) }
    }

    fn double(&mut self) -> f64 {
        if !self.is_nasty() {
            return self.random.f64();
        }
        let bounds = [
            0.0,
            -0.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            5e-324,
            1.0 + f64::EPSILON,
            -1.0,
            1e300,
        ];
        if self.random.bool() { bounds[self.random.usize(..bounds.len())] } else { f64::from_bits(self.random.u64(..)) }
    }

    fn text(&mut self, field: &str) -> String {
        if self.is_nasty() {
            return self.nasty_text();
        }
        let number = self.random.u32(..6);
        match field {
            "collection" => COLLECTIONS[self.random.usize(..COLLECTIONS.len())].to_owned(),
            // Of collections and of retrievers, which may come to refer to each other in a circle.
            "name" | "ref" if number < 2 => COLLECTIONS[self.random.usize(..COLLECTIONS.len())].to_owned(),
            "name" | "ref" if number < 4 => RETRIEVER.to_owned(),
            "name" | "ref" | "id" | "ids" | "key" => format!("{}{number}", ['a', 'b', 'c'][self.random.usize(..3)]),
            "model" | "page_token" => String::new(),
            _ => ["the smallest dog", "", "ünï 👩‍👩‍👧", "a duck on the water", "1", "x"][number as usize].to_owned(),
        }
    }

    fn nasty_text(&mut self) -> String {
        let random = &mut *self.random;
        match random.u32(..12) {
            0 => String::new(),
            1 => "\0".repeat(random.usize(1..9)),
            2 => "../../../../etc/passwd".to_owned(),
            3 => "a".repeat(random.usize(100..2000)),
            4 => "e".to_owned() + &"\u{301}".repeat(random.usize(..5000)),
            5 => "\u{202e}\u{feff}\u{200d}👩‍👩‍👧‍👦".repeat(random.usize(1..40)),
            6 => "word ".repeat(random.usize(..20_000)),
            7 => "a.b.c\\.d\\".to_owned(),
            8 => "[CLS] [SEP] [MASK] [UNK] [PAD] ##ing".to_owned(),
            9 => "a.".repeat(random.usize(..3000)),
            10 => format!("{}\r\n: \u{1b}[31m%s%n{{}}' OR 1=1 --", random.u64(..)),
            _ => (0..random.usize(..200)).map(|_| random.char(..)).collect(),
        }
    }

    fn bytes(&mut self) -> Bytes {
        let mut bytes = vec![0; self.random.usize(..64)];
        self.random.fill(&mut bytes);
        bytes.into()
    }

    fn fill_vector(&mut self, message: &mut DynamicMessage) {
        let dimension = DIMENSIONS[self.random.usize(..DIMENSIONS.len())];
        let elements: Vec<f32> = (0..dimension).map(|_| self.random.f32() - 0.5).collect();
        if self.random.bool() {
            let packed: Vec<u8> = elements.iter().flat_map(|element| element.to_le_bytes()).collect();
            message.set_field_by_name("dimension", Value::U32(dimension as u32));
            message.set_field_by_name("packed", Value::Bytes(packed.into()));
        } else {
            message.set_field_by_name("values", Value::List(elements.into_iter().map(Value::F32).collect()));
        }
    }
}
