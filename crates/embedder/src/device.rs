//! What computes: the CPU, or an accelerator that the build knows.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// Where a model's tensors live.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// The first NVIDIA card; needs a build with the feature `cuda`.
    Cuda,
    /// Apple's graphics processor; needs a build with the feature `metal`.
    Metal,
}

impl Device {
    /// The names that [`Device::from_str`] reads.
    pub const NAMES: [&str; 3] = ["cpu", "cuda", "metal"];

    /// candle's handle of the device.
    ///
    /// # Errors
    /// [`Error::Invalid`] for `device`, when the feature was not built in or there is no such device.
    pub(crate) fn open(self) -> Result<candle_core::Device> {
        type Open = fn(usize) -> candle_core::Result<candle_core::Device>;
        let (built, opened): (bool, Open) = match self {
            Self::Cpu => return Ok(candle_core::Device::Cpu),
            Self::Cuda => (cfg!(feature = "cuda"), candle_core::Device::new_cuda),
            Self::Metal => (cfg!(feature = "metal"), candle_core::Device::new_metal),
        };
        if !built {
            let problem = format!(
                "is {self}, but this program was built without it: build with the cargo feature {self}, or choose cpu"
            );
            return Err(Error::Invalid { field: "device", problem });
        }
        let problem = |error| format!("{self} cannot be used ({error}): check the driver, or choose cpu");
        opened(0).map_err(|error| Error::Invalid { field: "device", problem: problem(error) })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Metal => "metal",
        })
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda),
            "metal" => Ok(Self::Metal),
            other => {
                let problem = format!("must be one of {}, got {other:?}", Self::NAMES.join(", "));
                Err(Error::Invalid { field: "device", problem })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in Device::NAMES {
            assert_eq!(name.parse::<Device>().unwrap().to_string(), name);
        }
        let error = "CPU".parse::<Device>().unwrap_err().to_string();
        assert_eq!(error, "device: must be one of cpu, cuda, metal, got \"CPU\"");
    }

    #[cfg(not(any(feature = "cuda", feature = "metal")))]
    #[test]
    fn what_was_not_built_is_named() {
        for device in [Device::Cuda, Device::Metal] {
            let error = device.open().unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "device: is {device}, but this program was built without it: build with the cargo feature {device}, or choose cpu"
                )
            );
        }
    }
}
