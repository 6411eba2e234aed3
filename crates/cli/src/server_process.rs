//! The process of a server, whichever it is: configuration, telemetry, signals, and what it says at its start and end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::oneshot;
use toller_core::Durability;
use toller_gateway::config::{Config, LogFormat, MetricsListen, Program, unknown_variables};
use toller_gateway::{GatewayError, Ready};
use toller_telemetry::{Telemetry, TelemetryConfig};

use crate::error::{Error, Outcome};
use crate::settings::{Configured, SettingFlags};
use crate::signals::StopSignals;
use crate::table;
use crate::terminal::say;

/// How long the last spans may take to reach the collector after the server has stopped.
const TELEMETRY_FLUSH: Duration = Duration::from_secs(5);

/// Runs the server of a program with the configuration `file`, or with `default_file` when that exists, and `flags`.
pub(crate) fn run<P: Configured>(file: Option<PathBuf>, default_file: &str, flags: &SettingFlags<P>) -> Outcome {
    let program = P::PROGRAM;
    let file = file.or_else(|| Path::new(default_file).is_file().then(|| PathBuf::from(default_file)));
    // A variable that is not Unicode cannot be one of ours.
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let config = Config::load(program, file.as_deref(), &environment, &flags.given)
        .map_err(|fault| Error::Configuration(fault.to_string()))?;

    let telemetry = Telemetry::start(&telemetry_config(program, &config)).map_err(telemetry_error)?;
    for variable in unknown_variables(&environment) {
        tracing::warn!(variable, "this environment variable looks like a setting but is none; see --help");
    }
    let metrics_address = telemetry.metrics_address();
    let served = serve(program, config, metrics_address);
    // After the runtime is gone, so that the spans of the last requests are among those delivered.
    if let Err(fault) = telemetry.shutdown(TELEMETRY_FLUSH) {
        say(format_args!("warning: {fault}"));
    }
    served.map(|()| ExitCode::SUCCESS)
}

fn telemetry_config(program: Program, config: &Config) -> TelemetryConfig {
    let telemetry = &config.telemetry;
    TelemetryConfig {
        service_name: name(program).to_owned(),
        log_format: match telemetry.log_format {
            LogFormat::Human => toller_telemetry::LogFormat::Human,
            LogFormat::Json => toller_telemetry::LogFormat::Json,
        },
        log_level: telemetry.log_level.clone(),
        metrics_listen: match telemetry.metrics_listen {
            MetricsListen::Address(address) => Some(address),
            MetricsListen::Off => None,
        },
        record_content: telemetry.record_content,
        ..TelemetryConfig::default()
    }
}

fn telemetry_error(fault: toller_telemetry::Error) -> Error {
    use toller_telemetry::Error as Fault;
    match fault {
        Fault::Variable { .. } | Fault::LogFilter { .. } => Error::Configuration(fault.to_string()),
        Fault::MetricsListen { .. } => Error::Failed(format!("{fault} (--telemetry-metrics-listen; off for none)")),
        _ => Error::Failed(fault.to_string()),
    }
}

fn serve(program: Program, config: Config, metrics_address: Option<SocketAddr>) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("toller")
        .enable_all()
        .build()
        .map_err(|fault| Error::Failed(format!("cannot start the async runtime: {fault}")))?;
    let served = runtime.block_on(serve_until_signal(program, config, metrics_address));
    // A model that is still on its way must not hold up the end.
    runtime.shutdown_background();
    served
}

/// The first signal stops the server in good order. Later ones are answered with words only: ending at once would lose data
/// that is in RAM. Before the server is ready there is nothing to lose, and the first signal ends it at once.
async fn serve_until_signal(
    program: Program,
    config: Config,
    metrics_address: Option<SocketAddr>,
) -> Result<(), Error> {
    let mut signals = StopSignals::catch()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let mut stop = Some(stop);
    let is_ready = Cell::new(false);
    let talk = Talk::of(config.telemetry.log_format);
    let on_ready = |ready: &Ready| {
        is_ready.set(true);
        talk.ready(program, ready, metrics_address);
    };
    let shutdown = async {
        let _ = stopped.await;
    };
    let mut serving = pin!(async move {
        match program {
            Program::Gateway => toller_gateway::serve(config, shutdown, on_ready).await,
            Program::Embedder => toller_gateway::serve_embedder(config, shutdown, on_ready).await,
        }
    });
    loop {
        tokio::select! {
            served = &mut serving => return served.map_err(|fault| match fault {
                GatewayError::ApiKey { .. } | GatewayError::Setting { .. } => Error::Configuration(fault.to_string()),
                _ => Error::Failed(fault.to_string()),
            }),
            name = signals.next() => match stop.take() {
                _ if !is_ready.get() => {
                    talk.say(format_args!("{name} before the server was ready: stopped"));
                    return Ok(());
                }
                Some(stop) => {
                    talk.say(format_args!("{name}: {}", farewell(program)));
                    let _ = stop.send(());
                }
                None => talk.say(format_args!("{name}: still stopping; only SIGKILL ends at once")),
            },
        }
    }
}

