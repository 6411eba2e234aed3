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
use crate::hub::cache;

/// What stands before the encoder's names in weights that were saved from a model with a head.
const ENCODER_PREFIXES: [&str; 2] = ["bert.", "roberta."];

/// A weights file in memory.
#[derive(Debug)]
pub(crate) struct WeightsFile {
    path: PathBuf,
    bytes: Vec<u8>,
    sha256: String,
}

impl WeightsFile {
    fn read(path: &Path) -> Result<Self> {
        let read = || -> io::Result<Vec<u8>> {
            let mut file = File::open(path)?;
            // One allocation of the right size: growing would double the peak.
            let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
            let mut bytes = Vec::with_capacity(length);
            file.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        match read() {
            Ok(bytes) => {
                let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
                Ok(Self { path: path.to_path_buf(), bytes, sha256 })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(Error::FileMissing { path: path.to_path_buf(), hint: missing_hint(path) })
            }
            Err(error) => Err(Error::io(path, error)),
        }
    }

    /// Reads the file at `path`, and refuses it when it is in a hub's cache and is not what the hub promised.
    pub(crate) fn read_verified(path: &Path) -> Result<Self> {
        let file = Self::read(path)?;
        if cache::promised_sha256(path).is_some_and(|promised| promised != file.sha256) {
            let problem =
                "does not have the content that the hub promised: delete the file and pull the model again".to_owned();
            return Err(Error::Weights { path: file.path, problem });
        }
        Ok(file)
    }

    /// SHA-256 of the file in lower-case hexadecimal.
    pub(crate) fn sha256(&self) -> &str {
        &self.sha256
    }

    /// The tensors in the file.
    pub(crate) fn tensors(&self) -> Result<Weights<'_>> {
        let tensors = SafeTensors::deserialize(&self.bytes).map_err(|error| Error::Weights {
            path: self.path.clone(),
            problem: format!("is truncated or damaged ({error}): fetch the file again"),
        })?;
        let carries = |prefix: &str| tensors.names().iter().any(|name| name.starts_with(prefix));
        let prefix = ENCODER_PREFIXES.into_iter().find(|prefix| carries(prefix)).unwrap_or("");
        Ok(Weights { path: &self.path, tensors, prefix })
    }
}

/// The tensors of a weights file. Names are those of the encoder; what stands before them in files with a head is found out.
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

    /// As [`Weights::matrix`], on `device`.
    pub(crate) fn matrix_on(&self, name: &str, rows: usize, columns: usize, device: &Device) -> Result<Tensor> {
        let values = self.values(name, &[rows, columns])?;
        Tensor::from_vec(values, (rows, columns), device).map_err(|error| self.fault(name, error.to_string()))
    }

    /// The vector `name` of `length` values, on `device`.
    pub(crate) fn vector_on(&self, name: &str, length: usize, device: &Device) -> Result<Tensor> {
        let values = self.values(name, &[length])?;
        Tensor::from_vec(values, length, device).map_err(|error| self.fault(name, error.to_string()))
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

    /// The values of a tensor of the head, which stands beside the encoder: its name is the whole name.
    pub(crate) fn head_values(&self, full_name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        self.read(
            full_name,
            shape,
            "it belongs to the head of a reranker, and the file is an embedding model's, or another model's",
        )
    }

    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        self.read(&format!("{}{name}", self.prefix), shape, "the file is another model's, or config.json is")
    }

    fn read(&self, full_name: &str, shape: &[usize], when_missing: &str) -> Result<Vec<f32>> {
        let view =
            self.tensors.tensor(full_name).map_err(|_| self.fault(full_name, format!("is missing: {when_missing}")))?;
        if view.shape() != shape {
            let problem = format!(
                "has shape {:?}, but config.json implies {shape:?}: the files do not belong together",
                view.shape()
            );
            return Err(self.fault(full_name, problem));
        }
        self.to_f32(full_name, &view)
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
