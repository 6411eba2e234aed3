//! The folder of a reranker: a sequence classifier with one label, which config.json alone describes.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::bert_config::{Architecture, BertConfig};
use super::json::JsonFile;
use super::{folder_name, read_config_file, within_positions};
use crate::device::Device;
use crate::error::Result;
use crate::hub::cache;
use crate::precision::Precision;

/// What the class of every classifier of pairs is called at its end.
const CLASSIFIER: &str = "ForSequenceClassification";

/// The longest input unless the caller says otherwise, in tokens: as FlagEmbedding's rerankers, also for those that could
/// read more (bge-reranker-v2-m3 has 8192 positions).
const DEFAULT_MAX_TOKENS: usize = 512;

/// Labels of a classifier whose config.json does not say (as in transformers).
const DEFAULT_LABELS: usize = 2;

/// What the caller decides instead of a reranker's files; nothing by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RerankOverrides {
    /// The model's name in spans and answers.
    pub name: Option<String>,
    /// Most tokens of a pair, special tokens included; up to what the model has positions for. 512 by default, or the
    /// positions where the model has fewer.
    pub max_tokens: Option<usize>,
    /// What computes.
    pub device: Device,
    /// In how many bits the weights of linear layers are kept.
    pub dtype: Precision,
}

/// What a reranker's config.json says.
#[derive(Debug, Clone, PartialEq)]
pub struct RerankerFolder {
    /// The folder.
    pub path: PathBuf,
    /// The model's name: the repository, or the folder's own name.
    pub name: String,
    /// The commit hash when the folder is a hub's snapshot, else empty.
    pub revision: String,
    /// The encoder.
    pub config: BertConfig,
    /// Most tokens of a pair, special tokens included.
    pub max_tokens: usize,
}

impl RerankerFolder {
    /// Reads the folder at `path`.
    ///
    /// # Errors
    /// Names the file and key that is missing, broken, or asks for something that is not built.
    pub fn read(path: &Path, overrides: &RerankOverrides) -> Result<Self> {
        let file = read_config_file(path)?;
        let config = BertConfig::read(&file)?;
        let expected = match config.architecture {
            Architecture::Bert => "BertForSequenceClassification",
            Architecture::XlmRoberta => "XLMRobertaForSequenceClassification",
        };
        if !architectures(&file).any(|name| name == expected) {
            let stated = file.get("architectures").map_or_else(|| "missing".to_owned(), Value::to_string);
            let problem = format!(
                "is {stated}, but a reranker of this family is a {expected}: an embedding model cannot rerank, choose a \
                 cross-encoder such as BAAI/bge-reranker-base"
            );
            return Err(file.unsupported("architectures", problem));
        }
        one_label(&file)?;
        let (folder_name, revision) = cache::identify(path).unwrap_or_else(|| (folder_name(path), String::new()));
        Ok(Self {
            path: path.to_path_buf(),
            name: overrides.name.clone().unwrap_or(folder_name),
            revision,
            max_tokens: match overrides.max_tokens {
                Some(max_tokens) => within_positions(max_tokens, config.positions)?,
                None => DEFAULT_MAX_TOKENS.min(config.positions),
            },
            config,
        })
    }
}

/// A reranker given as an embedding model would embed without an error, and its vectors would mean nothing. A classifier with
/// a modules.json was made into an embedding model.
pub(super) fn refuse_as_embedder(path: &Path, file: &JsonFile) -> Result<()> {
    match architectures(file).find(|name| name.ends_with(CLASSIFIER)) {
        Some(name) if !path.join("modules.json").is_file() => {
            let problem = format!("is {name}, a reranker or another classifier: choose an embedding model");
            Err(file.unsupported("architectures", problem))
        }
        _ => Ok(()),
    }
}

fn architectures(file: &JsonFile) -> impl Iterator<Item = &str> {
    file.get("architectures").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The number of labels is that of `id2label`, else `num_labels`, as in transformers.
fn one_label(file: &JsonFile) -> Result<()> {
    let (key, labels) = match (file.get("id2label").and_then(Value::as_object), file.count("num_labels")?) {
        (Some(names), _) => ("id2label", names.len()),
        (None, Some(count)) => ("num_labels", count),
        (None, None) => ("num_labels", DEFAULT_LABELS),
    };
    if labels == 1 {
        return Ok(());
    }
    let problem = format!(
        "gives the classifier {labels} labels, but a reranker has num_labels 1, whose logit says how well a pair fits"
    );
    Err(file.unsupported(key, problem))
}
