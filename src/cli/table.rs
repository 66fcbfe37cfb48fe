//! Generates the command's arguments from the tables that declare options.

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use shardpack_pack::grow::AddOptions;
use shardpack_pack::options::ReportArguments;
use shardpack_pack::pack::PackOptions;
use shardpack_recipe::{About, ArgumentError, OptionValue, Takes};
use std::marker::PhantomData;
use std::path::PathBuf;

pub(crate) trait OptionTable: 'static {
    fn about() -> Vec<&'static About>;
    /// Returns the default of an option as text, or `None` if the option has no default.
    fn default_of(name: &str) -> Option<String>;
    fn check(name: &str, value: &OptionValue) -> Result<(), ArgumentError>;
}

macro_rules! tables {
    ($($options:ty: $check:ident;)*) => {$(
        impl OptionTable for $options {
            fn about() -> Vec<&'static About> {
                Self::about().collect()
            }

            fn default_of(name: &str) -> Option<String> {
                Self::default_of(name)
            }

            fn check(name: &str, value: &OptionValue) -> Result<(), ArgumentError> {
                Self::$check(name, value).map(drop)
            }
        }
    )*};
}

tables! {
    PackOptions: canonical;
    ReportArguments: check_value;
    AddOptions: check_value;
}

/// The options on a command line that belong to a table, by name.
#[derive(Debug)]
pub(crate) struct Options<T> {
    pub(crate) given: Vec<(String, OptionValue)>,
    table: PhantomData<T>,
}

impl<T: OptionTable> Args for Options<T> {
    fn augment_args(command: Command) -> Command {
        command.args(T::about().into_iter().map(arg::<T>))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: OptionTable> FromArgMatches for Options<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for about in T::about() {
            if matches.value_source(about.name) != Some(ValueSource::CommandLine) {
                continue;
            }
            let values: Vec<OptionValue> = match about.takes {
                Takes::Switch => vec![OptionValue::Switch(true)],
                Takes::Path(_) => matches
                    .get_many::<PathBuf>(about.name)
                    .into_iter()
                    .flatten()
                    .cloned()
                    .map(OptionValue::Path)
                    .collect(),
                _ => matches
                    .get_many::<String>(about.name)
                    .into_iter()
                    .flatten()
                    .cloned()
                    .map(OptionValue::Text)
                    .collect(),
            };
            given.extend(values.into_iter().map(|value| (about.name.to_owned(), value)));
        }
        Ok(Self { given, table: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn arg<T: OptionTable>(about: &'static About) -> Arg {
    let mut arg = Arg::new(about.name).long(about.name.replace('_', "-")).help(about.help);
    if !about.group.is_empty() {
        arg = arg.help_heading(about.group);
    }
    // Parse a negative number as a value and not as an option. The option may still refuse the value.
    let value = |arg: Arg, name: &'static str| {
        let check = |text: &str| checked::<T>(about.name, text);
        arg.value_name(name).allow_negative_numbers(true).value_parser(check)
    };
    // The help text of the option already lists the allowed words, so hide clap's own list.
    let word = |arg: Arg, words: Vec<&'static str>, name: &'static str| {
        let arg = arg.value_parser(PossibleValuesParser::new(words)).hide_possible_values(true);
        if name.is_empty() { arg.value_name(about.name.to_uppercase()) } else { arg.value_name(name) }
    };
    let arg = match about.takes {
        Takes::Switch => return arg.action(ArgAction::SetTrue),
        Takes::Path(name) => arg.value_name(name).value_parser(value_parser!(PathBuf)),
        Takes::Value(name) => value(arg, name),
        Takes::Several(name) => value(arg, name).action(ArgAction::Append),
        Takes::List(name) => value(arg, name).value_delimiter(',').action(ArgAction::Append),
        Takes::Word(words, name) => word(arg, words(), name),
        Takes::Words(words, name) => word(arg, words(), name).value_delimiter(',').action(ArgAction::Append),
    };
    match T::default_of(about.name) {
        Some(default) => arg.default_value(default),
        None => arg,
    }
}

fn checked<T: OptionTable>(name: &'static str, text: &str) -> Result<String, String> {
    match T::check(name, &OptionValue::Text(text.to_owned())) {
        Ok(()) => Ok(text.to_owned()),
        Err(error) => Err(error.reason().to_owned()),
    }
}
