//! The configuration of both servers, the gateway and the embedding worker: flags beat environment variables, those beat the file, and that beats the defaults.
//!
//! Every setting stands once in [`SETTINGS`], from which the flags, the variables and their help are made; lists (API keys and
//! named models) stand in the file only.

mod checks;
mod language_model;
mod models;
mod program;
mod qdrant;
mod settings;
mod store;
mod variables;
mod words;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Serialized, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};
use serde::{Deserialize, Serialize};
use toller_core::{Role, Tenant};

pub use language_model::LlmConfig;
pub use models::{
    Device, Dtype, EmbeddingConfig, EmbeddingProvider, NamedModelConfig, NamedRerankerConfig, RerankConfig,
    RerankProvider,
};
pub use program::Program;
pub use qdrant::QdrantSectionConfig;
pub use settings::{SETTINGS, Setting};
pub use store::{StoreBackend, StoreConfig, StoreDurability};
pub use variables::unknown_variables;

/// The whole configuration.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The gRPC server.
    pub server: ServerConfig,
    /// Where data is kept.
    pub data: DataConfig,
    /// What keeps it.
    pub store: StoreConfig,
    /// How backups are made.
    pub backup: BackupConfig,
    /// Embedding models.
    pub embedding: EmbeddingConfig,
    /// Rerankers.
    pub rerank: RerankConfig,
    /// The language model.
    pub llm: LlmConfig,
    /// Bounds on requests.
    pub limits: LimitsConfig,
    /// Who may call.
    pub auth: AuthConfig,
    /// Logs, metrics and traces.
    pub telemetry: TelemetryConfig,
}

/// Section `server`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// Address of the gRPC server; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Milliseconds between saying NOT_SERVING and refusing new connections at shutdown.
    pub drain_grace_ms: u64,
    /// Milliseconds that running requests get to finish at shutdown.
    pub drain_timeout_ms: u64,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 7700)), drain_grace_ms: 0, drain_timeout_ms: 20_000 }
    }
}

/// Section `data`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataConfig {
    /// Folder of the data.
    pub dir: PathBuf,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self { dir: PathBuf::from("toller-data") }
    }
}

/// Section `backup`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackupConfig {
    /// Folder in which a collection is put aside before the client gets it; none is the data folder, or the system's folder for
    /// temporary files where there is no data folder.
    pub spool_dir: Option<PathBuf>,
}

/// Section `limits`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Largest message in bytes, in and out.
    pub max_message_bytes: usize,
    /// Most documents or ids of one request.
    pub max_documents: usize,
    /// Longest text in bytes.
    pub max_text_bytes: usize,
    /// Largest document of an index run, as its source has it.
    pub max_document_bytes: usize,
    /// Most metadata of one document in bytes, as encoded in protobuf.
    pub max_metadata_bytes: usize,
    /// Largest k and fetch_k.
    pub max_k: u32,
    /// Most queries of one BatchRetrieve.
    pub max_queries: usize,
    /// Most retrievers of one tree.
    pub max_retrievers: usize,
    /// Deepest filter.
    pub max_filter_depth: usize,
    /// Most conditions and values of a filter.
    pub max_filter_nodes: usize,
    /// Most requests at a time.
    pub max_concurrent_requests: usize,
    /// Deadline of requests without one, in milliseconds.
    pub default_deadline_ms: u64,
    /// Latest deadline, in milliseconds.
    pub max_deadline_ms: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            max_message_bytes: 16 << 20,
            max_documents: 1000,
            max_text_bytes: 1 << 20,
            max_document_bytes: 64 << 20,
            max_metadata_bytes: 64 << 10,
            max_k: 1000,
            max_queries: 100,
            max_retrievers: 64,
            max_filter_depth: 16,
            max_filter_nodes: 4096,
            max_concurrent_requests: 256,
            default_deadline_ms: 60_000,
            max_deadline_ms: 600_000,
        }
    }
}

