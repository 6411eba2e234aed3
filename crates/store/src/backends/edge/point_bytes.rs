//! Points as bytes, for the journal: exactly as the engine gets them, so that nothing has to be computed again.
//!
//! Numbers are little-endian, and texts and lists stand after their length.

use std::collections::HashMap;

use qdrant_edge as engine;
use qdrant_edge::external::serde_json::{Map, Value as Json};
use uuid::Uuid;

/// Kinds of vectors.
const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// Adds a point to `bytes`.
///
/// # Errors
/// Says what of it cannot be written: what [`super::point`] never makes.
pub(super) fn write_point(bytes: &mut Vec<u8>, point: &engine::PointStructPersisted) -> Result<(), String> {
    let engine::PointId::Uuid(id) = point.id else { return Err("a point has no UUID".to_owned()) };
    bytes.extend_from_slice(id.as_bytes());
    let payload = point.payload.as_ref().ok_or("a point has no payload")?;
    let payload = serde_json::to_vec(&payload.0).map_err(|fault| format!("a payload cannot be written: {fault}"))?;
    write_bytes(bytes, &payload)?;
    let engine::VectorStructPersisted::Named(vectors) = &point.vector else {
        return Err("a point has no named vectors".to_owned());
    };
    write_length(bytes, vectors.len())?;
    for (name, vector) in vectors {
        write_bytes(bytes, name.as_bytes())?;
        match vector {
            engine::VectorPersisted::Dense(elements) => {
                bytes.push(DENSE);
                write_elements(bytes, elements)?;
            }
            engine::VectorPersisted::Sparse(sparse) => {
                bytes.push(SPARSE);
                write_length(bytes, sparse.indices.len())?;
                bytes.extend(sparse.indices.iter().flat_map(|index| index.to_le_bytes()));
                write_elements(bytes, &sparse.values)?;
            }
            _ => return Err(format!("the vector \"{name}\" is of another kind")),
        }
    }
    Ok(())
}

/// Takes a point from the front.
///
/// # Errors
/// Says what is wrong with the bytes.
pub(super) fn read_point(bytes: &mut Bytes<'_>) -> Result<engine::PointStructPersisted, String> {
    let id = Uuid::from_bytes(bytes.array()?);
    let payload: Map<String, Json> =
        serde_json::from_slice(bytes.list(1)?).map_err(|fault| format!("a payload cannot be read: {fault}"))?;
    let mut vectors = HashMap::new();
    for _ in 0..bytes.number()? {
        let name = bytes.text()?.to_owned();
        let vector = match bytes.array()? {
            [DENSE] => engine::VectorPersisted::Dense(bytes.elements()?),
            [SPARSE] => {
                let (words, _) = bytes.list(size_of::<u32>())?.as_chunks();
                let indices = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
                engine::VectorPersisted::Sparse(engine::SparseVector { indices, values: bytes.elements()? })
            }
            [other] => return Err(format!("the vector \"{name}\" is of the unknown kind {other}")),
        };
        vectors.insert(name, vector);
    }
    Ok(engine::PointStructPersisted {
        id: engine::PointId::Uuid(id),
        vector: engine::VectorStructPersisted::Named(vectors),
        payload: Some(engine::Payload(payload)),
    })
}

fn write_length(bytes: &mut Vec<u8>, length: usize) -> Result<(), String> {
    let length = u32::try_from(length).map_err(|_| "a part of a point is too long".to_owned())?;
    bytes.extend_from_slice(&length.to_le_bytes());
    Ok(())
}

fn write_bytes(bytes: &mut Vec<u8>, content: &[u8]) -> Result<(), String> {
    write_length(bytes, content.len())?;
    bytes.extend_from_slice(content);
    Ok(())
}

fn write_elements(bytes: &mut Vec<u8>, elements: &[f32]) -> Result<(), String> {
    write_length(bytes, elements.len())?;
    bytes.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
    Ok(())
}

/// What is left of some bytes.
pub(super) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn number(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn long_number(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn text(&mut self) -> Result<&'a str, String> {
        std::str::from_utf8(self.list(1)?).map_err(|fault| format!("a text cannot be read: {fault}"))
    }

    fn elements(&mut self) -> Result<Vec<f32>, String> {
        let (words, _) = self.list(size_of::<f32>())?.as_chunks();
        Ok(words.iter().map(|word| f32::from_le_bytes(*word)).collect())
    }

    /// The bytes of a list with its length before it.
    fn list(&mut self, bytes_of_each: usize) -> Result<&'a [u8], String> {
        let length = (self.number()? as usize).saturating_mul(bytes_of_each);
        let (list, rest) = self.0.split_at_checked(length).ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(list)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(cut_off)?;
        self.0 = rest;
        Ok(*array)
    }
}

fn cut_off() -> String {
    "it is cut off within a point".to_owned()
}
