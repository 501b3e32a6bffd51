//! A setting of another broker with its place.

/// The replacement of a password.
const HIDDEN: &str = "***";

/// A setting: a path of names, and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its names, joined by dots; an element of a list has its number, from 0.
    pub(crate) path: String,
    /// The value as text; a list of texts is joined by commas.
    pub(crate) value: String,
    /// The texts of a list.
    pub(crate) items: Vec<String>,
    /// The kind of value.
    pub(crate) form: Form,
    /// The name of its file.
    pub(crate) file: String,
    /// Its line, from 1.
    pub(crate) line: usize,
    /// Whether a later setting replaces it.
    pub(crate) replaced: bool,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A text, a number or a truth.
    Text,
    /// A list of such, or an empty list.
    List,
    /// It comes from the environment or from another place that is not read.
    Unknown,
}

impl Entry {
    /// A text at a line of a file.
    pub(crate) fn text(file: &str, line: usize, path: &str, value: &str) -> Self {
        Self {
            path: path.to_owned(),
            value: value.to_owned(),
            items: Vec::new(),
            form: Form::Text,
            file: file.to_owned(),
            line,
            replaced: false,
        }
    }

    /// The value for people, without a password or a key.
    pub(crate) fn shown(&self) -> String {
        const WORDS: [&str; 11] = [
            "password",
            "secret",
            "cookie",
            "salt",
            "token",
            "api_key",
            "api-key",
            "private_key",
            "credential",
            "license",
            "service_account",
        ];
        let path = self.path.to_ascii_lowercase();
        let last = path.rsplit('.').next().unwrap_or_default();
        let secret = |name: &str| {
            let within = WORDS.iter().any(|word| name.contains(word));
            (within && name != "password_hash_algorithm") || name == "pass" || name.ends_with("_pass")
        };
        let harmless =
            ["file", "type", "_interval", "-interval"].iter().any(|end| last.ends_with(end)) || last == "salt_position";
        let with_user = self.value.contains("://") && self.value.contains('@');
        // `authorization` alone is also the section of rules; headers are hidden whatever their names are.
        let header = path.split('.').rev().skip(1).any(|name| name == "headers") || last == "authorization";
        if with_user || header || !harmless && path.split('.').any(secret) {
            return HIDDEN.to_owned();
        }
        self.value.clone()
    }

    /// A truth in the words of any of the brokers.
    pub(crate) fn truth(&self) -> Option<bool> {
        match self.value.trim() {
            "true" | "on" | "yes" | "enabled" | "1" => Some(true),
            "false" | "off" | "no" | "disabled" | "0" => Some(false),
            _ => None,
        }
    }

    /// The names behind a prefix: `["default", "bind"]` of `listeners.tcp.default.bind` behind `listeners.tcp`.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.path.split('.').collect()
    }
}

/// Whether a path has the form of a pattern: `*` at the end of a name is any
/// rest of it, and `**` any further names.
pub(crate) fn matches(pattern: &str, path: &str) -> bool {
    let mut names = path.split('.');
    for part in pattern.split('.') {
        if part == "**" {
            return true;
        }
        match names.next() {
            Some(name) if part == name || part.strip_suffix('*').is_some_and(|start| name.starts_with(start)) => {}
            _ => return false,
        }
    }
    names.next().is_none()
}

/// Settings in lines `KEY = VALUE`, as VerneMQ and RabbitMQ write them; `#` begins a comment. Lines of another form are
/// returned as settings without a value.
pub(crate) fn lines(file: &str, text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for (index, raw) in text.lines().enumerate() {
        let line = raw.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with(['#', '%']) {
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let value = value.trim();
        // A comment behind a value needs a space before it.
        let value = value.split_once(" #").map_or(value, |(value, _)| value.trim_end());
        let unquoted = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap_or(value);
        let entry = Entry::text(file, index + 1, key.trim(), unquoted);
        for earlier in entries.iter_mut().filter(|earlier| earlier.path == entry.path) {
            earlier.replaced = true;
        }
        entries.push(entry);
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_headers_are_hidden() {
        for path in [
            "connectors.http.a.authorization",
            "connectors.http.a.Authorization",
            "api_key.0.value",
            "bridge.api-key",
            "gcp.private_key",
            "gcp.service_account_json",
            "hub.credentials",
            "license.key",
            "authentication.0.headers.X-Tenant",
            "authentication.0.headers.content-type",
        ] {
            assert_eq!(Entry::text("f", 1, path, "value").shown(), HIDDEN, "{path}");
        }
        for path in ["authorization.no_match", "credentials-reload-interval", "api_key.bootstrap_file", "headers"] {
            assert_eq!(Entry::text("f", 1, path, "value").shown(), "value", "{path}");
        }
    }
}
