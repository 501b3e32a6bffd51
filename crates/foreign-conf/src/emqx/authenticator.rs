//! An authenticator with its settings.

use crate::draft::Draft;
use crate::entry::Entry;

use super::{ETC, TLS};

/// An authenticator with its settings.
pub(super) struct Authenticator {
    settings: Vec<Part>,
    /// Whether EMQX asks no further one when this one does not know a client.
    pub(super) is_last: bool,
    /// Whether EMQX asks no other one.
    pub(super) is_only: bool,
}

/// A setting of an authenticator.
pub(super) struct Part {
    /// Its index in the report.
    pub(super) index: usize,
    /// Its key within the authenticator.
    pub(super) key: String,
    pub(super) entry: Entry,
}

/// All listeners are left out; the report has the reason.
#[derive(Debug)]
pub(super) struct Closed;

impl Authenticator {
    /// The authenticator whose settings have these indexes.
    pub(super) fn of(draft: &Draft, indexes: &[usize]) -> Self {
        let part = |&index: &usize| {
            let entry = draft.report.entries[index].clone();
            Part { index, key: own_key(&entry.path).to_owned(), entry }
        };
        Self { settings: indexes.iter().map(part).collect(), is_last: false, is_only: false }
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.settings
    }

    pub(super) fn find(&self, key: &str) -> Option<&Part> {
        self.settings.iter().find(|part| part.key == key)
    }

    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.find(key).map(|part| part.entry.value.as_str())
    }

    /// The setting with its kind, for a remark about all of it.
    pub(super) fn first(&self) -> usize {
        let found = self.find("backend").or(self.find("mechanism")).or(self.settings.first());
        found.map_or(0, |part| part.index)
    }

    /// Notes a disabled one; `true` when EMQX asks it.
    pub(super) fn is_enabled(&self, draft: &mut Draft) -> bool {
        let enabled = self.value("enable") != Some("false");
        if !enabled {
            self.settings.iter().for_each(|part| draft.report.changed(part.index, "it is disabled"));
        }
        enabled
    }

    /// Closes the result for each setting that is not known; a name with `.**` matches all below it. `false` when there is an unknown one.
    pub(super) fn knows(&self, draft: &mut Draft, known: &[&str]) -> bool {
        let is_known = |key: &str| {
            known.iter().any(|name| match name.strip_suffix("**") {
                Some(start) => key.starts_with(start) || start.strip_suffix('.') == Some(key),
                None => *name == key,
            })
        };
        let mut all = true;
        for part in self.settings.iter().filter(|part| !is_known(&part.key)) {
            draft.closed_by(part.index, "it is not known whether this restricts access");
            all = false;
        }
        all
    }

    /// The file of authorities for requests to a server, where one is named and used.
    ///
    /// # Errors
    /// When the result is closed.
    pub(super) fn authorities(&self, draft: &mut Draft, url: &str) -> Result<Option<(usize, String)>, Closed> {
        let secure = url.starts_with("https://");
        let enabled = self.find("ssl.enable");
        if let Some(part) = enabled.filter(|part| part.entry.truth() != Some(secure)) {
            draft.closed_by(part.index, "the scheme of the URL says otherwise");
            return Err(Closed);
        }
        let verifies = self.value("ssl.verify") == Some("verify_peer");
        let mut authorities = None;
        for part in &self.settings {
            let Some(key) = part.key.strip_prefix("ssl.") else { continue };
            match key {
                "enable" => {}
                _ if !secure => draft.report.changed(part.index, "says nothing without TLS"),
                "verify" if verifies => {}
                "verify" => draft.report.changed(part.index, "the certificate of the server is verified"),
                "cacertfile" if verifies => {
                    authorities = Some((part.index, part.entry.value.replace(ETC, "/etc/emqx")));
                }
                "cacertfile" => draft.report.changed(part.index, "says nothing without `verify_peer`"),
                "certfile" | "keyfile" => draft.report.refused(
                    part.index,
                    "the server is shown no certificate: one that requires it refuses all clients",
                ),
                _ => draft.report.changed(part.index, TLS),
            }
        }
        Ok(authorities)
    }
}

/// The key of an authenticator in `authentication.N.KEY`, or in `authentication.KEY` of one without a list.
fn own_key(path: &str) -> &str {
    let key = path.strip_prefix("authentication.").unwrap_or_default();
    match key.split_once('.') {
        Some((number, rest)) if number.parse::<usize>().is_ok() => rest,
        _ => key,
    }
}
