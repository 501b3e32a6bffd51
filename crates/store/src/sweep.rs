//! Entries that a merge drops although they were not deleted.

use std::sync::Arc;

/// Decides which entries are kept, for garbage that is never deleted one by one.
///
/// A sweep sees all live entries of one consistent state, once, in ascending order of their keys. It may remember an
/// entry to judge the entries behind it. A refused entry is gone for good.
pub trait Sweep: Send {
    /// Whether the entry stays.
    fn keep(&mut self, key: &[u8], value: &[u8]) -> bool;
}

impl<F: FnMut(&[u8], &[u8]) -> bool + Send> Sweep for F {
    fn keep(&mut self, key: &[u8], value: &[u8]) -> bool {
        self(key, value)
    }
}

/// Makes the sweep of each merge.
pub type SweepFactory = Arc<dyn Fn() -> Box<dyn Sweep> + Send + Sync>;

/// Sweeps that keep everything.
pub fn keep_all() -> SweepFactory {
    Arc::new(|| Box::new(|_: &[u8], _: &[u8]| true))
}
