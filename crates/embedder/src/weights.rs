//! model.safetensors: tensors as f32, checked against the shapes that config.json implies.
//!
//! The file is read into one buffer, tensors are made from it, and the buffer is dropped: memory peaks at twice the weights
//! while loading and stays at once afterwards. (Mapping the file instead would need unsafe code: another process could
//! change it underneath.)

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use candle_core::{DType, Device, Tensor};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, tensor};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// The prefix that weights saved from a model with a head carry.
const HEAD_PREFIX: &str = "bert.";

/// A weights file in memory.
#[derive(Debug)]
pub(crate) struct WeightsFile {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl WeightsFile {
    /// Reads the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(path)?;
            // One allocation of the right size: growing would double the peak.
            let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
            let mut bytes = Vec::with_capacity(length);
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => Ok(Self { path: path.to_path_buf(), bytes }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::FileMissing { path: path.to_path_buf(), hint: missing_hint(path) })
            }
            Err(error) => Err(Error::io(path, error)),
        }
    }

    /// SHA-256 of the file in lower-case hexadecimal.
    pub(crate) fn sha256(&self) -> String {
        Sha256::digest(&self.bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The tensors in the file.
    pub(crate) fn tensors(&self) -> Result<Weights<'_>> {
        let tensors = SafeTensors::deserialize(&self.bytes).map_err(|error| Error::Weights {
            path: self.path.clone(),
            problem: format!("is truncated or damaged ({error}): fetch the file again"),
        })?;
        let prefix = if tensors.names().iter().any(|name| name.starts_with(HEAD_PREFIX)) { HEAD_PREFIX } else { "" };
        Ok(Weights { path: &self.path, tensors, prefix })
    }
}

/// The tensors of a weights file.
#[derive(Debug)]
pub(crate) struct Weights<'file> {
    path: &'file Path,
    tensors: SafeTensors<'file>,
    prefix: &'static str,
}

impl Weights<'_> {
    /// The matrix `name` of `rows` × `columns`.
    pub(crate) fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Tensor> {
        self.tensor(name, self.values(name, &[rows, columns])?, rows, columns)
    }

    /// A matrix of `values` that were read from this file and changed; `name` is for the error.
    pub(crate) fn tensor(&self, name: &str, values: Vec<f32>, rows: usize, columns: usize) -> Result<Tensor> {
        Tensor::from_vec(values, (rows, columns), &Device::Cpu).map_err(|error| self.fault(name, error.to_string()))
    }

    /// The values of the matrix `name` of `rows` × `columns`, row by row.
    pub(crate) fn matrix_values(&self, name: &str, rows: usize, columns: usize) -> Result<Vec<f32>> {
        self.values(name, &[rows, columns])
    }

    /// The vector `name` of `length` values.
    pub(crate) fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>> {
        self.values(name, &[length])
    }

    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let full_name = format!("{}{name}", self.prefix);
        let view = self.tensors.tensor(&full_name).map_err(|_| {
            self.fault(&full_name, "is missing: the file is another model's, or config.json is".to_owned())
        })?;
        if view.shape() != shape {
            let problem = format!(
                "has shape {:?}, but config.json implies {shape:?}: the files do not belong together",
                view.shape()
            );
            return Err(self.fault(&full_name, problem));
        }
        self.to_f32(&full_name, &view)
    }

    fn to_f32(&self, name: &str, view: &TensorView<'_>) -> Result<Vec<f32>> {
        let dtype = match view.dtype() {
            Dtype::F32 => {
                let (words, _) = view.data().as_chunks::<4>();
                return Ok(words.iter().map(|word| f32::from_le_bytes(*word)).collect());
            }
            tensor::Dtype::F16 => DType::F16,
            tensor::Dtype::BF16 => DType::BF16,
            other => {
                return Err(
                    self.fault(name, format!("is stored as {other:?}, but only f32, f16 and bf16 are supported"))
                );
            }
        };
        Tensor::from_raw_buffer(view.data(), dtype, &[view.data().len() / 2], &Device::Cpu)
            .and_then(|tensor| tensor.to_dtype(DType::F32)?.to_vec1())
            .map_err(|error| self.fault(name, error.to_string()))
    }

    fn fault(&self, name: &str, problem: String) -> Error {
        Error::Weights { path: self.path.to_path_buf(), problem: format!("tensor {name} {problem}") }
    }
}

/// What to do about a missing weights file depends on what is there instead.
fn missing_hint(path: &Path) -> &'static str {
    let beside = |name: &str| path.with_file_name(name).exists();
    if beside("model.safetensors.index.json") {
        "the weights are split into several files, which is not supported: merge them into one"
    } else if beside("pytorch_model.bin") {
        "pytorch_model.bin is not read, since unpickling runs code: convert it to safetensors"
    } else if fs::exists(path.with_file_name("config.json")).unwrap_or(false) {
        "it holds the weights: fetch it into this folder"
    } else {
        "check the path"
    }
}
