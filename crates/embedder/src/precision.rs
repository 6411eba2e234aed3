//! In how many bits the weights of linear layers are kept.

use std::fmt;
use std::str::FromStr;

use crate::device::Device;
use crate::error::{Error, Result};

/// In how many bits the weights of linear layers are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits: vectors are those of the reference.
    #[default]
    F32,
    /// 8 bits, with inputs quantised on the way: faster, in a quarter of the memory, with vectors whose cosine to those of
    /// the reference is at least 0.99. On the processor only.
    Int8,
}

impl Precision {
    /// The names that [`Precision::from_str`] reads.
    pub const NAMES: [&str; 2] = ["f32", "int8"];

    /// Can `device` compute with it?
    ///
    /// # Errors
    /// [`Error::Invalid`] for `dtype`.
    pub(crate) fn check(self, device: Device) -> Result<()> {
        if self == Self::Int8 && device != Device::Cpu {
            let problem =
                format!("is int8, which the device {device} cannot compute with: choose f32, or the device cpu");
            return Err(Error::Invalid { field: "dtype", problem });
        }
        Ok(())
    }

    /// What weights with the hash `sha256` are called in this precision: other vectors need another fingerprint.
    pub(crate) fn weights_sha256(self, sha256: &str) -> String {
        match self {
            Self::F32 => sha256.to_owned(),
            Self::Int8 => format!("int8:{sha256}"),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::F32 => "f32",
            Self::Int8 => "int8",
        })
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "f32" => Ok(Self::F32),
            "int8" => Ok(Self::Int8),
            _ => {
                let problem = format!("must be one of {}, got {name:?}", Self::NAMES.join(", "));
                Err(Error::Invalid { field: "dtype", problem })
            }
        }
    }
}
