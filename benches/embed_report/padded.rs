//! The stock way to run BERT on candle: candle-transformers' `BertModel`, batches of 32 in the order of arrival, each padded to
//! its longest text.

use std::error::Error;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};

/// Texts of a batch.
const BATCH: usize = 32;

/// The model with its weights as stored.
pub struct Padded(BertModel);

impl Padded {
    /// Loads the model in `folder`.
    pub fn load(folder: &Path) -> Result<Self, Box<dyn Error>> {
        let config: Config = serde_json::from_slice(&std::fs::read(folder.join("config.json"))?)?;
        let weights = std::fs::read(folder.join("model.safetensors"))?;
        let weights = VarBuilder::from_buffered_safetensors(weights, DType::F32, &Device::Cpu)?;
        Ok(Self(BertModel::load(weights, &config)?))
    }

    /// Token vectors of all sequences, batch by batch; returns a number of them so that nothing is optimised away.
    pub fn run(&self, sequences: &[Vec<u32>]) -> Result<f32, Box<dyn Error>> {
        let mut first = 0.0;
        for batch in sequences.chunks(BATCH) {
            let longest = batch.iter().map(Vec::len).max().unwrap_or(0);
            let padded = |value: fn(u32) -> u32| {
                batch.iter().flat_map(move |ids| {
                    ids.iter().map(move |id| value(*id)).chain(std::iter::repeat_n(0, longest - ids.len()))
                })
            };
            let shape = (batch.len(), longest);
            let ids = Tensor::from_iter(padded(|id| id), &Device::Cpu)?.reshape(shape)?;
            let mask = Tensor::from_iter(padded(|_| 1), &Device::Cpu)?.reshape(shape)?;
            let vectors = self.0.forward(&ids, &ids.zeros_like()?, Some(&mask))?;
            first += vectors.get(0)?.get(0)?.get(0)?.to_scalar::<f32>()?;
        }
        Ok(first)
    }
}