/// Section `auth`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AuthConfig {
    /// Static API keys; none lets everybody in as the default tenant with every role.
    pub keys: Vec<ApiKeyConfig>,
    /// Must every caller be of a tenant with a name of its own?
    pub require_tenant: bool,
}

/// One static API key. Only its hash is configured.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKeyConfig {
    /// For logs and spans.
    pub name: String,
    /// SHA-256 of the key, hexadecimal.
    pub sha256: String,
    /// Whose data it reaches.
    #[serde(default)]
    pub tenant: Tenant,
    /// What it may do.
    pub role: Role,
}

/// How logs look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Section `telemetry`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TelemetryConfig {
    /// How logs look.
    pub log_format: LogFormat,
    /// A level, or directives such as `info,toller_store=debug`.
    pub log_level: String,
    /// Address of the Prometheus endpoint; `off` for none.
    pub metrics_listen: MetricsListen,
    /// Put query texts and documents into spans.
    pub record_content: bool,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            log_format: LogFormat::Human,
            log_level: "info".to_owned(),
            metrics_listen: MetricsListen::Address(SocketAddr::from(([127, 0, 0, 1], 7701))),
            record_content: false,
        }
    }
}

/// Where metrics are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum MetricsListen {
    /// At this address; port 0 takes a free one.
    Address(SocketAddr),
    /// Nowhere.
    Off,
}

impl TryFrom<String> for MetricsListen {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse()
            .map(Self::Address)
            .map_err(|_| format!("must be an address such as 127.0.0.1:7701, or off, got {text:?}"))
    }
}

impl From<MetricsListen> for String {
    fn from(listen: MetricsListen) -> Self {
        match listen {
            MetricsListen::Address(address) => address.to_string(),
            MetricsListen::Off => "off".to_owned(),
        }
    }
}

/// A fault of the configuration; names the key and where it was set.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration file {path} cannot be read: {fault}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        fault: std::io::Error,
    },
    /// A key is unknown, or its value has the wrong form.
    #[error("{0}")]
    Malformed(String),
    /// A value is out of range, or contradicts another.
    #[error("{key} {description}{origin}")]
    Invalid {
        /// The key, such as `limits.max_k`.
        key: String,
        /// What is wrong and what would be right.
        description: String,
        /// Where it was set, such as ` (in toller.toml)`; empty for a default.
        origin: String,
    },
}

impl Config {
    /// Reads and checks the configuration of `program`.
    ///
    /// `environment` is the process environment (variables that are no setting are left alone: Kubernetes sets some of its
    /// own that begin alike), `flags` are keys of [`SETTINGS`] with the text that was given.
    ///
    /// # Errors
    /// The key at fault and the file, variable or flag that it was set in. A setting that `program` does not read is one.
    pub fn load(
        program: Program,
        file: Option<&Path>,
        environment: &BTreeMap<String, String>,
        flags: &[(&'static str, String)],
    ) -> Result<Self, ConfigError> {
        let mut figment = Figment::from(Serialized::defaults(Self::default()));
        if let Some(path) = file {
            let text = std::fs::read_to_string(path)
                .map_err(|fault| ConfigError::Unreadable { path: path.display().to_string(), fault })?;
            figment = figment.merge(NamedText { path: path.to_owned(), text });
        }
        for setting in SETTINGS {
            if let Some(text) = environment.get(&setting.env()) {
                figment =
                    figment.merge(TextSetting::new(setting, text, format!("environment variable {}", setting.env())));
            }
        }
        for setting in SETTINGS {
            for (_, text) in flags.iter().filter(|(key, _)| *key == setting.key) {
                figment = figment.merge(TextSetting::new(setting, text, format!("flag --{}", setting.flag())));
            }
        }
        let config: Self =
            figment.extract().map_err(|error| ConfigError::Malformed(words::describe(error, &figment)))?;
        let origins = Origins(&figment);
        program.check(&origins)?;
        checks::check(program, &config, &origins)?;
        Ok(config)
    }
}

/// Where values were set.
struct Origins<'a>(&'a Figment);

impl Origins<'_> {
    /// The file, variable or flag that set the key; none for a default.
    fn of(&self, key: &str) -> Option<String> {
        let metadata = self.0.find_metadata(key)?;
        // The defaults come from this struct, and figment names them after it.
        (!metadata.name.contains("Config")).then(|| metadata.name.to_string())
    }

