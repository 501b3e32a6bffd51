//! What the environment and the command line say.

use super::credentials::{shown_flag, without_credentials};
use super::finding::Findings;
use super::path::{ENVIRONMENT_PREFIX, KeyPath};
use super::source::Source;
use super::value::Problem;

/// A key that is set from outside the file.
#[derive(Clone, Debug)]
pub(crate) struct Override {
    pub(crate) path: KeyPath,
    pub(crate) value: String,
    pub(crate) source: Source,
}

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    /// Addresses to listen on instead of the configured ones, each with its flag as it was given.
    pub(crate) listen: Vec<(String, String)>,
    /// Addresses for QUIC, beside the other ones, each with its flag as it was given.
    pub(crate) quic: Vec<(String, String)>,
    /// Keys and values, with the flag as it was given; the later ones win.
    pub(crate) set: Vec<(String, String, String)>,
    /// Whether everybody may come in everywhere.
    pub(crate) allow_anonymous: bool,
}

/// The overrides among environment variables, sorted by section, number and key. A name that begins like one of ours
/// and is none is a finding.
pub(crate) fn from_environment(variables: &[(String, String)], findings: &mut Findings) -> Vec<Override> {
    let mut overrides = Vec::new();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix(ENVIRONMENT_PREFIX) else {
            continue;
        };
        let source = Source::Environment(name.clone());
        match KeyPath::parse(&rest.to_lowercase(), "__") {
            Ok(path) => overrides.push(Override { path, value: value.clone(), source }),
            Err(problem) => findings.push(problem, source),
        }
    }
    overrides.sort_by_key(|it| it.path);
    overrides
}

/// The overrides of the command line, in its order.
pub(crate) fn from_flags(flags: &Flags, findings: &mut Findings) -> Vec<Override> {
    let mut overrides = Vec::new();
    for (key, value, flag) in &flags.set {
        let source = Source::Flag(shown_flag(flag));
        match KeyPath::parse(key, ".") {
            Ok(path) => overrides.push(Override { path, value: value.clone(), source }),
            Err(problem) => findings.push(problem, source),
        }
    }
    overrides
}

/// Splits the argument of `--set`.
///
/// # Errors
/// When there is no `=`.
pub(crate) fn split_setting(text: &str) -> Result<(String, String), Problem> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| Problem::new(format!("must be KEY=VALUE, not {:?}", without_credentials(text))))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