/// How a running server talks: in plain lines to people, in log lines to machines that read one object a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Talk {
    Plain,
    Logs,
}

impl Talk {
    fn of(format: LogFormat) -> Self {
        match format {
            LogFormat::Human => Self::Plain,
            LogFormat::Json => Self::Logs,
        }
    }

    fn say(self, text: impl std::fmt::Display) {
        match self {
            Self::Plain => say(text),
            Self::Logs => tracing::info!("{text}"),
        }
    }

    fn ready(self, program: Program, ready: &Ready, metrics_address: Option<SocketAddr>) {
        match self {
            Self::Plain => say(ready_block(program, ready, metrics_address)),
            Self::Logs => {
                let data = ready.data.as_ref();
                tracing::info!(
                    address = %ready.address,
                    authenticated = ready.authenticated,
                    data = data.map(|data| data.place.as_str()),
                    collections = data.and_then(|data| data.collections),
                    store = data.map(|data| data.store),
                    durability = data.map(|data| format!("{:?}", data.durability)),
                    model = ready.models.default,
                    models = ready.models.named.join(", "),
                    rerankers = ready.models.rerankers.join(", "),
                    "ready"
                );
            }
        }
    }
}

/// What the program is called.
fn name(program: Program) -> &'static str {
    match program {
        Program::Gateway => "toller",
        Program::Embedder => "toller-embedder",
    }
}

/// What a server does once it is told to stop.
fn farewell(program: Program) -> &'static str {
    match program {
        Program::Gateway => "finishing what runs, saving the data",
        Program::Embedder => "finishing what runs",
    }
}

/// What the person who started the server wants to know.
fn ready_block(program: Program, ready: &Ready, metrics_address: Option<SocketAddr>) -> String {
    let access = if ready.authenticated { "API keys" } else { "open: no API keys are configured" };
    let mut pairs = vec![("address", ready.address.to_string()), ("access", access.to_owned())];
    if let Some(data) = &ready.data {
        let durability = match data.durability {
            Durability::None => "none: data is in RAM, saved at an orderly stop, lost in a crash",
            Durability::Process => "process: acknowledged writes survive a crash of the process",
            Durability::Fsync => "fsync: acknowledged writes survive power loss",
        };
        let collections = data.collections.map(|count| format!(": {count} collections")).unwrap_or_default();
        pairs.push(("data", format!("{}{collections}", data.place)));
        pairs.push(("store", data.store.to_owned()));
        pairs.push(("durability", durability.to_owned()));
    }
    let no_model = match program {
        Program::Gateway => "none: only collections with client vectors",
        Program::Embedder => "none by default",
    };
    pairs.push(("model", ready.models.default.clone().unwrap_or_else(|| no_model.to_owned())));
    if !ready.models.named.is_empty() {
        pairs.push(("models", ready.models.named.join(", ")));
    }
    if !ready.models.rerankers.is_empty() {
        pairs.push(("rerankers", ready.models.rerankers.join(", ")));
    }
    pairs.push((
        "metrics",
        metrics_address.map_or_else(|| "off".to_owned(), |address| format!("http://{address}/metrics")),
    ));
    let pairs = table::pairs(&pairs);
    let indented = pairs.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n");
    format!("{} {} is ready\n{indented}", name(program), env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use toller_gateway::{ReadyData, ReadyModels};

    use super::*;

    #[test]
    fn the_block_at_ready() {
        let models = ReadyModels { default: None, named: vec!["small".into(), "large".into()], rerankers: Vec::new() };
        let data = ReadyData {
            place: "toller-data".to_owned(),
            store: "memory",
            durability: Durability::None,
            collections: Some(2),
        };
        let address = SocketAddr::from(([127, 0, 0, 1], 7700));
        let ready = Ready { address, authenticated: false, models, data: Some(data) };
        let block = ready_block(Program::Gateway, &ready, Some(SocketAddr::from(([127, 0, 0, 1], 7701))));
        for line in [
            "  address     127.0.0.1:7700",
            "  data        toller-data: 2 collections",
            "  durability  none: data is in RAM, saved at an orderly stop, lost in a crash",
            "  model       none: only collections with client vectors",
            "  models      small, large",
            "  metrics     http://127.0.0.1:7701/metrics",
        ] {
            assert!(block.lines().any(|found| found == line), "{line:?} is missing in\n{block}");
        }
        assert!(ready_block(Program::Gateway, &ready, None).contains("metrics     off"));

        let worker = ready_block(Program::Embedder, &Ready { data: None, ..ready }, None);
        assert!(worker.starts_with("toller-embedder ") && !worker.contains("store"), "{worker}");
    }
}
