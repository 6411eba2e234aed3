//! `toller serve`: the server.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command, FromArgMatches};
use tokio::sync::oneshot;
use toller_core::Durability;
use toller_gateway::config::{Config, LogFormat, MetricsListen, SETTINGS, Setting, unknown_variables};
use toller_gateway::{GatewayError, Ready};
use toller_telemetry::{Telemetry, TelemetryConfig};

use crate::error::{Error, Outcome};
use crate::signals::StopSignals;
use crate::table;
use crate::terminal::say;

/// The configuration file that is read where none is named, when it exists.
const DEFAULT_FILE: &str = "toller.toml";

/// How long the last spans may take to reach the collector after the server has stopped.
const TELEMETRY_FLUSH: Duration = Duration::from_secs(5);

/// Run the server until SIGTERM or Ctrl-C
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Flags beat environment variables, those beat the file, and that beats the defaults. In the file, server-listen is key
`listen` in section [server], and so on; API keys stand in the file only (`toller key new` makes them). Traces follow the
standard variables, such as OTEL_EXPORTER_OTLP_ENDPOINT.

Examples:
  toller serve
  toller serve --embedding-model ./models/bge-small --data-dir /var/lib/toller
  toller serve --config /etc/toller.toml --server-listen 0.0.0.0:7700
  toller serve --embedding-provider none

Exit codes: 0 stopped by a signal, 1 failed, 2 wrong configuration.")]
pub(crate) struct Args {
    /// Configuration file; default ./toller.toml when it exists
    #[arg(long, value_name = "FILE", env = "TOLLER_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingFlags,
}

