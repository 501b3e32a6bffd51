//! The WebSockets of a listener: its path, and the origins of pages that may connect.

/// The path of a listener and the pages that may connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    path: Box<str>,
    origins: Box<[String]>,
}

/// The path of a listener that serves all of them.
const EVERY_PATH: &str = "/*";
/// Allows pages of every origin.
const EVERY_ORIGIN: &str = "*";

impl Site {
    /// The WebSockets at `path`. Pages of these origins and of the listener's own origin may connect; if `origins` is empty,
    /// all pages may.
    pub fn new(path: &str, origins: &[String]) -> Self {
        Self { path: path.into(), origins: origins.into() }
    }

    /// The path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether a request for this path is served.
    pub(super) fn serves(&self, path: &str) -> bool {
        *self.path == *EVERY_PATH || *self.path == *path
    }

    /// Whether a page of this origin may connect to this host. Clients that are no page say none.
    pub(super) fn allows(&self, origin: Option<&str>, host: Option<&str>) -> bool {
        let Some(origin) = origin else { return true };
        let is_own = || origin.split_once("://").is_some_and(|(_, authority)| Some(authority) == host);
        self.origins.is_empty() || self.origins.iter().any(|one| one == EVERY_ORIGIN || one == origin) || is_own()
    }
}
