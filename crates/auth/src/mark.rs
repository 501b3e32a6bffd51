//! Marks: a provider recognises accepted credentials by them, also in another process.

use ring::digest::{SHA256, digest};

/// A digest of the data behind an accepted identity: the stored hash of a password or key, the key of a token, or the
/// settings that decide. It is the same in each process with the same data. Passwords can be guessed by it, without
/// asking a server, so it leaves a process only under a keyed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub [u8; Mark::BYTES]);

impl Mark {
    /// Length, bytes.
    pub const BYTES: usize = 16;

    /// The mark of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let whole = digest(&SHA256, bytes);
        let mut mark = [0; Self::BYTES];
        for (to, from) in mark.iter_mut().zip(whole.as_ref()) {
            *to = *from;
        }
        Self(mark)
    }

    /// The mark of the settings that decide about a client. Secrets are not in their text.
    pub(crate) fn of_settings(settings: &impl std::fmt::Debug) -> Self {
        Self::of(format!("{settings:?}").as_bytes())
    }
}
