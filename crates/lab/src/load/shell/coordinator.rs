//! Agreement between the processes of a run.

use crate::load::core::Totals;
use crate::load::error::LoadError;
use crate::load::outcome::Second;

/// A question of a process to the others.
pub(crate) trait Coordinator {
    /// Whether the run is to end before its time.
    fn is_stopped(&mut self) -> bool;

    /// All clients of this process are there; when publishing begins, once all others say the same. Asked again until
    /// there is an answer.
    fn gathered(&mut self, now_ns: u64) -> Result<Option<u64>, LoadError>;

    /// All messages of this process are sent; returns the totals of all processes once the others have sent theirs. It
    /// is called again until there is an answer.
    fn all_sent(&mut self, totals: &Totals) -> Result<Option<Totals>, LoadError>;

    /// A second has passed.
    fn second(&mut self, second: &Second);
}

/// A process that is alone.
pub(crate) struct Alone<'a> {
    /// The receiver of the progress.
    pub(crate) progress: &'a mut dyn crate::load::Progress,
    /// Whether the run is to end before its time.
    pub(crate) stop: &'a std::sync::atomic::AtomicBool,
}

impl Coordinator for Alone<'_> {
    fn is_stopped(&mut self) -> bool {
        self.stop.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn gathered(&mut self, now_ns: u64) -> Result<Option<u64>, LoadError> {
        self.progress.began(now_ns);
        Ok(Some(now_ns))
    }

    fn all_sent(&mut self, totals: &Totals) -> Result<Option<Totals>, LoadError> {
        self.progress.draining();
        Ok(Some(totals.clone()))
    }

    fn second(&mut self, second: &Second) {
        self.progress.second(second);
    }
}
