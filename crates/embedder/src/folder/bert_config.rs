//! config.json of a BERT or XLM-RoBERTa encoder: sizes, and the choices that would change the vectors.

use serde_json::Value;

use super::json::JsonFile;
use crate::error::Result;

/// Names of the architectures, as `model_type` has them.
const BERT: &str = "bert";
const XLM_ROBERTA: &str = "xlm-roberta";

/// The id of the padding token in XLM-RoBERTa models whose config.json does not say.
const XLM_ROBERTA_PADDING: usize = 1;

/// Which of the two families a model belongs to. They compute the same; tables and heads are laid out differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// BERT (Devlin et al. 2018, <https://arxiv.org/abs/1810.04805>).
    Bert,
    /// XLM-RoBERTa (Conneau et al. 2019, <https://arxiv.org/abs/1911.02116>).
    XlmRoberta,
}

/// The sizes of an encoder in BERT's form.
#[derive(Debug, Clone, PartialEq)]
pub struct BertConfig {
    /// The family.
    pub architecture: Architecture,
    /// Rows of the word table.
    pub vocabulary: usize,
    /// Width of a token's vector.
    pub hidden: usize,
    /// Number of layers.
    pub layers: usize,
    /// Attention heads; divides `hidden`.
    pub heads: usize,
    /// Width between the two products of the feed-forward part.
    pub intermediate: usize,
    /// The longest input in tokens.
    pub positions: usize,
    /// Row of the position table that the first token gets: 0 for BERT; for XLM-RoBERTa one after the padding token's id,
    /// since fairseq counts padding as a position. The table has `first_position + positions` rows.
    pub first_position: usize,
    /// Rows of the token-type table.
    pub token_types: usize,
    /// Added to the variance in every LayerNorm.
    pub layer_norm_eps: f32,
}

impl BertConfig {
    /// Floating-point operations of the linear layers alone for `tokens` tokens: 2·m·n·k for each product, that is 2 for each
    /// weight and token. Attention's own products come on top.
    pub fn linear_flops(&self, tokens: usize) -> f64 {
        let weights = self.layers * self.hidden * (4 * self.hidden + 2 * self.intermediate);
        2.0 * weights as f64 * tokens as f64
    }

    /// Reads config.json and refuses what this encoder does not compute.
    pub(super) fn read(file: &JsonFile) -> Result<Self> {
        let architecture = match file.text("model_type") {
            Some(BERT) => Architecture::Bert,
            Some(XLM_ROBERTA) => Architecture::XlmRoberta,
            other => {
                let problem = format!(
                    "is {}, but only {BERT} and {XLM_ROBERTA} are supported: choose a model of these families",
                    other.unwrap_or("(none)")
                );
                return Err(file.unsupported("model_type", problem));
            }
        };
        let activation = file.text("hidden_act").unwrap_or("gelu");
        if !matches!(activation, "gelu" | "gelu_python") {
            let problem = format!("is {activation}, but only gelu (the exact one, by erf) is supported");
            return Err(file.unsupported("hidden_act", problem));
        }
        let position_kind = file.text("position_embedding_type").unwrap_or("absolute");
        if position_kind != "absolute" {
            let problem = format!("is {position_kind}, but only absolute is supported");
            return Err(file.unsupported("position_embedding_type", problem));
        }
        if file.flag("is_decoder")?.unwrap_or(false) {
            return Err(file.unsupported("is_decoder", "is true, but only encoders are supported"));
        }
        if file.get("quantization_config").is_some() {
            return Err(
                file.unsupported("quantization_config", "quantised weights are not supported: use f32, f16 or bf16")
            );
        }
        let first_position = match architecture {
            Architecture::Bert => 0,
            Architecture::XlmRoberta => file.count("pad_token_id")?.unwrap_or(XLM_ROBERTA_PADDING).saturating_add(1),
        };
        let rows = file.required_count("max_position_embeddings")?;
        let Some(positions) = rows.checked_sub(first_position).filter(|positions| *positions > 0) else {
            let problem = format!("is {rows}, but the first token already has position {first_position}");
            return Err(file.unsupported("max_position_embeddings", problem));
        };
        let config = Self {
            architecture,
            vocabulary: file.required_count("vocab_size")?,
            hidden: file.required_count("hidden_size")?,
            layers: file.required_count("num_hidden_layers")?,
            heads: file.required_count("num_attention_heads")?,
            intermediate: file.required_count("intermediate_size")?,
            positions,
            first_position,
            token_types: match file.count("type_vocab_size")? {
                Some(_) => file.required_count("type_vocab_size")?,
                None => 2,
            },
            layer_norm_eps: layer_norm_eps(file)?,
        };
        if !config.hidden.is_multiple_of(config.heads) {
            let problem = format!("is {}, which does not divide hidden_size {}", config.heads, config.hidden);
            return Err(file.unsupported("num_attention_heads", problem));
        }
        Ok(config)
    }
}

fn layer_norm_eps(file: &JsonFile) -> Result<f32> {
    let Some(value) = file.get("layer_norm_eps") else { return Ok(1e-12) };
    match value.as_f64() {
        Some(eps) if eps > 0.0 && eps < 1.0 => Ok(eps as f32),
        _ => Err(file.unsupported("layer_norm_eps", format!("must be a number between 0 and 1, got {}", short(value)))),
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(40).collect()
}
