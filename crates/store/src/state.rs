//! The operations that the store can do at the moment.

/// The operations that the store can do at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Everything.
    Ok,
    /// There is no room to write: batches wait until there is.
    Full,
    /// The disk fails: batches wait and are retried. The text is the error of the disk.
    Failing(String),
    /// Another process owns the files: no commit will ever succeed here, and this state does not end.
    Fenced(String),
}
