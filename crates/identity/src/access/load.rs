//! Reads the files of rules that a configuration names.

use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use tidegate_acl::{Effect, LoadError, MAX_FILE_BYTES, Rules, RulesBuilder};

use tidegate_config::Config;
use tidegate_config::hub::hub_listener;
use tidegate_config::orchestrator::RELAY_LISTENER;
use tidegate_config::sections::access::DefaultAccess;
use tidegate_config::sections::auth::Auth;

/// The bits of a file's mode that let users other than its owner write.
const WRITE_OF_OTHERS: u32 = 0o022;

/// Why there are no rules.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file cannot be read.
    #[error("cannot read {key} {path}: {source}; without its rules no client may do anything, so it is not left out")]
    Read {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Its rules are wrong.
    #[error("{}", with_snippets(problem, text))]
    Rules {
        /// The fault.
        problem: LoadError,
        /// The file.
        text: Vec<u8>,
    },
}

/// Longest piece of a line that is shown, characters.
const SNIPPET_LEN: usize = 160;

/// The faults in a file of rules, each with its line.
fn with_snippets(problem: &LoadError, text: &[u8]) -> String {
    let LoadError::Wrong { problems } = problem else { return problem.to_string() };
    let text = String::from_utf8_lossy(text);
    let shown = problems.iter().map(|problem| {
        let (number, column) = (problem.place.line, problem.place.column as usize);
        let line = text.lines().nth(number.saturating_sub(1) as usize).unwrap_or_default();
        let line: String = line.chars().take(SNIPPET_LEN).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let (margin, caret) = (" ".repeat(number.to_string().len()), " ".repeat(column.saturating_sub(1)));
        let caret = if column <= SNIPPET_LEN { format!("\n{margin} | {caret}^") } else { String::new() };
        format!("{problem}\n{margin} |\n{number} | {line}{caret}")
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// Whether rules decide about clients. Grants of a token or a service must be checked, too.
pub fn restricts(config: &Config) -> bool {
    let access = &config.access;
    access.has_rules() || access.default == DefaultAccess::Deny || config.auths.iter().any(Auth::brings_rules)
}

/// The rules of a configuration; `None` where nothing was said, so that nothing need be asked. Warnings are logged.
///
/// # Errors
/// When a file cannot be read or is wrong. Never less than all rules are loaded.
pub fn load(config: &Config) -> Result<Option<Arc<Rules>>, AccessError> {
    if !restricts(config) {
        return Ok(None);
    }
    let builder = read_all(config)?;
    for warning in builder.warnings() {
        tracing::warn!(place = %warning.place, "{}", warning.message);
    }
    let default = if config.access.default == DefaultAccess::Allow { Effect::Allow } else { Effect::Deny };
    Ok(Some(Arc::new(builder.build(default))))
}

/// The warnings about the rules of a configuration, each with its place.
///
/// # Errors
/// As of [`load`].
pub fn warnings(config: &Config) -> Result<Vec<String>, AccessError> {
    Ok(read_all(config)?.warnings().iter().map(ToString::to_string).collect())
}

fn read_all(config: &Config) -> Result<RulesBuilder, AccessError> {
    let access = &config.access;
    let mut builder = RulesBuilder::new();
    if let Some(rules) = &access.rules {
        let text = rules.as_bytes();
        let failed = |problem| AccessError::Rules { problem, text: text.to_vec() };
        builder.rules_file("access.rules", text).map_err(failed)?;
    }
    if let Some(path) = &access.rules_file {
        let text = read("access.rules_file", path)?;
        builder.rules_file(path, &text).map_err(|problem| AccessError::Rules { problem, text })?;
    }
    if let Some(path) = &access.acl_file {
        let text = read("access.acl_file", path)?;
        builder.mosquitto_file(path, &text).map_err(|problem| AccessError::Rules { problem, text })?;
    }
    let own = [RELAY_LISTENER.to_owned(), hub_listener("")];
    let of_tenants = config.tenants.iter().map(|tenant| hub_listener(&tenant.name));
    let listeners = config.listeners.iter().map(|listener| listener.name.clone()).chain(own).chain(of_tenants);
    let tenants = config.tenants.iter().map(|tenant| tenant.name.clone()).chain([String::new()]);
    builder.warn_of_unknown_names(&listeners.collect::<Vec<_>>(), &tenants.collect::<Vec<_>>());
    Ok(builder)
}

/// One byte more than is allowed is read, so that a file that is too large is seen to be.
fn read(key: &'static str, path: &str) -> Result<Vec<u8>, AccessError> {
    let failed = |source| AccessError::Read { key, path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = tidegate_setting_file::open(Path::new(path)).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode();
    if mode & WRITE_OF_OTHERS != 0 {
        tracing::warn!(
            key,
            path,
            "other users than its owner may write this rule file, and so grant themselves every right"
        );
    }
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_rules_are_shown_with_their_line() {
        let text = b"topic readwrite a/#\nuser\n";
        let problem = RulesBuilder::new().mosquitto_file("acl", text).unwrap_err();
        let shown = with_snippets(&problem, text);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[0].starts_with("acl:2:5: the user name is missing"), "{shown}");
        assert_eq!(lines[1..], ["  |", "2 | user", "  |     ^"], "{shown}");
    }

    #[test]
    fn rules_for_listeners_that_do_not_exist_are_warned_of() {
        let rules = "[[rule]]\nallow = false\nlisteners = ['web', 'relay', 'tidegate-hub/a', 'door']\ntenants = ['*', 'a']\ntopics = ['#']\n";
        let text =
            format!("[[listener]]\nname = 'door'\n[[tenant]]\nname = 'a'\n[access]\nrules = \"\"\"\n{rules}\"\"\"\n");
        let file = Some(tidegate_config::source::FileText::new("t.toml", text));
        let config = Config::load(tidegate_config::Inputs { file, ..Default::default() }).unwrap();
        let expected = "access.rules:1:1: there is no listener `web`, so the rule holds for no client of it";
        assert_eq!(warnings(&config).unwrap(), [expected]);
    }
}
