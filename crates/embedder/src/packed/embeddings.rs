//! `BertEmbeddings`: word + position + token type, then LayerNorm.

use super::kernel::{Kernel, Norm};
use crate::encoder::Sequence;
use crate::error;
use crate::folder::bert_config::BertConfig;
use crate::weights::Weights;

/// The tables that a token's first vector comes from.
#[derive(Debug)]
pub(super) struct Embeddings {
    words: Vec<f32>,
    /// From the first position that a token can have.
    positions: Vec<f32>,
    types: Vec<f32>,
    norm: Norm,
    hidden: usize,
}

/// A token and where it stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) id: u32,
    pub(super) position: usize,
    pub(super) second_segment: bool,
}

impl Embeddings {
    pub(super) fn load(config: &BertConfig, weights: &Weights<'_>) -> error::Result<Self> {
        let hidden = config.hidden;
        let rows = config.first_position + config.positions;
        let mut positions = weights.matrix_values("embeddings.position_embeddings.weight", rows, hidden)?;
        positions.drain(..config.first_position * hidden);
        let types = "embeddings.token_type_embeddings.weight";
        Ok(Self {
            words: weights.matrix_values("embeddings.word_embeddings.weight", config.vocabulary, hidden)?,
            positions,
            types: weights.matrix_values(types, config.token_types, hidden)?,
            norm: Norm {
                weight: weights.vector("embeddings.LayerNorm.weight", hidden)?,
                shift: weights.vector("embeddings.LayerNorm.bias", hidden)?,
                eps: config.layer_norm_eps,
            },
            hidden,
        })
    }

    /// The tokens of `sequence`, or what is wrong with it.
    pub(super) fn tokens(&self, sequence: &Sequence<'_>) -> Result<impl Iterator<Item = Token>, String> {
        let positions = self.positions.len() / self.hidden;
        let length = sequence.ids.len();
        if length == 0 || length > positions {
            return Err(format!("a sequence has {length} tokens, but must have 1 to {positions}"));
        }
        let words = self.words.len() / self.hidden;
        if let Some(id) = sequence.ids.iter().find(|id| **id as usize >= words) {
            return Err(format!("token {id} is outside of the vocabulary of {words}"));
        }
        let second = sequence.second;
        Ok(sequence.ids.iter().enumerate().map(move |(position, id)| Token {
            id: *id,
            position,
            second_segment: position >= second,
        }))
    }

    /// The first vectors of `tokens`, which come from [`Embeddings::tokens`].
    pub(super) fn look_up(&self, kernel: Kernel, tokens: &[Token], x: &mut [f32]) {
        let hidden = self.hidden;
        let row = |table: &'_ [f32], index: usize| -> std::ops::Range<usize> {
            let start = index * hidden;
            if start + hidden <= table.len() { start..start + hidden } else { 0..0 }
        };
        let single_type = self.types.len() == hidden;
        for (token, out) in tokens.iter().zip(x.chunks_exact_mut(hidden)) {
            let kind = usize::from(token.second_segment && !single_type);
            let word = self.words.get(row(&self.words, token.id as usize)).unwrap_or_default();
            let kind = self.types.get(row(&self.types, kind)).unwrap_or_default();
            let position = self.positions.get(row(&self.positions, token.position)).unwrap_or_default();
            for ((out, word), kind) in out.iter_mut().zip(word).zip(kind) {
                *out = word + kind;
            }
            kernel.add_norm(out, position, &self.norm);
        }
    }
}
