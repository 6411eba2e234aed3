//! The hub's cache on disk, in the layout that huggingface_hub and hf-hub share.
//!
//! `models--owner--name/refs/<revision>` holds a commit hash, `snapshots/<commit>/` holds that commit's files as links into
//! `blobs/`, and `.no_exist/<commit>/<file>` remembers a file that the commit does not have.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Snapshot;
use crate::error::{Error, Result};
use crate::source::Repository;

/// Files without which no model loads. The weights come last, so that their presence means that the rest was asked for.
pub(super) const INDISPENSABLE: [&str; 3] = ["config.json", "tokenizer.json", "model.safetensors"];

/// Files that a repository may lack. When one is neither there nor known not to exist, the hub must be asked: without
/// modules.json, for one, nobody knows the pooling.
pub(super) const OPTIONAL: [&str; 3] =
    ["modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"];

/// The file that describes a module, such as the pooling in folder `1_Pooling`.
pub(super) const MODULE_CONFIG: &str = "config.json";

/// One snapshot of a model in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedModel {
    /// `owner/name`.
    pub repository: String,
    /// The commit hash.
    pub revision: String,
    /// Branches and tags that pointed to the commit when they were last asked for.
    pub references: Vec<String>,
    /// The folder, in sentence-transformers layout.
    pub folder: PathBuf,
    /// Size of the snapshot's files in bytes.
    pub bytes: u64,
    /// Are config.json, tokenizer.json and model.safetensors there?
    pub loadable: bool,
}

/// A snapshot that has at least the indispensable files.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) snapshot: Snapshot,
    /// Is every file there or known not to exist?
    pub(super) complete: bool,
}

/// The snapshot of `repository` in `cache`, if its indispensable files are there.
pub(super) fn find(cache: &Path, repository: &Repository) -> Option<Found> {
    let root = repository_folder(cache, repository.name());
    let revision = match fs::read_to_string(root.join("refs").join(repository.revision())) {
        Ok(commit) => commit.trim().to_owned(),
        // A pinned commit needs no reference.
        Err(_) => repository.revision().to_owned(),
    };
    let folder = snapshot_folder(cache, repository.name(), &revision);
    if !is_loadable(&folder) {
        return None;
    }
    let known = |file: &str| folder.join(file).is_file() || root.join(".no_exist").join(&revision).join(file).exists();
    let complete = OPTIONAL.iter().all(|file| known(file))
        && module_configs(&folder.join("modules.json")).iter().all(|file| known(file));
    Some(Found { snapshot: Snapshot { repository: repository.name().to_owned(), revision, folder }, complete })
}

/// All models in `cache`.
pub(super) fn list(cache: &Path) -> Result<Vec<CachedModel>> {
    let mut models = Vec::new();
    for entry in entries(cache)? {
        let Some(name) =
            entry.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("models--"))
        else {
            continue;
        };
        let repository = name.replacen("--", "/", 1);
        let references = references(&entry.join("refs"))?;
        for folder in entries(&entry.join("snapshots"))? {
            let Some(revision) = folder.file_name().and_then(|name| name.to_str()).map(str::to_owned) else { continue };
            models.push(CachedModel {
                repository: repository.clone(),
                references: references
                    .iter()
                    .filter(|(_, commit)| *commit == revision)
                    .map(|(reference, _)| reference.clone())
                    .collect(),
                bytes: size(&folder)?,
                loadable: is_loadable(&folder),
                revision,
                folder,
            });
        }
    }
    models.sort_by(|a, b| (&a.repository, &a.revision).cmp(&(&b.repository, &b.revision)));
    Ok(models)
}

/// The repository and commit that a folder belongs to, when it is a snapshot in a cache.
pub(crate) fn identify(folder: &Path) -> Option<(String, String)> {
    let revision = folder.file_name()?.to_str()?;
    let snapshots = folder.parent()?;
    let name = snapshots.parent()?.file_name()?.to_str()?.strip_prefix("models--")?;
    (snapshots.file_name()? == "snapshots").then(|| (name.replacen("--", "/", 1), revision.to_owned()))
}

/// The SHA-256 that the cache promises for `file`, when it is a link to a blob named by one (large files are).
pub(crate) fn promised_sha256(file: &Path) -> Option<String> {
    let blob = fs::canonicalize(file).ok()?;
    let name = blob.file_name()?.to_str()?;
    let is_blob = blob.parent()?.file_name()? == "blobs";
    let is_hash = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    (is_blob && is_hash).then(|| name.to_owned())
}

