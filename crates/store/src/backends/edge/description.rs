//! The file that says what a collection's folder holds. A folder without it holds nothing: it is written last when a
//! collection is made, and removed first when one is dropped.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toller_core::collection::VectorParams;
use toller_core::{CollectionName, Tenant};
use uuid::Uuid;

use super::durable;
use super::error::EdgeError;

/// Version of the layout of a collection's folder, with the form of its points. Version 2 added named vectors and
/// quantisation; a folder of version 1 is one without them.
const FORMAT: u64 = 2;

/// The first version that this build reads.
const FIRST_FORMAT: u64 = 1;

const FILE: &str = "collection.json";

/// What a collection's folder holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Description {
    pub(super) tenant: Tenant,
    pub(super) collection: CollectionName,
    pub(super) params: VectorParams,
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    format: u64,
    #[serde(flatten)]
    content: T,
}

/// Read before the rest, which another version may have changed.
#[derive(Deserialize)]
struct FormatOnly {
    format: u64,
}

impl Description {
    /// A folder name that no other collection has, nor had: beside the hash of the key stands a number that is new each
    /// time, so that what is left of a dropped collection is never taken for its successor.
    pub(super) fn new_folder_name(&self) -> String {
        let mut hash = Sha256::new();
        for part in [self.tenant.as_str(), self.collection.as_str()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let digits: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{digits}-{}", Uuid::now_v7().simple())
    }

    /// Writes the file, durably.
    pub(super) fn write(&self, folder: &Path) -> Result<(), EdgeError> {
        let path = file(folder);
        let versioned = Versioned { format: FORMAT, content: self };
        let text = serde_json::to_vec_pretty(&versioned).map_err(|fault| EdgeError::damaged(&path, fault))?;
        durable::write_whole(&path, &text)
    }

    /// Reads the file; none when there is no such file.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, EdgeError> {
        let path = file(folder);
        if !path.exists() {
            return Ok(None);
        }
        let text = fs::read(&path).map_err(EdgeError::io("read", &path))?;
        let FormatOnly { format } = serde_json::from_slice(&text).map_err(|fault| EdgeError::damaged(&path, fault))?;
        if !(FIRST_FORMAT..=FORMAT).contains(&format) {
            return Err(EdgeError::UnsupportedVersion { path, found: format, supported: FORMAT });
        }
        let versioned: Versioned<Self> =
            serde_json::from_slice(&text).map_err(|fault| EdgeError::damaged(&path, fault))?;
        Ok(Some(versioned.content))
    }

    /// Removes the file: from now on the folder holds nothing.
    pub(super) fn remove(folder: &Path) -> Result<(), EdgeError> {
        durable::remove(&file(folder))
    }

    /// As [`Self::remove`], where the file may be missing.
    pub(super) fn remove_if_there(folder: &Path) -> Result<(), EdgeError> {
        if file(folder).exists() { Self::remove(folder) } else { Ok(()) }
    }
}

fn file(folder: &Path) -> PathBuf {
    folder.join(FILE)
}
