//! Where the hub is, where its cache is, and how long to wait for it: the variables of huggingface_hub.

use std::fmt;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Result};

/// The public hub.
pub const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// How long the first answer may take. Name resolution, connection and TLS are in it, and 10 s is what a user is promised.
pub const FIRST_ANSWER: Duration = Duration::from_secs(8);

/// How long a download that has begun may stand still.
pub const STALL: Duration = Duration::from_secs(60);

/// What is needed to talk to a hub.
#[derive(Clone, PartialEq, Eq)]
pub struct HubSettings {
    /// The cache folder, which holds `models--owner--name` folders.
    pub cache: PathBuf,
    /// The hub's address, without a slash at its end.
    pub endpoint: String,
    /// Sent as a bearer token, when given.
    pub token: Option<String>,
    /// Use the cache only.
    pub offline: bool,
    /// Longest wait for the first answer.
    pub first_answer: Duration,
    /// Longest wait for the next bytes.
    pub stall: Duration,
    /// Draw a progress bar on stderr.
    pub progress: bool,
}

impl HubSettings {
    /// Settings for `cache` and `endpoint`: online, without token or progress bar, with the default time limits.
    pub fn new(cache: impl Into<PathBuf>, endpoint: &str) -> Self {
        Self {
            cache: cache.into(),
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: None,
            offline: false,
            first_answer: FIRST_ANSWER,
            stall: STALL,
            progress: false,
        }
    }

    /// Settings from the environment, with a progress bar when stderr is a terminal:
    ///
    /// | variable | meaning |
    /// |---|---|
    /// | `HF_HUB_CACHE` | the cache folder; default `$HF_HOME/hub` |
    /// | `HF_HOME` | default `$XDG_CACHE_HOME/huggingface`, else `~/.cache/huggingface` |
    /// | `HF_ENDPOINT` | the hub's address; default [`DEFAULT_ENDPOINT`] |
    /// | `HF_TOKEN` | the token; default what the file `$HF_HOME/token` holds |
    /// | `HF_HUB_OFFLINE` | 1, true, yes or on: use the cache only |
    ///
    /// # Errors
    /// [`Error::Invalid`] when the endpoint is not an http or https address, or no home folder can be found.
    pub fn from_env() -> Result<Self> {
        let mut settings = Self::from_lookup(&|name| std::env::var(name).ok())?;
        settings.progress = std::io::stderr().is_terminal();
        Ok(settings)
    }

    /// As [`HubSettings::from_env`], with the variables from `lookup` and without a progress bar. An empty variable counts as
    /// not set.
    ///
    /// # Errors
    /// As [`HubSettings::from_env`].
    pub fn from_lookup(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let get = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let home = match (get("HF_HOME"), get("XDG_CACHE_HOME"), get("HOME")) {
            (Some(home), _, _) => PathBuf::from(home),
            (None, Some(cache), _) => PathBuf::from(cache).join("huggingface"),
            (None, None, Some(user)) => PathBuf::from(user).join(".cache/huggingface"),
            (None, None, None) => {
                let problem = "neither HF_HOME nor HOME is set: set HF_HOME to a folder for models".to_owned();
                return Err(Error::Invalid { field: "HF_HOME", problem });
            }
        };
        let cache = get("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from);
        let endpoint = get("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        if !is_http_address(&endpoint) {
            let problem = format!("must be an address such as {DEFAULT_ENDPOINT}, got {endpoint:?}");
            return Err(Error::Invalid { field: "HF_ENDPOINT", problem });
        }
        let token_file = || std::fs::read_to_string(home.join("token")).ok();
        let token = get("HF_TOKEN").or_else(token_file).map(|token| token.trim().to_owned());
        let offline = get("HF_HUB_OFFLINE")
            .is_some_and(|value| matches!(value.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"));
        Ok(Self { token: token.filter(|token| !token.is_empty()), offline, ..Self::new(cache, &endpoint) })
    }
}

impl fmt::Debug for HubSettings {
    /// Everything but the token's text.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HubSettings")
            .field("cache", &self.cache)
            .field("endpoint", &self.endpoint)
            .field("token", &self.token.as_ref().map(|_| "(hidden)"))
            .field("offline", &self.offline)
            .field("first_answer", &self.first_answer)
            .field("stall", &self.stall)
            .field("progress", &self.progress)
            .finish()
    }
}

fn is_http_address(endpoint: &str) -> bool {
    let host = endpoint.strip_prefix("https://").or_else(|| endpoint.strip_prefix("http://"));
    host.is_some_and(|host| {
        let named = host.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric() || first == b'[');
        named
            && host
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'"' | b'<' | b'>' | b'\\'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<HubSettings> {
        HubSettings::from_lookup(&|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_cache_follows_the_usual_variables() {
        let cases: [(&[(&str, &str)], &str); 4] = [
            (&[("HOME", "/h")], "/h/.cache/huggingface/hub"),
            (&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub"),
            (&[("HOME", "/h"), ("HF_HOME", "/hf")], "/hf/hub"),
            (&[("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/c")], "/c"),
        ];
        for (variables, cache) in cases {
            assert_eq!(settings(variables).unwrap().cache, PathBuf::from(cache), "{variables:?}");
        }
        assert!(settings(&[]).is_err());
    }

    #[test]
    fn the_token_comes_from_the_variable_or_the_file_and_is_never_printed() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("token"), "from-file\n").unwrap();
        let hf_home = home.path().to_str().unwrap();
        let from_file = settings(&[("HF_HOME", hf_home)]).unwrap();
        assert_eq!(from_file.token.as_deref(), Some("from-file"));
        let from_variable = settings(&[("HF_HOME", hf_home), ("HF_TOKEN", "from-variable")]).unwrap();
        assert_eq!(from_variable.token.as_deref(), Some("from-variable"));
        assert!(!format!("{from_variable:?}").contains("from-variable"));
    }

    #[test]
    fn endpoint_and_offline_are_checked() {
        let base = ("HF_HOME", "/hf");
        assert_eq!(settings(&[base]).unwrap().endpoint, "https://huggingface.co");
        assert_eq!(settings(&[base, ("HF_ENDPOINT", "http://m:8080/")]).unwrap().endpoint, "http://m:8080");
        for bad in ["hf-mirror.com", "ftp://x", "https://", "https:// x", "http://h/?a"] {
            let error = settings(&[base, ("HF_ENDPOINT", bad)]).unwrap_err().to_string();
            assert!(error.starts_with("HF_ENDPOINT: must be an address"), "{bad}: {error}");
        }
        for (value, offline) in [("1", true), ("TRUE", true), ("yes", true), ("on", true), ("0", false), ("", false)] {
            assert_eq!(settings(&[base, ("HF_HUB_OFFLINE", value)]).unwrap().offline, offline, "{value:?}");
        }
    }
}
