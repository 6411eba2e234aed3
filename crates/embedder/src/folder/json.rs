//! A JSON file whose faults are reported with its path and the key.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::{Error, Result};

/// A JSON file that was read.
#[derive(Debug)]
pub(super) struct JsonFile {
    path: PathBuf,
    value: Value,
}

impl JsonFile {
    /// Reads the file at `path`; `hint` says what to do when it is missing.
    pub(super) fn read(path: &Path, hint: &'static str) -> Result<Self> {
        Self::read_optional(path)?.ok_or_else(|| Error::FileMissing { path: path.to_path_buf(), hint })
    }

    /// Reads the file at `path`; none when it does not exist.
    pub(super) fn read_optional(path: &Path) -> Result<Option<Self>> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(path, error)),
        };
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Some(Self { path: path.to_path_buf(), value })),
            Err(error) => Err(Error::Json { path: path.to_path_buf(), reason: error.to_string() }),
        }
    }

    /// The whole value.
    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    /// The value at `key`; none when it is missing or null.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.value.get(key).filter(|value| !value.is_null())
    }

    /// The text at `key`; none when there is none.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str)
    }

    /// The whole number, at least 0, at `key`.
    pub(super) fn count(&self, key: &str) -> Result<Option<usize>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
        count.map(Some).ok_or_else(|| self.unsupported(key, format!("must be a whole number, got {value}")))
    }

    /// The number, at least 1, that must be at `key`.
    pub(super) fn required_count(&self, key: &str) -> Result<usize> {
        match self.count(key)? {
            Some(count) if count > 0 => Ok(count),
            Some(_) => Err(self.unsupported(key, "must be at least 1")),
            None => Err(self.unsupported(key, "is missing")),
        }
    }

    /// The truth value at `key`.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.unsupported(key, format!("must be true or false, got {value}")))
    }

    /// The error that says what is wrong at `key`.
    pub(super) fn unsupported(&self, key: &str, problem: impl Into<String>) -> Error {
        Error::unsupported(&self.path, key, problem)
    }
}
