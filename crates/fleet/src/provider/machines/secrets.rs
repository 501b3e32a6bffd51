//! Secrets that commands may print: a script with `set -x` prints its arguments, and errors of a cloud name tokens.

use std::path::PathBuf;

use tidegate_units::percent::unescape;

use super::settings::MachineSettings;
use crate::secret_file;

/// The text in place of a secret.
const HIDDEN: &str = "***";
/// Parts of the names of environment variables that hold secrets of a cloud. Commands inherit them.
const SECRET_NAMES: [&str; 6] = ["SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL", "ACCESS_KEY"];
/// Shorter values of such variables are not hidden, bytes: they are more likely a setting such as `1`.
const MIN_VARIABLE: usize = 8;
/// Shorter secrets of the fleet file are not hidden, bytes: `***` in place of each `a` would hide the error itself.
const MIN_SECRET: usize = 4;

/// Secrets of the fleet file and of the manager's environment. It has no `Debug`: nothing may print them.
#[derive(Clone, Default)]
pub(super) struct Secrets {
    known: Vec<String>,
    /// Files of secrets, read when they are needed.
    files: Vec<PathBuf>,
}

impl Secrets {
    /// The login of the bus, the files of passwords and tokens, and the variables of this process.
    pub(super) fn of(settings: &MachineSettings) -> Self {
        let variables = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let variables = variables.filter_map(|(name, value)| Some((name, value.into_string().ok()?)));
        Self::with(settings, variables)
    }

    fn with(settings: &MachineSettings, variables: impl Iterator<Item = (String, String)>) -> Self {
        let is_secret = |name: &str| SECRET_NAMES.iter().any(|part| name.to_ascii_uppercase().contains(part));
        let of_variables = variables.filter(|(name, value)| is_secret(name) && value.len() >= MIN_VARIABLE);
        let mut known: Vec<String> = of_variables.map(|(_, value)| value).collect();
        known.extend(login_of(&settings.bus));
        Self { known, files: settings.secret_files.clone() }
    }

    /// A text of a command with `***` in place of each secret. If it `is_cut`, the part of a secret at its end is removed.
    pub(super) fn hide(&self, text: &str, is_cut: bool) -> String {
        // The secret of a file that cannot be read is not known, to the manager as little as to its commands.
        let of_files = self.files.iter().filter_map(|file| secret_file::read(file).ok());
        let mut all: Vec<String> = self.known.iter().cloned().chain(of_files).collect();
        all.retain(|secret| secret.len() >= MIN_SECRET);
        // A secret may be a part of a longer one.
        all.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let mut hidden = all.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), HIDDEN));
        if is_cut {
            // A character may be cut as well.
            let text = hidden.trim_end_matches(char::REPLACEMENT_CHARACTER);
            let longest = all.iter().map(|secret| begun_at_end(text, secret)).max().unwrap_or(0);
            hidden.truncate(text.len() - longest);
        }
        hidden
    }
}

/// Bytes at the end of a text that are the beginning of a secret.
fn begun_at_end(text: &str, secret: &str) -> usize {
    let mut lengths = secret.char_indices().map(|(length, _)| length).rev();
    lengths.find(|length| text.ends_with(&secret[..*length])).unwrap_or(0)
}

/// The login in the address of a bus, its password, and both as they are without escapes.
fn login_of(bus: &str) -> Vec<String> {
    let Some((login, _)) = bus.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@')) else { return Vec::new() };
    let password = login.split_once(':').map(|(_, password)| password);
    let written = [Some(login), password].into_iter().flatten();
    written.flat_map(|text| [Some(text.to_owned()), unescape(text)]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::settings;
    use super::*;

    fn variable(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn secrets_of_the_fleet_file_are_hidden() {
        let file = std::env::temp_dir().join(format!("tidegate-secrets-{}", std::process::id()));
        std::fs::write(&file, "of the broker\n").unwrap();
        let missing = file.with_extension("missing");
        let mut settings = settings();
        settings.bus = "nats://fleet:p%40ss@10.0.0.1:4222".to_owned();
        settings.secret_files = vec![file.clone(), missing];
        let secrets = Secrets::with(&settings, std::iter::empty());
        let said = "+ cloud --bus nats://fleet:p%40ss@10.0.0.1:4222 p@ss; fleet: no login 'of the broker'";
        assert_eq!(secrets.hide(said, false), "+ cloud --bus nats://***@10.0.0.1:4222 ***; fleet: no login '***'");
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn secrets_of_the_environment_are_hidden() {
        let variables = [
            variable("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI"),
            variable("hcloud_token", "wJalrXUtnFEMI/long"),
            variable("TOKEN_COUNT", "1"),
            variable("REGION", "eu-central"),
        ];
        let secrets = Secrets::with(&settings(), variables.into_iter());
        let said = "wJalrXUtnFEMI/long and wJalrXUtnFEMI: 1 of eu-central";
        assert_eq!(secrets.hide(said, false), "*** and ***: 1 of eu-central");
        assert_eq!(Secrets::with(&settings(), std::iter::empty()).hide("a: b", true), "a: b");
    }

    #[test]
    fn a_secret_that_is_cut_off_is_not_passed_on() {
        let secret = "of the b\u{fc}ro\nand more";
        let secrets = Secrets::with(&settings(), [variable("TOKEN", secret)].into_iter());
        for cut in 1..secret.len() {
            let said = format!("no login {secret} {}", String::from_utf8_lossy(&secret.as_bytes()[..cut]));
            assert_eq!(secrets.hide(&said, true), "no login *** ", "{cut}");
        }
        assert_eq!(secrets.hide("kept of the", false), "kept of the");
    }

    #[test]
    fn a_secret_of_three_bytes_is_not_hidden() {
        let settings = MachineSettings { bus: "nats://bus:abc@10.0.0.1:4222".to_owned(), ..settings() };
        let secrets = Secrets::with(&settings, std::iter::empty());
        assert_eq!(secrets.hide("abcd nats://bus:abc@10.0.0.1", false), "abcd nats://***@10.0.0.1");
    }
}