    /// The error for a key.
    fn invalid(&self, key: &str, description: impl Into<String>) -> ConfigError {
        let origin = self.of(key).map(|origin| format!(" (in {origin})")).unwrap_or_default();
        ConfigError::Invalid { key: key.to_owned(), description: description.into(), origin }
    }
}

/// A TOML file that was read already, so that its errors name the path as it was given.
struct NamedText {
    path: PathBuf,
    text: String,
}

impl Provider for NamedText {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.path.display().to_string())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Toml::string(&self.text).data()
    }
}

/// One setting given as text, by a variable or a flag.
struct TextSetting {
    key: &'static str,
    value: Value,
    origin: String,
}

impl TextSetting {
    fn new(setting: &Setting, text: &str, origin: String) -> Self {
        let value = match setting.form {
            settings::Form::Text => Value::from(text),
            settings::Form::Integer => text.parse::<u64>().map_or_else(|_| Value::from(text), Value::from),
            settings::Form::Boolean => text.parse::<bool>().map_or_else(|_| Value::from(text), Value::from),
        };
        Self { key: setting.key, value, origin }
    }
}

impl Provider for TextSetting {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let nested = figment::util::nest(self.key, self.value.clone());
        let dict = nested.into_dict().unwrap_or_default();
        Ok(Map::from([(Profile::Default, dict)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is set, and parts of the error that it must give.
    struct Faulty {
        toml: &'static str,
        environment: &'static [(&'static str, &'static str)],
        flags: &'static [(&'static str, &'static str)],
        expected: &'static [&'static str],
    }

    fn load(toml: &str, environment: &[(&str, &str)], flags: &[(&'static str, &str)]) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toller.toml");
        std::fs::write(&file, toml).unwrap();
        let environment = environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let flags: Vec<_> = flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
        Config::load(Program::Gateway, Some(&file), &environment, &flags).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_beat_the_environment_which_beats_the_file() {
        let toml = "[limits]\nmax_k = 10\nmax_documents = 11\nmax_queries = 12";
        let environment = [("TOLLER_LIMITS_MAX_DOCUMENTS", "21"), ("TOLLER_LIMITS_MAX_QUERIES", "22")];
        let config = load(toml, &environment, &[("limits.max_queries", "32")]).unwrap();
        assert_eq!((config.limits.max_k, config.limits.max_documents, config.limits.max_queries), (10, 21, 32));
        assert_eq!(config.limits.max_filter_depth, 16);
    }

    #[test]
    fn faults_name_the_key_and_where_it_was_set() {
        let in_file = |toml, expected| Faulty { toml, environment: &[], flags: &[], expected };
        let cases = [
            in_file("[limits]\nmax_j = 10", &["max_j", "toller.toml"]),
            in_file("[limits]\nmax_k = \"ten\"", &["limits.max_k", "toller.toml"]),
            in_file("[limits]\nmax_k = 0", &["limits.max_k must be at least 1", "toller.toml"]),
            in_file("limits = 3", &["limits", "toller.toml"]),
            in_file("not toml", &["toller.toml"]),
            in_file("[embedding]\nprovider = \"toller\"", &["embedding.address must be given"]),
            in_file("[embedding]\nprovider = \"tei\"", &["embedding.address must be given", "http://tei:8080"]),
            in_file(
                "[embedding]\nprovider = \"openai\"\naddress = \"http://127.0.0.1:1/v1\"",
                &["embedding.model must be given", "the service knows"],
            ),
            in_file(
                "[embedding]\nprovider = \"tei\"\naddress = \"http://tei:8080\"\ndimensions = 8",
                &["embedding.dimensions is of use with embedding.provider = \"openai\" only", "toller.toml"],
            ),
            in_file("[llm]\naddress = \"http://127.0.0.1:1/v1\"", &["llm.model must be given", "the service knows"]),
            in_file("[llm]\nmodel = \"m\"", &["llm.model is of use with llm.address only", "toller.toml"]),
            in_file(
                "[llm]\naddress = \"http://127.0.0.1:1/v1\"\nmodel = \"m\"\ntimeout_ms = 0",
                &["llm.timeout_ms must be 1 to 600000, got 0", "toller.toml"],
            ),
            in_file("[rerank]\nprovider = \"tei\"", &["rerank.address must be given", "http://reranker:8080"]),
            in_file(
                "[rerank]\naddress = \"http://reranker:8080\"",
                &["rerank.address is of use with rerank.provider = \"tei\" only", "toller.toml"],
            ),
            in_file("[limits]\nmax_message_bytes = 1", &["limits.max_message_bytes must be at least 65536, got 1"]),
            in_file("[limits]\nmax_k = -1", &["limits.max_k must be a whole number from 0", "got -1", "toller.toml"]),
            in_file("[server]\ndrain_timeout_ms = 86400001", &["server.drain_timeout_ms", "86400000", "toller.toml"]),
            in_file("[auth]\nrequire_tenant = true", &["auth.require_tenant needs [[auth.keys]]", "toller.toml"]),
            in_file("[data]\ndir = \"\"", &["data.dir must not be empty", "toller.toml"]),
            in_file("[backup]\nspool_dir = \"\"", &["backup.spool_dir must not be empty", "toller.toml"]),
            in_file(
                "[store]\nbackend = \"disk\"",
                &["store.backend must be edge or memory or qdrant, got \"disk\"", "toller.toml"],
            ),
            in_file("[store]\ndurability = \"none\"", &["store.durability must be fsync or process", "toller.toml"]),
            in_file(
                "[store]\nbackend = \"memory\"\ndurability = \"fsync\"",
                &["store.durability is of use with store.backend = \"edge\" only", "toller.toml"],
            ),
            in_file(
                "[store]\nbackend = \"qdrant\"\ndurability = \"fsync\"",
                &["store.durability is of use with store.backend = \"edge\" only", "toller.toml"],
            ),
            in_file(
                "[store.qdrant]\nurl = \"http://qdrant:6334\"",
                &["store.qdrant.url is of use with store.backend = \"qdrant\" only", "toller.toml"],
            ),
            in_file(
                "[store]\nbackend = \"qdrant\"\nqdrant.url = \"qdrant:6334\"",
                &["store.qdrant.url must begin with http:// or https://", "\"qdrant:6334\"", "toller.toml"],
            ),
            in_file(
                "[store]\nbackend = \"qdrant\"\nqdrant.timeout_ms = 0",
                &["store.qdrant.timeout_ms must be 1 to 600000, got 0", "toller.toml"],
            ),
            in_file(
                "[store]\nbackend = \"qdrant\"\nqdrant.ca_file = \"ca.pem\"",
                &["store.qdrant.ca_file is of use with an https address only", "toller.toml"],
            ),
            in_file(
                "[store]\nbackend = \"qdrant\"\nqdrant.shard_number = 0",
                &["store.qdrant.shard_number must be at least 1, got 0", "toller.toml"],
            ),
            in_file(
                "[store]\nbackend = \"qdrant\"\n[data]\ndir = \"x\"",
                &["data.dir is of no use with store.backend = \"qdrant\"", "toller.toml"],
            ),
            in_file("[telemetry]\nlog_level = \"loud\"", &["telemetry.log_level", "\"loud\"", "toller.toml"]),
            in_file("[telemetry]\nlog_level = \"\"", &["telemetry.log_level", "toller.toml"]),
            in_file("[telemetry]\nlog_level = \"info,toller=loud\"", &["telemetry.log_level", "toller=loud"]),
            in_file("[telemetry]\nlog_format = \"xml\"", &["telemetry.log_format must be human or json, got \"xml\""]),
            in_file("[embedding]\nqueue_tokens = 3", &["embedding.queue_tokens must be 1024 to 1073741824, got 3"]),
            in_file("[embedding]\nmax_tokens = 0", &["embedding.max_tokens must be at least 1"]),
            in_file("[embedding]\nthreads = 1000000", &["embedding.threads must be 0 to", "got 1000000"]),
            in_file("[embedding]\nworkers = 0", &["embedding.workers must be 1 to", "got 0", "toller.toml"]),
            in_file("[embedding]\nthreads = 1\nworkers = 2", &["embedding.workers must be 1 to 1", "got 2"]),
            in_file("[embedding]\ndevice = \"tpu\"", &["embedding.device must be cpu or cuda or metal, got \"tpu\""]),
            in_file("[embedding]\nbatch_tokens = 15", &["embedding.batch_tokens must be 16 to 1048576, got 15"]),
            in_file("[embedding]\nprovider = \"none\"\nworkers = 1", &["embedding.workers", "none is configured"]),
            in_file("[embedding]\nprovider = \"none\"\ncache_bytes = 1", &["embedding.cache_bytes", "leave it out"]),
            in_file("[[embedding.models]]\nname = \"a\"", &["model", "embedding.models", "toller.toml"]),
            in_file(
                "[[embedding.models]]\nname = \"a\"\nmodel = \"a/b\"\npoling = \"cls\"",
                &["poling", "toller.toml"],
            ),
            in_file(
                "[[embedding.models]]\nname = \"a b\"\nmodel = \"a/b\"",
                &["embedding.models[0].name must be", "\"a b\"", "toller.toml"],
            ),
            in_file(
                "[[rerank.models]]\nname = \"a\"\nmodel = \"a/b\"\n[[rerank.models]]\nname = \"a\"\nmodel = \"a/c\"",
                &["rerank.models[1].name", "another entry", "\"a\""],
            ),
            in_file(
                "[[embedding.models]]\nname = \"a\"\nmodel = \"/a\"\nrevision = \"b\"",
                &["embedding.models[0].revision", "embedding.models[0].model is the folder \"/a\""],
            ),
            in_file("[rerank]\nmax_tokens = 8", &["rerank.max_tokens", "rerank.model only"]),
            in_file("[rerank]\nmodel = \"a/b\"\nmax_tokens = 0", &["rerank.max_tokens must be at least 1"]),
            in_file("[embedding]\nmodel = \"/a\"\nrevision = \"b\"", &["embedding.revision", "/a"]),
            in_file("[embedding]\nmodel = \"a/b@c\"\nrevision = \"d\"", &["embedding.revision", "a/b@c"]),
            in_file(
                "[embedding]\nprovider = \"none\"\nmodel = \"a/b\"",
                &["embedding.model", "\"candle\" or \"openai\" only"],
            ),
            in_file(
                "[embedding]\nprovider = \"toller\"\naddress = \"notaurl\"",
                &["embedding.address cannot be used", "\"notaurl\"", "dns://embedder:7700", "toller.toml"],
            ),
            in_file(
                "[limits]\nmax_deadline_ms = 1000",
                &["limits.max_deadline_ms must be at least limits.default_deadline_ms (60000)", "toller.toml"],
            ),
            in_file(
                "[limits]\ndefault_deadline_ms = 900000",
                &["limits.default_deadline_ms must be from 1 to limits.max_deadline_ms (600000)", "toller.toml"],
            ),
            in_file(
                "[[auth.keys]]\nname = \"a\"\nsha256 = \"xyz\"\nrole = \"reader\"",
                &["auth.keys[0]", "sha256", "toller.toml"],
            ),
            Faulty {
                environment: &[("TOLLER_SERVER_LISTEN", "localhost:7700")],
                ..in_file("", &["server.listen must be an IP address", "127.0.0.1:7700", "localhost:7700", "TOLLER_"])
            },
            Faulty {
                flags: &[("limits.max_deadline_ms", "10")],
                ..in_file("[limits]\ndefault_deadline_ms = 20", &["--limits-max-deadline-ms", "toller.toml"])
            },
            Faulty {
                environment: &[("TOLLER_LIMITS_MAX_K", "ten")],
                ..in_file("", &["limits.max_k", "TOLLER_LIMITS_MAX_K"])
            },
            Faulty { flags: &[("server.listen", "nowhere")], ..in_file("", &["server.listen", "--server-listen"]) },
        ];
        for Faulty { toml, environment, flags, expected } in cases {
            let error = load(toml, environment, flags).unwrap_err();
            for part in expected {
                assert!(error.contains(part), "{error:?} must contain {part:?}");
            }
        }
    }

    #[test]
    fn an_embedder_refuses_what_only_a_gateway_reads() {
        let load = |toml: &str, environment: &[(&str, &str)]| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("toller.toml");
            std::fs::write(&file, toml).unwrap();
            let environment = environment.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            Config::load(Program::Embedder, Some(&file), &environment, &[]).map_err(|error| error.to_string())
        };
        let config = load("[server]\nlisten = \"0.0.0.0:7700\"\n[limits]\nmax_text_bytes = 9", &[]).unwrap();
        assert_eq!(config.limits.max_text_bytes, 9);
        let nothing = "[embedding]\nprovider = \"none\"";
        for (toml, environment, parts) in [
            ("[data]\ndir = \"x\"", &[][..], ["data.dir", "gateway only", "toller.toml"]),
            ("[limits]\nmax_k = 9", &[], ["limits.max_k", "gateway only", "toller.toml"]),
            ("", &[("TOLLER_DATA_DIR", "x")], ["data.dir", "gateway only", "TOLLER_DATA_DIR"]),
            (nothing, &[], ["embedding.provider", "nothing to serve", "toller.toml"]),
        ] {
            let error = load(toml, environment).unwrap_err();
            assert!(parts.iter().all(|part| error.contains(part)), "{error:?} must contain {parts:?}");
        }
        let reranker_alone = format!("{nothing}\n[rerank]\nmodel = \"a/b\"");
        assert!(load(&reranker_alone, &[]).is_ok());
        // Every setting that a gateway alone reads exists.
        assert_eq!(SETTINGS.iter().filter(|setting| !Program::Embedder.reads(setting)).count(), 27);
    }

    #[test]
    fn a_missing_file_is_named() {
        let error =
            Config::load(Program::Gateway, Some(Path::new("/nowhere/toller.toml")), &BTreeMap::new(), &[]).unwrap_err();
        assert!(error.to_string().contains("/nowhere/toller.toml"), "{error}");
    }

    #[test]
    fn variables_of_kubernetes_are_left_alone() {
        let environment = [("TOLLER_PORT", "tcp://10.0.0.1:7700"), ("TOLLER_SERVICE_HOST", "10.0.0.1")];
        assert!(load("", &environment, &[]).is_ok());
    }

    #[test]
    fn the_table_says_the_true_defaults() {
        let defaults = Figment::from(Serialized::defaults(Config::default()));
        for setting in SETTINGS {
            let value = defaults.find_value(setting.key).ok();
            let actual = match value {
                None | Some(Value::Empty(..)) => String::new(),
                Some(Value::String(_, text)) => text,
                Some(Value::Bool(_, flag)) => flag.to_string(),
                Some(Value::Num(_, number)) => number.to_u128().unwrap().to_string(),
                Some(other) => panic!("{} has an unexpected form: {other:?}", setting.key),
            };
            assert_eq!(actual, setting.default, "{}", setting.key);
        }
    }

    #[test]
    fn every_setting_is_documented() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let page = std::fs::read_to_string(page).unwrap();
        for setting in SETTINGS {
            let row = page.lines().find(|line| line.contains(&format!("`{}`", setting.key)));
            let row = row.unwrap_or_else(|| panic!("docs/configuration.md has no row for {}", setting.key));
            for part in [format!("`--{}`", setting.flag()), format!("`{}`", setting.env())] {
                assert!(row.contains(&part), "the row of {} must have {part}", setting.key);
            }
            assert!(setting.default.is_empty() || row.contains(setting.default), "default of {}", setting.key);
        }
    }
}
