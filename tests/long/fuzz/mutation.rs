//! What goes wrong with the bytes of a good message.

use fastrand::Rng;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{Kind, MessageDescriptor};

/// Deepest nesting; a hundred is what protobuf allows.
const MAX_NESTING: usize = 3000;

/// A few random changes, one after the other.
pub fn mutate(random: &mut Rng, mut message: Vec<u8>) -> Vec<u8> {
    for _ in 0..random.usize(1..5) {
        mutate_once(random, &mut message);
    }
    message
}

fn mutate_once(random: &mut Rng, message: &mut Vec<u8>) {
    let length = message.len();
    let position = random.usize(..=length);
    match random.u32(..9) {
        0 | 1 => {
            if let Some(byte) = message.get_mut(position) {
                *byte ^= 1 << random.u32(..8);
            }
        }
        2 => message.truncate(position),
        // Every field twice: the later ones win, messages merge, lists double.
        3 if length < 1 << 16 => message.extend_from_within(..),
        // A part twice, wherever it begins.
        4 => {
            let end = random.usize(position..=length);
            let part: Vec<u8> = message[position..end].to_vec();
            message.splice(position..position, part);
        }
        // A length or number out of all proportion.
        5 => {
            let huge = [u64::MAX, u64::MAX >> 1, u64::from(u32::MAX), 1 << 31, 1 << 40][random.usize(..5)];
            let mut varint = Vec::new();
            encode_varint(huge, &mut varint);
            message.splice(position..position, varint);
        }
        // A varint that never ends.
        6 => {
            message.splice(position..position, vec![0xff; random.usize(1..40)]);
        }
        // A field that nobody knows, or one of another type.
        7 => {
            let mut field = Vec::new();
            let wire_type = [
                WireType::Varint,
                WireType::SixtyFourBit,
                WireType::LengthDelimited,
                WireType::StartGroup,
                WireType::EndGroup,
                WireType::ThirtyTwoBit,
            ][random.usize(..6)];
            let number = if random.bool() { random.u32(1..16) } else { random.u32(1..1 << 29) };
            encode_key(number, wire_type, &mut field);
            field.extend((0..random.usize(..12)).map(|_| random.u8(..)));
            message.extend(field);
        }
        _ => {
            let end = random.usize(position..=length);
            message.drain(position..end);
        }
    }
}

/// A message that nests as deep as its type can, or a group that does.
pub fn deep(random: &mut Rng, descriptor: &MessageDescriptor) -> Vec<u8> {
    let depth = if random.bool() { random.usize(..150) } else { random.usize(..MAX_NESTING) };
    let Some((way, circle)) = circle(descriptor, &mut Vec::new()) else {
        let mut groups = Vec::new();
        (0..depth).for_each(|_| encode_key(15, WireType::StartGroup, &mut groups));
        return groups;
    };
    let mut numbers = way;
    numbers.extend(circle.iter().copied().cycle().take(depth));
    let mut message = Vec::new();
    for number in numbers.into_iter().rev() {
        let mut outer = Vec::with_capacity(message.len() + 8);
        encode_key(number, WireType::LengthDelimited, &mut outer);
        encode_varint(message.len() as u64, &mut outer);
        outer.extend(message);
        message = outer;
    }
    message
}

/// Numbers of the fields that lead to a type which contains itself, and of those that lead from it to itself.
fn circle(descriptor: &MessageDescriptor, above: &mut Vec<(String, u32)>) -> Option<(Vec<u32>, Vec<u32>)> {
    let numbers = |above: &[(String, u32)]| above.iter().map(|(_, number)| *number).collect::<Vec<_>>();
    for field in descriptor.fields() {
        let Kind::Message(inner) = field.kind() else { continue };
        above.push((descriptor.full_name().to_owned(), field.number()));
        if let Some(start) = above.iter().position(|(name, _)| name == inner.full_name()) {
            return Some((numbers(&above[..start]), numbers(&above[start..])));
        }
        if let Some(found) = circle(&inner, above) {
            return Some(found);
        }
        above.pop();
    }
    None
}
