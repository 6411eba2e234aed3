//! `toller key`: API keys for the server's configuration.

use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use toller_core::Tenant;

use crate::error::{Error, Outcome};
use crate::output::Output;
use crate::terminal::say;

/// Bytes of randomness in a key.
const KEY_BYTES: usize = 32;

/// What every key begins with, so that people and secret scanners know one when they see it.
const PREFIX: &str = "toller_";

/// Make API keys
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a key: prints it once, and the snippet for the server's configuration file, which holds only its hash
    #[command(after_help = "\
Examples:
  toller key new --name ci --role writer
  toller key new --name acme-web --tenant acme --role reader --json")]
    New {
        /// Name of the key, for logs and spans
        #[arg(long, value_name = "NAME", value_parser = parse_name)]
        name: String,
        /// Tenant whose data the key reaches
        #[arg(long, value_name = "TENANT", default_value = Tenant::DEFAULT, value_parser = Tenant::new)]
        tenant: Tenant,
        /// What the key may do
        #[arg(long, default_value = "reader")]
        role: Role,
        /// Print key and snippet as one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// What a key may do; each includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    /// Embed, search, get, list and count
    Reader,
    /// And add and delete documents
    Writer,
    /// And create, change and delete collections
    Admin,
}

impl From<Role> for toller_core::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Reader => Self::Reader,
            Role::Writer => Self::Writer,
            Role::Admin => Self::Admin,
        }
    }
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct NewKey {
    key: String,
    name: String,
    tenant: Tenant,
    role: Role,
    sha256: String,
    toml: String,
}

fn parse_name(name: &str) -> Result<String, String> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err("must not be empty or have control characters".to_owned());
    }
    Ok(name.to_owned())
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    let Command::New { name, tenant, role, json } = args.command;
    let mut random = [0; KEY_BYTES];
    getrandom::fill(&mut random)
        .map_err(|fault| Error::Failed(format!("the system gives no random numbers: {fault}")))?;
    let new_key = new_key(random, name, tenant, role);
    let mut output = Output::new();
    if json {
        output.json(&new_key)?;
    } else {
        output.line(&new_key.key)?;
        output.line("")?;
        output.line(&new_key.toml)?;
        say("The first line is the key, shown only now: the client sends it with --api-key or TOLLER_API_KEY.");
        say("The rest goes into the server's configuration file.");
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn new_key(random: [u8; KEY_BYTES], name: String, tenant: Tenant, role: Role) -> NewKey {
    let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let key = format!("{PREFIX}{digits}");
    let sha256 = toller_serving::auth::hash_key(&key);
    // A JSON string is a TOML string, except for DEL, which no name has.
    let quoted_name = serde_json::Value::from(name.as_str());
    let role_name = toller_core::Role::from(role);
    let toml = format!(
        "[[auth.keys]]\nname = {quoted_name}\ntenant = \"{tenant}\"\nrole = \"{role_name}\"\nsha256 = \"{sha256}\""
    );
    NewKey { key, name, tenant, role, sha256, toml }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use toller_gateway::config::{Config, Program};

    use super::*;

    #[test]
    fn the_snippet_is_what_the_server_reads() {
        let tenant = Tenant::new("acme").unwrap();
        let made = new_key([0xab; KEY_BYTES], "web \"front\" ü".to_owned(), tenant.clone(), Role::Writer);
        assert_eq!(made.key, format!("toller_{}", "ab".repeat(32)));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("toller.toml");
        std::fs::write(&file, &made.toml).unwrap();
        let config = Config::load(Program::Gateway, Some(&file), &BTreeMap::new(), &[]).unwrap();
        let [key] = config.auth.keys.as_slice() else { panic!("{:?}", config.auth) };
        assert_eq!((key.name.as_str(), &key.tenant, key.role), ("web \"front\" ü", &tenant, toller_core::Role::Writer));
        assert_eq!(key.sha256, made.sha256);
        assert!(!made.toml.contains(&made.key));
    }

    #[test]
    fn names_are_printable() {
        assert!(parse_name("ci").is_ok());
        assert!(parse_name("").is_err() && parse_name("a\u{7f}").is_err() && parse_name("a\n").is_err());
    }
}