/// The folder of a repository in `cache`.
pub(super) fn repository_folder(cache: &Path, name: &str) -> PathBuf {
    cache.join(format!("models--{}", name.replace('/', "--")))
}

/// The folder of a commit's files.
pub(super) fn snapshot_folder(cache: &Path, name: &str, commit: &str) -> PathBuf {
    repository_folder(cache, name).join("snapshots").join(commit)
}

/// Remembers that `commit` has no `file`.
pub(super) fn mark_missing(cache: &Path, name: &str, commit: &str, file: &str) -> Result<()> {
    let marker = repository_folder(cache, name).join(".no_exist").join(commit).join(file);
    let write = |marker: &Path| {
        fs::create_dir_all(marker.parent().unwrap_or(marker))?;
        fs::write(marker, [])
    };
    write(&marker).map_err(|source| Error::io(&marker, source))
}

/// The configuration files of the modules after the first that `modules.json` names; none when it cannot be read. Paths that
/// would leave the folder are left out.
pub(super) fn module_configs(modules: &Path) -> Vec<String> {
    let Ok(text) = fs::read_to_string(modules) else { return Vec::new() };
    let Ok(serde_json::Value::Array(modules)) = serde_json::from_str(&text) else { return Vec::new() };
    modules
        .iter()
        .filter(|module| {
            let kind = module.get("type").and_then(|kind| kind.as_str()).unwrap_or_default();
            !kind.ends_with("Transformer") && !kind.ends_with("Normalize")
        })
        .filter_map(|module| module.get("path").and_then(|path| path.as_str()))
        .filter(|path| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            !path.is_empty() && path.bytes().all(allowed)
        })
        .map(|path| format!("{path}/{MODULE_CONFIG}"))
        .collect()
}

fn is_loadable(folder: &Path) -> bool {
    INDISPENSABLE.iter().all(|file| folder.join(file).is_file())
}

/// Every reference below `folder` with the commit it holds. Branch names may contain slashes.
fn references(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut pending = vec![(String::new(), folder.to_path_buf())];
    while let Some((prefix, folder)) = pending.pop() {
        for entry in entries(&folder)? {
            let Some(name) = entry.file_name().and_then(|name| name.to_str()) else { continue };
            let name = format!("{prefix}{name}");
            if entry.is_dir() {
                pending.push((format!("{name}/"), entry));
            } else if let Ok(commit) = fs::read_to_string(&entry) {
                found.push((name, commit.trim().to_owned()));
            }
        }
    }
    found.retain(|(name, commit)| name != commit);
    found.sort();
    Ok(found)
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in entries(folder)? {
        if entry.is_dir() {
            bytes += size(&entry)?;
        } else {
            // A dangling link counts as nothing.
            bytes += fs::metadata(&entry).map_or(0, |metadata| metadata.len());
        }
    }
    Ok(bytes)
}

/// The paths in `folder`; none when it does not exist.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = || fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>();
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        result => result.map_err(|source| Error::io(folder, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_folder_is_recognised() {
        let folder = Path::new("/c/models--BAAI--bge-small-en-v1.5/snapshots/abc");
        assert_eq!(identify(folder), Some(("BAAI/bge-small-en-v1.5".to_owned(), "abc".to_owned())));
        assert_eq!(identify(Path::new("/models/bge-small-en-v1.5")), None);
        assert_eq!(identify(Path::new("/")), None);
    }

    #[test]
    fn only_pooling_like_modules_have_configurations_and_no_path_escapes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("modules.json");
        let text = r#"[{"path":"","type":"x.Transformer"},{"path":"1_Pooling","type":"x.Pooling"},
            {"path":"../../etc","type":"x.Dense"},{"path":"2_Normalize","type":"x.Normalize"}]"#;
        fs::write(&path, text).unwrap();
        assert_eq!(module_configs(&path), ["1_Pooling/config.json"]);
        fs::write(&path, "{").unwrap();
        assert!(module_configs(&path).is_empty());
    }

    #[test]
    fn an_absent_cache_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(list(&folder.path().join("none")).unwrap(), []);
    }
}
