//! What may be a secret in the text of a key, and is left out wherever a value is shown.

use super::sections::SECTIONS;

/// What stands for something that nobody shall read.
pub(crate) const HIDDEN: &str = "***";

/// A text, such as a line of a file or a value as TOML, without user names, passwords and queries of the addresses in it: of
/// `mqtt://me:secret@host:1883` and `https://host/auth?token=secret` are left `mqtt://***@host:1883` and `https://host/auth?***`.
pub(crate) fn without_credentials(text: &str) -> String {
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

/// One word.
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

/// What stands where a port should be and is none may be a password whose `@` is missing.
fn without_odd_port(rest: &str) -> String {
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rsplit_once(']').map_or(authority, |(_, behind)| behind).split_once(':') {
        Some((_, port)) if !port.bytes().all(|byte| byte.is_ascii_digit() || byte == b',') => {
            let before = rest.split(':').next().unwrap_or_default();
            format!("{before}:{HIDDEN}")
        }
        _ => rest.to_owned(),
    }
}

/// A line of a configuration file, which may be broken, as it may be shown.
pub(crate) fn shown_line(line: &str) -> String {
    if let Some((name, _)) = line.split_once('=')
        && holds_credentials(name)
    {
        return format!("{name}= {HIDDEN}");
    }
    without_credentials(line)
}

/// Whether a name, as it stands before a `=`, is that of a key that may hold a secret.
pub(crate) fn holds_credentials(name: &str) -> bool {
    let name = name
        .rsplit(['.', '{', ','])
        .next()
        .unwrap_or_default()
        .trim_matches(|c: char| c.is_whitespace() || "\"'".contains(c));
    SECTIONS.iter().flat_map(|section| section.keys).any(|key| key.credentials && key.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_left_without_what_lets_one_in() {
        for (text, left) in [
            ("mqtt://me:secret@host:1883", "mqtt://***@host:1883"),
            ("a=mqtt://secret@host", "a=mqtt://***@host"),
            ("me:secret@host:1", "***@host:1"),
            ("[\"mqtt://me:se\\\"cret@h:1\", \"mqtt://h:2\"]", "[\"mqtt://***@h:1\", \"mqtt://h:2\"]"),
            ("https://h/a?token=secret", "https://h/a?***"),
            ("mqtt://me:secrethost:1", "mqtt://me:***"),
            ("mqtt://[::1]:1883/x", "mqtt://[::1]:1883/x"),
            ("https://h:8443/a", "https://h:8443/a"),
            ("name = \"a\" # a word", "name = \"a\" # a word"),
        ] {
            assert_eq!(without_credentials(text), left);
        }
    }

    #[test]
    fn a_line_of_such_a_key_is_hidden_however_broken_it_is() {
        assert_eq!(shown_line("  brokers = [\"mqtt:/secret"), "  brokers = ***");
        assert_eq!(shown_line("orchestrator.brokers=secret"), "orchestrator.brokers= ***");
        assert_eq!(shown_line("max_messages = 5"), "max_messages = 5");
    }
}
