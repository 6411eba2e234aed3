//! The settings of a server as flags: one for each row of the table of settings that the program reads.

use std::marker::PhantomData;

use clap::{Arg, ArgMatches, Command, FromArgMatches};
use toller_gateway::config::{Program, SETTINGS, Setting};

/// A program that has settings.
pub(crate) trait Configured {
    /// Which.
    const PROGRAM: Program;
}

/// `toller serve`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gateway;

impl Configured for Gateway {
    const PROGRAM: Program = Program::Gateway;
}

/// `toller-embedder`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Worker;

impl Configured for Worker {
    const PROGRAM: Program = Program::Embedder;
}

/// One flag for each setting of the program; holds the key and text of those that were given.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SettingFlags<P> {
    pub(crate) given: Vec<(&'static str, String)>,
    program: PhantomData<P>,
}

fn settings<P: Configured>() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| P::PROGRAM.reads(setting))
}

impl<P: Configured> clap::Args for SettingFlags<P> {
    fn augment_args(command: Command) -> Command {
        settings::<P>().fold(command, |command, setting| command.arg(flag(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<P: Configured> FromArgMatches for SettingFlags<P> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |setting: &Setting| Some((setting.key, matches.get_one::<String>(setting.key)?.clone()));
        Ok(Self { given: settings::<P>().filter_map(given).collect(), program: PhantomData })
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser;
    use toller_gateway::config::Config;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line<P: Configured + std::fmt::Debug> {
        #[command(flatten)]
        flags: SettingFlags<P>,
    }

    fn every_setting_is_a_flag<P: Configured + std::fmt::Debug + PartialEq>() {
        let mut arguments = vec!["program".to_owned()];
        for setting in settings::<P>() {
            arguments.push(format!("--{}", setting.flag()));
            arguments.push(format!("value of {}", setting.key));
        }
        let given = Line::<P>::try_parse_from(arguments).unwrap().flags.given;
        let expected: Vec<_> =
            settings::<P>().map(|setting| (setting.key, format!("value of {}", setting.key))).collect();
        assert_eq!(given, expected);
        assert_eq!(Line::<P>::try_parse_from(["program"]).unwrap().flags.given, []);
    }

    #[test]
    fn every_setting_is_a_flag_that_reaches_the_configuration() {
        every_setting_is_a_flag::<Gateway>();
        every_setting_is_a_flag::<Worker>();
        let flags = Line::<Gateway>::try_parse_from(["serve", "--limits-max-k", "7"]).unwrap().flags;
        let config = Config::load(Program::Gateway, None, &BTreeMap::new(), &flags.given).unwrap();
        assert_eq!(config.limits.max_k, 7);
        let fault = Line::<Worker>::try_parse_from(["toller-embedder", "--limits-max-k", "7"]).unwrap_err();
        assert!(fault.to_string().contains("--limits-max-k"), "{fault}");
    }

    #[test]
    fn help_names_default_and_variable() {
        let help = Line::<Gateway>::try_parse_from(["serve", "--help"]).unwrap_err().to_string();
        for part in
            ["--server-listen <ADDR>", "[default: 127.0.0.1:7700]", "[env: TOLLER_SERVER_LISTEN]", "Section [limits]"]
        {
            assert!(help.contains(part), "{part} is missing in\n{help}");
        }
    }
}