/// One flag for each row of the gateway's table of settings; holds the key and text of those that were given.
#[derive(Debug, Default, PartialEq, Eq)]
struct SettingFlags(Vec<(&'static str, String)>);

impl clap::Args for SettingFlags {
    fn augment_args(command: Command) -> Command {
        SETTINGS.iter().fold(command, |command, setting| command.arg(flag(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |setting: &Setting| Some((setting.key, matches.get_one::<String>(setting.key)?.clone()));
        Ok(Self(SETTINGS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn flag(setting: &Setting) -> Arg {
    let section = setting.key.split('.').next().unwrap_or(setting.key);
    let default = if setting.default.is_empty() { String::new() } else { format!(" [default: {}]", setting.default) };
    Arg::new(setting.key)
        .long(setting.flag())
        .value_name(setting.value_name)
        .allow_hyphen_values(true)
        .help(format!("{}{default} [env: {}]", setting.help, setting.env()))
        .help_heading(format!("Section [{section}]"))
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    let file = args.config.or_else(|| Path::new(DEFAULT_FILE).is_file().then(|| PathBuf::from(DEFAULT_FILE)));
    // A variable that is not Unicode cannot be one of ours.
    let environment: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let config = Config::load(file.as_deref(), &environment, &args.settings.0)
        .map_err(|fault| Error::Configuration(fault.to_string()))?;

    let telemetry = Telemetry::start(&telemetry_config(&config)).map_err(telemetry_error)?;
    for variable in unknown_variables(&environment) {
        tracing::warn!(
            variable,
            "this environment variable looks like a setting but is none; see `toller serve --help`"
        );
    }
    let metrics_address = telemetry.metrics_address();
    let served = serve(config, metrics_address);
    // After the runtime is gone, so that the spans of the last requests are among those delivered.
    if let Err(fault) = telemetry.shutdown(TELEMETRY_FLUSH) {
        say(format_args!("warning: {fault}"));
    }
    served.map(|()| ExitCode::SUCCESS)
}

fn telemetry_config(config: &Config) -> TelemetryConfig {
    let telemetry = &config.telemetry;
    TelemetryConfig {
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

fn serve(config: Config, metrics_address: Option<SocketAddr>) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("toller")
        .enable_all()
        .build()
        .map_err(|fault| Error::Failed(format!("cannot start the async runtime: {fault}")))?;
    let served = runtime.block_on(serve_until_signal(config, metrics_address));
    // A model that is still on its way must not hold up the end.
    runtime.shutdown_background();
    served
}

/// The first signal stops the server in good order. Later ones are answered with words only: ending at once would lose data
/// that is in RAM. Before the server is ready there is nothing to lose, and the first signal ends it at once.
async fn serve_until_signal(config: Config, metrics_address: Option<SocketAddr>) -> Result<(), Error> {
    let mut signals = StopSignals::catch()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let mut stop = Some(stop);
    let is_ready = Cell::new(false);
    let talk = Talk::of(config.telemetry.log_format);
    let on_ready = |ready: &Ready| {
        is_ready.set(true);
        talk.ready(ready, metrics_address);
    };
    let shutdown = async {
        let _ = stopped.await;
    };
    let mut serving = pin!(toller_gateway::serve(config, shutdown, on_ready));
    loop {
        tokio::select! {
            served = &mut serving => return served.map_err(|fault| match fault {
                GatewayError::ApiKey { .. } | GatewayError::EmbeddingSetting { .. } => Error::Configuration(fault.to_string()),
                _ => Error::Failed(fault.to_string()),
            }),
            name = signals.next() => match stop.take() {
                _ if !is_ready.get() => {
                    talk.say(format_args!("{name} before the server was ready: stopped"));
                    return Ok(());
                }
                Some(stop) => {
                    talk.say(format_args!("{name}: finishing what runs, saving the data"));
                    let _ = stop.send(());
                }
                None => talk.say(format_args!("{name}: still stopping; only SIGKILL ends at once, and loses what is not saved yet")),
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

    fn ready(self, ready: &Ready, metrics_address: Option<SocketAddr>) {
        match self {
            Self::Plain => say(ready_block(ready, metrics_address)),
            Self::Logs => tracing::info!(
                address = %ready.address,
                authenticated = ready.authenticated,
                data = %ready.data_dir.display(),
                collections = ready.collections,
                store = ready.store,
                durability = ?ready.durability,
                model = ready.model.as_deref(),
                "ready"
            ),
        }
    }
}

/// What the person who typed `toller serve` wants to know.
fn ready_block(ready: &Ready, metrics_address: Option<SocketAddr>) -> String {
    let durability = match ready.durability {
        Durability::None => "none: data is in RAM, saved at an orderly stop, lost in a crash",
        Durability::Process => "process: acknowledged writes survive a crash of the process",
        Durability::Fsync => "fsync: acknowledged writes survive power loss",
    };
    let model = ready.model.clone().unwrap_or_else(|| "none: only collections with client vectors".to_owned());
    let metrics = metrics_address.map_or_else(|| "off".to_owned(), |address| format!("http://{address}/metrics"));
    let access = if ready.authenticated { "API keys" } else { "open: no API keys are configured" };
    let pairs = table::pairs(&[
        ("address", ready.address.to_string()),
        ("access", access.to_owned()),
        ("data", format!("{}: {} collections", ready.data_dir.display(), ready.collections)),
        ("store", ready.store.to_owned()),
        ("durability", durability.to_owned()),
        ("model", model),
        ("metrics", metrics),
    ]);
    let indented = pairs.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n");
    format!("toller {} is ready\n{indented}", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn every_setting_is_a_flag_that_reaches_the_configuration() {
        let mut arguments = vec!["serve".to_owned()];
        for setting in SETTINGS {
            arguments.push(format!("--{}", setting.flag()));
            arguments.push(format!("value of {}", setting.key));
        }
        let given = Line::try_parse_from(arguments).unwrap().args.settings;
        let expected: Vec<_> =
            SETTINGS.iter().map(|setting| (setting.key, format!("value of {}", setting.key))).collect();
        assert_eq!(given, SettingFlags(expected));
        assert_eq!(Line::try_parse_from(["serve"]).unwrap().args.settings, SettingFlags::default());

        let flags = Line::try_parse_from(["serve", "--limits-max-k", "7"]).unwrap().args.settings;
        let config = Config::load(None, &BTreeMap::new(), &flags.0).unwrap();
        assert_eq!(config.limits.max_k, 7);
    }

    #[test]
    fn help_names_default_and_variable() {
        let help = Line::try_parse_from(["serve", "--help"]).unwrap_err().to_string();
        for part in
            ["--server-listen <ADDR>", "[default: 127.0.0.1:7700]", "[env: TOLLER_SERVER_LISTEN]", "Section [limits]"]
        {
            assert!(help.contains(part), "{part} is missing in\n{help}");
        }
    }

    #[test]
    fn the_block_at_ready() {
        let ready = Ready {
            address: SocketAddr::from(([127, 0, 0, 1], 7700)),
            data_dir: PathBuf::from("toller-data"),
            store: "memory",
            durability: Durability::None,
            collections: 2,
            model: None,
            authenticated: false,
        };
        let block = ready_block(&ready, Some(SocketAddr::from(([127, 0, 0, 1], 7701))));
        for line in [
            "  address     127.0.0.1:7700",
            "  data        toller-data: 2 collections",
            "  durability  none: data is in RAM, saved at an orderly stop, lost in a crash",
            "  metrics     http://127.0.0.1:7701/metrics",
        ] {
            assert!(block.lines().any(|found| found == line), "{line:?} is missing in\n{block}");
        }
        assert!(ready_block(&ready, None).contains("metrics     off"));
    }
}
