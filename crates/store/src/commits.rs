//! The interface for news of commits.

/// The receiver of commit notifications.
pub trait Commits: Send {
    /// All batches of this writer up to this sequence are committed. Called once for each writer and group, in the
    /// order of the journal, from the store's writing thread: it should only hand the news over.
    fn on_committed(&mut self, writer: u16, sequence: u64);
}

impl<F: FnMut(u16, u64) + Send> Commits for F {
    fn on_committed(&mut self, writer: u16, sequence: u64) {
        self(writer, sequence);
    }
}
