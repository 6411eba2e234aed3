//! A model's folder in sentence-transformers layout: what its small files say about it.
//!
//! [`bert_config`] reads config.json, `modules` the pooling and normalisation, `prompts` the instructions, and
//! [`ModelFolder::read`] puts them together with the caller's [`Overrides`], which beat the files. [`RerankerFolder::read`] is
//! the same for rerankers, which have config.json alone.

pub mod bert_config;
mod json;
mod modules;
mod prompts;
mod reranker;

use std::path::{Path, PathBuf};

use toller_core::fingerprint::Pooling;

use crate::bge;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::hub::cache;
use crate::precision::Precision;
use bert_config::BertConfig;
use json::JsonFile;
pub use reranker::{RerankOverrides, RerankerFolder};

/// What the caller decides instead of the model's files; nothing by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// The model's name in fingerprints and spans.
    pub name: Option<String>,
    /// Pooling.
    pub pooling: Option<Pooling>,
    /// Scale vectors to unit length?
    pub normalize: Option<bool>,
    /// Most tokens of a text, special tokens included; from one more than the special tokens up to what the model has
    /// positions for.
    pub max_tokens: Option<usize>,
    /// Put before every query; empty for nothing.
    pub query_instruction: Option<String>,
    /// Put before every document; empty for nothing.
    pub document_instruction: Option<String>,
    /// What computes.
    pub device: Device,
    /// In how many bits the weights of linear layers are kept.
    pub dtype: Precision,
}

/// What a model's small files say.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelFolder {
    /// The folder.
    pub path: PathBuf,
    /// The model's name: the repository, or the folder's own name.
    pub name: String,
    /// The commit hash when the folder is a hub's snapshot, else empty.
    pub revision: String,
    /// The architecture.
    pub config: BertConfig,
    /// How token vectors become one vector.
    pub pooling: Pooling,
    /// Are vectors scaled to unit length?
    pub normalize: bool,
    /// Most tokens of a text, special tokens included.
    pub max_tokens: usize,
    /// Must the text be lower-cased unless the tokenizer does it?
    pub lower_case: bool,
    /// Put before every query.
    pub query_instruction: String,
    /// Put before every document.
    pub document_instruction: String,
}

impl ModelFolder {
    /// Reads the folder at `path`.
    ///
    /// # Errors
    /// Names the file and key that is missing, broken, or asks for something that is not built.
    pub fn read(path: &Path, overrides: &Overrides) -> Result<Self> {
        let config_file = read_config_file(path)?;
        let config = BertConfig::read(&config_file)?;
        reranker::refuse_as_embedder(path, &config_file)?;
        // A local copy of a BGE model may have any name, but its config.json remembers where it came from. A repository's
        // name is trusted alone: a fine-tuned model remembers its base too, and was perhaps trained without the instruction.
        let (folder_name, revision, bge_instruction) = match cache::identify(path) {
            Some((name, revision)) => {
                let instruction = bge::query_instruction(&name);
                (name, revision, instruction)
            }
            None => {
                let name = folder_name(path);
                let origin = config_file.text("_name_or_path").unwrap_or_default();
                let instruction = bge::query_instruction(&name).or_else(|| bge::query_instruction(origin));
                (name, String::new(), instruction)
            }
        };

        let (pooling, normalize) = modules::read(path, &config, overrides, bge_instruction.is_some())?;
        let sentence_file = JsonFile::read_optional(&path.join("sentence_bert_config.json"))?;
        let prompts = prompts::read(path, bge_instruction)?;
        Ok(Self {
            path: path.to_path_buf(),
            name: overrides.name.clone().unwrap_or(folder_name),
            revision,
            pooling,
            normalize,
            max_tokens: max_tokens(sentence_file.as_ref(), &config, overrides)?,
            lower_case: match &sentence_file {
                Some(file) => file.flag("do_lower_case")?.unwrap_or(false),
                None => false,
            },
            query_instruction: overrides.query_instruction.clone().unwrap_or(prompts.query),
            document_instruction: overrides.document_instruction.clone().unwrap_or(prompts.document),
            config,
        })
    }
}

fn read_config_file(path: &Path) -> Result<JsonFile> {
    if !path.is_dir() {
        return Err(Error::FolderMissing(path.to_path_buf()));
    }
    JsonFile::read(&path.join("config.json"), "a model's folder has a config.json: check the path")
}

/// The longest input: the override, else sentence_bert_config.json, else what the model has positions for (which is also what
/// sentence-transformers does without the file).
fn max_tokens(file: Option<&JsonFile>, config: &BertConfig, overrides: &Overrides) -> Result<usize> {
    let positions = config.positions;
    if let Some(max_tokens) = overrides.max_tokens {
        return within_positions(max_tokens, positions);
    }
    let Some(file) = file else { return Ok(positions) };
    match file.count("max_seq_length")? {
        Some(stated) if stated == 0 || stated > positions => {
            let problem = format!("is {stated}, but config.json has {positions} positions: set max_tokens");
            Err(file.unsupported("max_seq_length", problem))
        }
        Some(stated) => Ok(stated),
        None => Ok(positions),
    }
}

fn within_positions(max_tokens: usize, positions: usize) -> Result<usize> {
    if max_tokens == 0 || max_tokens > positions {
        let problem = format!("must be 1 to {positions}, the model's positions, got {max_tokens}");
        return Err(Error::Invalid { field: "max_tokens", problem });
    }
    Ok(max_tokens)
}

fn folder_name(path: &Path) -> String {
    let resolved = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    resolved.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}
