//! Values from the environment and the command line.

use super::credentials::{shown_flag, without_credentials};
use super::finding::Findings;
use super::key::SectionKeys;
use super::path::{ENVIRONMENT_PREFIX, KeyPath};
use super::sections::SECTIONS;
use super::source::Source;
use super::value::Problem;
use tidegate_units::suggestion::nearest;

/// Values that the manager of a fleet gives to each process that it starts.
const FLEET_RESOURCE: &str = "TIDEGATE_FLEET_RESOURCE";

/// A key that is set from outside the file.
#[derive(Clone, Debug)]
pub struct Override {
    /// The key.
    pub path: KeyPath,
    /// The value as written.
    pub value: String,
    /// The flag or the variable.
    pub source: Source,
}

/// The flags of the command line.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// Addresses to listen on instead of the configured ones, each with its flag as it was given.
    pub listen: Vec<(String, String)>,
    /// Addresses for QUIC, beside the other ones, each with its flag as it was given.
    pub quic: Vec<(String, String)>,
    /// Keys and values, with the flag as it was given; the later ones win.
    pub set: Vec<(String, String, String)>,
    /// Whether everybody may come in everywhere.
    pub allow_anonymous: bool,
}

/// The overrides among environment variables, sorted by section, number and key. A name with our prefix that names no
/// key is a finding.
pub fn from_environment(variables: &[(String, String)], findings: &mut Findings) -> Vec<Override> {
    let mut overrides = Vec::new();
    for (name, value) in variables {
        let Some(rest) = name.strip_prefix(ENVIRONMENT_PREFIX) else {
            if let Some(problem) = slip(name) {
                findings.push(problem, Source::Environment(name.clone()));
            }
            continue;
        };
        let source = Source::Environment(name.clone());
        match KeyPath::parse(&rest.to_lowercase(), "__") {
            // An empty variable is most often one that a script did not set. The flags of these keys are not empty either.
            Ok(path) if value.is_empty() && path.has_flag() => {
                let problem = Problem::new(format!("`{path}` must not be empty"));
                findings.push(problem.hint(format!("write a value, or unset {name}")), source);
            }
            Ok(path) => overrides.push(Override { path, value: value.clone(), source }),
            Err(problem) => findings.push(problem, source),
        }
    }
    overrides.sort_by_key(|it| it.path);
    overrides
}

/// The problem of a name that is meant for a key and has one underscore instead of two. Other names that begin with
/// `TIDEGATE_` belong to other programs, such as the names of services in Kubernetes.
fn slip(name: &str) -> Option<Problem> {
    let rest = name.strip_prefix("TIDEGATE_")?;
    let of_kubernetes = rest.ends_with("_SERVICE_HOST") || rest.contains("_SERVICE_PORT") || {
        let port = rest.split("_PORT").nth(1);
        port.is_some_and(|port| port.is_empty() || port.starts_with('_'))
    };
    let lower = rest.to_lowercase();
    let is_of = |section: &&SectionKeys| lower.starts_with(&format!("{}_", section.name));
    let section = SECTIONS.iter().copied().filter(|section| is_of(section)).max_by_key(|section| section.name.len())?;
    if of_kubernetes || name == FLEET_RESOURCE {
        return None;
    }
    let written = lower[section.name.len()..].trim_matches('_').to_owned();
    let keys = || section.keys.iter().map(|key| key.name);
    let meant = nearest(&written, keys()).or_else(|| keys().find(|key| key.starts_with(&written)));
    let shown = |key: &str| format!("{ENVIRONMENT_PREFIX}{}__{}", section.name, key).to_uppercase();
    let hint = match meant {
        Some(key) => format!("did you mean `{}`?", shown(key)),
        None => format!("`tidegate config explain {}` lists the keys", section.name),
    };
    Some(Problem::new("section and key are separated by two underscores").hint(hint))
}

/// The overrides of the command line, in its order.
pub fn from_flags(flags: &Flags, findings: &mut Findings) -> Vec<Override> {
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

/// The argument of `--set` has no `=`. Its text contains no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be KEY=VALUE, not {0:?}")]
pub struct NoSetting(String);

/// Splits the argument of `--set`.
///
/// # Errors
/// When there is no `=`.
pub fn split_setting(text: &str) -> Result<(String, String), NoSetting> {
    let (key, value) = text.split_once('=').ok_or_else(|| NoSetting(without_credentials(text)))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
