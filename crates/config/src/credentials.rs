//! Finds parts of a value that may be secret, which are left out wherever the value is shown.

use super::sections::{SECTIONS, section_keys};

/// The replacement of a secret in output.
pub const HIDDEN: &str = "***";

/// A text, such as a line of a file or a value as TOML, without user names, passwords and queries of the addresses in
/// it: of `mqtt://me:secret@host:1883` and `https://host/auth?token=secret` are left `mqtt://***@host:1883` and
/// `https://host/auth?***`.
pub fn without_credentials(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut piece = String::new();
    let mut escaped = false;
    for character in text.chars() {
        // A quote that is escaped is a part of the text.
        let ends = !escaped && (matches!(character, '"' | '\'') || character.is_whitespace());
        escaped = character == '\\' && !escaped;
        if ends {
            out.push_str(&shown(&piece));
            piece.clear();
            out.push(character);
        } else {
            piece.push(character);
        }
    }
    out.push_str(&shown(&piece));
    out
}

fn shown(word: &str) -> String {
    let (address, query) = match word.split_once('?') {
        Some((address, _)) => (address, Some(HIDDEN)),
        None => (word, None),
    };
    let at = address.find("://").map(|at| at + 3);
    let (scheme, rest) = address.split_at(at.unwrap_or_default());
    let rest = match rest.rsplit_once('@') {
        Some((_, place)) => format!("{HIDDEN}@{place}"),
        None if at.is_some() => without_odd_port(rest),
        None => rest.to_owned(),
    };
    match query {
        Some(query) => format!("{scheme}{rest}?{query}"),
        None => format!("{scheme}{rest}"),
    }
}

/// Text that is no host with a port may be a password whose `@` is missing.
fn without_odd_port(rest: &str) -> String {
    let authority = rest.split('/').next().unwrap_or_default();
    let is_host = |host: &str| !host.contains([':', '[', ']']) || (host.starts_with('[') && host.ends_with(']'));
    let is_port = |port: &str| port.trim_end_matches(',').bytes().all(|byte| byte.is_ascii_digit());
    let fits =
        is_host(authority) || authority.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && is_port(port));
    if fits { rest.to_owned() } else { HIDDEN.to_owned() }
}

/// A line of a configuration file, which may be broken, as it may be shown; `before` are the lines in front of it, in
/// their order. What belongs to the value of a key that may hold a secret is hidden, also where a slip has made several
/// lines of it.
pub fn shown_line<'a>(before: impl DoubleEndedIterator<Item = &'a str>, line: &str) -> String {
    match (credentials_of(line), line.split_once('=')) {
        (Some(true), Some((name, _))) => format!("{name}= {HIDDEN}"),
        (Some(true), None) => HIDDEN.to_owned(),
        (None, _) if before.rev().find_map(credentials_of) == Some(true) => HIDDEN.to_owned(),
        (None, Some((name, _))) if is_of_secret(name) => format!("{name}= {HIDDEN}"),
        (Some(false) | None, _) => without_credentials(line),
    }
}

/// Parts of the names of keys for secrets, in the spellings of other programs.
const SECRET_NAMES: [&str; 13] = [
    "passw",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "credential",
    "apikey",
    "privatekey",
    "accesskey",
    "authkey",
    "psk",
    "bearer",
];

/// Whether a key that does not exist looks like one of a secret.
fn is_of_secret(name: &str) -> bool {
    let name: String = name.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// Whether a line begins the value of a key that may hold a secret; `None` where it begins no key and no section that
/// is known.
fn credentials_of(line: &str) -> Option<bool> {
    if section_keys(line.trim().trim_start_matches('[').trim_end_matches(']')).is_some() {
        return Some(false);
    }
    let (name, _) = line.split_once('=')?;
    let name = name.rsplit(['.', '{', ',', ' ']).find(|part| !part.is_empty())?;
    let name = name.trim_matches(|c: char| c.is_whitespace() || "\"'".contains(c));
    let mut keys = SECTIONS.iter().flat_map(|section| section.keys).filter(|key| key.name == name).peekable();
    keys.peek()?;
    Some(keys.any(|key| key.credentials))
}

/// A flag of the command line, with its value, as it may be shown.
pub fn shown_flag(flag: &str) -> String {
    shown_line(std::iter::empty(), flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_credentials() {
        for (text, left) in [
            ("mqtt://me:secret@host:1883", "mqtt://***@host:1883"),
            ("a=mqtt://secret@host", "a=mqtt://***@host"),
            ("me:secret@host:1", "***@host:1"),
            ("[\"mqtt://me:se\\\"cret@h:1\", \"mqtt://h:2\"]", "[\"mqtt://***@h:1\", \"mqtt://h:2\"]"),
            ("https://h/a?token=secret", "https://h/a?***"),
            ("mqtt://me:secrethost:1", "mqtt://***"),
            ("mqtt://[::1]:1883/x", "mqtt://[::1]:1883/x"),
            ("https://h:8443/a", "https://h:8443/a"),
            ("name = \"a\" # a word", "name = \"a\" # a word"),
        ] {
            assert_eq!(without_credentials(text), left);
        }
    }

    #[test]
    fn a_line_of_such_a_key_is_hidden_however_broken_it_is() {
        let shown = |before: &str, line| shown_line(before.lines(), line);
        assert_eq!(shown("", "  brokers = [\"mqtt:/secret"), "  brokers = ***");
        assert_eq!(shown("", "--set orchestrator.brokers=secret"), "--set orchestrator.brokers= ***");
        assert_eq!(shown("", "Password = \"x\""), "Password = ***", "no key here");
        assert_eq!(shown("", "--set bridge.0.password=x"), "--set bridge.0.password= ***");
        for key in ["passphrase", "api_key", "ApiKey", "passwd", "credentials", "private-key", "PWD", "Passwort"] {
            assert_eq!(shown_line("".lines(), &format!("{key} = \"x\"")), format!("{key} = ***"));
        }
        assert_eq!(shown("", "key_seconds = 5"), "key_seconds = 5");
        assert_eq!(shown("", "password_file = \"x\""), "password_file = \"x\"");
        assert_eq!(shown("", "max_messages = 5"), "max_messages = 5");
        assert_eq!(shown("[auth]\nurl = \"http://h/\n", "token=secret\""), "***");
        assert_eq!(shown("url = \"x\"\n[queue]\n", "x = 5"), "x = 5");
        assert_eq!(shown("url = \"x\"\n", "[[listener]]"), "[[listener]]");
    }
}
