//! modules.json and 1_Pooling/config.json: which pooling, and whether vectors are scaled to unit length.

use std::path::Path;

use serde_json::Value;
use toller_core::fingerprint::Pooling;

use super::bert_config::BertConfig;
use super::json::JsonFile;
use super::{Overrides, bert_config};
use crate::error::{Error, Result};

/// What every pooling flag of sentence-transformers starts with.
const FLAG_PREFIX: &str = "pooling_mode_";

/// Pooling and normalisation: the overrides, else the files, else (for BGE, whose model cards say so) CLS and unit length.
pub(super) fn read(path: &Path, config: &BertConfig, overrides: &Overrides, is_bge: bool) -> Result<(Pooling, bool)> {
    let stated = match JsonFile::read_optional(&path.join("modules.json"))? {
        Some(modules) => Some(read_modules(path, &modules, config)?),
        None => None,
    };
    let (pooling, normalize) = match stated {
        Some((pooling, normalize)) => (Some(pooling), normalize),
        None if is_bge => (Some(Pooling::Cls), true),
        None => (None, true),
    };
    let missing = || Error::FileMissing {
        path: path.join("modules.json"),
        hint: "it says how token vectors become one vector: fetch it, or set the pooling (cls or mean) yourself",
    };
    Ok((overrides.pooling.or(pooling).ok_or_else(missing)?, overrides.normalize.unwrap_or(normalize)))
}

/// The pipeline must be a transformer, then a pooling, then perhaps a normalisation: anything else changes the vectors.
fn read_modules(path: &Path, modules: &JsonFile, config: &BertConfig) -> Result<(Pooling, bool)> {
    let Value::Array(list) = modules.value() else {
        return Err(modules.unsupported("(root)", "must be a list of modules"));
    };
    let mut transformers = 0;
    let mut pooling = None;
    let mut normalize = false;
    for (index, module) in list.iter().enumerate() {
        let key = format!("[{index}].type");
        let kind = module.get("type").and_then(Value::as_str).unwrap_or_default();
        let folder = module.get("path").and_then(Value::as_str).unwrap_or_default();
        // The package that holds a class differs between versions of sentence-transformers; its name does not.
        match kind.rsplit('.').next().unwrap_or_default() {
            "Transformer" if index == 0 && folder.is_empty() => transformers += 1,
            "Transformer" => {
                return Err(modules
                    .unsupported(&key, "only one Transformer, the first module, in the folder itself, is supported"));
            }
            "Pooling" if transformers == 1 && pooling.is_none() => pooling = Some(read_pooling(path, folder, config)?),
            "Normalize" if pooling.is_some() && !normalize => normalize = true,
            name => {
                let problem = format!(
                    "module {name:?} at this place is not supported: only Transformer, Pooling and Normalize, in this order, are"
                );
                return Err(modules.unsupported(&key, problem));
            }
        }
    }
    match pooling {
        Some(pooling) => Ok((pooling, normalize)),
        None => Err(modules.unsupported("(root)", "has no Pooling module, so no vector comes out")),
    }
}

fn read_pooling(path: &Path, folder: &str, config: &bert_config::BertConfig) -> Result<Pooling> {
    let hint = "modules.json names it; it says how token vectors become one vector: fetch it";
    let file = JsonFile::read(&path.join(folder).join("config.json"), hint)?;
    if file.flag("include_prompt")? == Some(false) {
        return Err(
            file.unsupported("include_prompt", "is false, but leaving the prompt out of the mean is not supported")
        );
    }
    for key in ["word_embedding_dimension", "embedding_dimension"] {
        if let Some(width) = file.count(key)?
            && width != config.hidden
        {
            let problem = format!("is {width}, but hidden_size in config.json is {}", config.hidden);
            return Err(file.unsupported(key, problem));
        }
    }
    if let Some(mode) = file.get("pooling_mode") {
        return match mode.as_str() {
            Some("cls") => Ok(Pooling::Cls),
            Some("mean") => Ok(Pooling::Mean),
            _ => {
                Err(file.unsupported("pooling_mode", format!("is {mode}, but only \"cls\" and \"mean\" are supported")))
            }
        };
    }
    let flags: Vec<&str> = file
        .value()
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, value)| key.starts_with(FLAG_PREFIX) && value.as_bool() == Some(true))
        .map(|(key, _)| key.as_str())
        .collect();
    match flags.as_slice() {
        ["pooling_mode_cls_token"] => Ok(Pooling::Cls),
        ["pooling_mode_mean_tokens"] => Ok(Pooling::Mean),
        [] => Err(file.unsupported("pooling_mode_cls_token", "no pooling mode is on: cls or mean must be")),
        [only] => Err(file.unsupported(only, "this pooling is not supported: only cls and mean are")),
        [first, ..] => {
            let problem = format!("{} are on together, but only one of cls and mean is supported", flags.join(" and "));
            Err(file.unsupported(first, problem))
        }
    }
}
