//! How a part of a running broker takes a new configuration: it is prepared first, and put in force when all parts are.

use crate::Config;
use crate::path::KeyPath;

/// Why a part refuses a new configuration.
pub type PrepareError = Box<dyn std::error::Error + Send + Sync>;

/// A part of the broker that takes a new configuration while it runs.
pub trait Reloadable: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &'static str;

    /// Whether a change of this key is put in force by it.
    fn takes(&self, key: &KeyPath) -> bool;

    /// Reads and checks the files that a new configuration names, also if no key has changed, since the files may have.
    ///
    /// # Errors
    /// When anything cannot be used. Nothing changes then.
    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, PrepareError>;
}

/// Something that was found right and waits to be put in force.
pub trait Prepared {
    /// Puts it in force, which cannot fail. Returns the differences of the files, a line for each.
    fn commit(self: Box<Self>) -> Vec<String>;
}
