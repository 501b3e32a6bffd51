//! The state that a service shares with its owner: its progress, and whether it must end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_bus::BusError;

/// How far a service has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has yet to reach the bus, to find or make its logs there, to take its place beside others, or to read earlier
    /// records.
    Begins(Option<BlockReason>),
    /// It works, or stands by for others that do.
    Stands,
}

/// The obstacle of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockReason {
    /// In words for people.
    pub why: String,
    /// Whether trying again may help, without anybody changing something.
    pub passes: bool,
}

impl From<&BusError> for BlockReason {
    fn from(error: &BusError) -> Self {
        let passes = matches!(
            error,
            BusError::Away { .. } | BusError::Unconfirmed { .. } | BusError::Waiting { .. } | BusError::Stopped
        );
        Self { why: error.to_string(), passes }
    }
}

/// Shows how far a service has come.
#[derive(Clone, Debug)]
pub struct Watch {
    service: Arc<str>,
    stage: Arc<Mutex<Stage>>,
}

impl Watch {
    /// Which service it is.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.here().clone()
    }

    fn here(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The service's side of it.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    over: Arc<AtomicBool>,
    watch: Watch,
}

impl Course {
    /// That of a service which begins now.
    pub(super) fn new(service: &str) -> Self {
        let stage = Arc::new(Mutex::new(Stage::Begins(None)));
        Self { over: Arc::default(), watch: Watch { service: service.into(), stage } }
    }

    /// The progress of the service, for observers.
    pub(super) fn watch(&self) -> &Watch {
        &self.watch
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Whether it is to end.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Something is in the way; it is tried again.
    pub(crate) fn is_hindered(&self, error: &BusError) {
        *self.watch.here() = Stage::Begins(Some(BlockReason::from(error)));
    }

    /// Its thread has ended. If that was not requested, it reports that nothing of the service is left.
    pub(super) fn has_ended(&self) {
        if self.is_over() {
            return;
        }
        tracing::error!(
            service = self.watch.service(),
            "a service of the core ended unexpectedly; restart the process"
        );
        let why = "the service ended unexpectedly; restart the process".to_owned();
        *self.watch.here() = Stage::Begins(Some(BlockReason { why, passes: false }));
    }

    /// It works or stands by now, or does not (any more).
    pub(crate) fn stands(&self, stands: bool) {
        let mut stage = self.watch.here();
        match &*stage {
            Stage::Stands if !stands => *stage = Stage::Begins(None),
            Stage::Begins(_) if stands => *stage = Stage::Stands,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_obstacle_is_reported_until_the_service_stands() {
        let course = Course::new("groups");
        let watch = course.watch().clone();
        assert_eq!((watch.service(), watch.stage()), ("groups", Stage::Begins(None)));
        course.is_hindered(&BusError::Mismatch { log: "x".to_owned(), difference: "number of partitions" });
        course.stands(false);
        assert!(matches!(watch.stage(), Stage::Begins(Some(BlockReason { passes: false, .. }))));
        course.is_hindered(&BusError::Away { waited: std::time::Duration::ZERO, reason: String::new() });
        assert!(matches!(watch.stage(), Stage::Begins(Some(BlockReason { passes: true, .. }))));
        course.stands(true);
        assert_eq!(watch.stage(), Stage::Stands);
        course.stands(false);
        assert_eq!(watch.stage(), Stage::Begins(None), "the earlier obstacle is over");
        course.stands(true);
        course.has_ended();
        assert!(
            matches!(watch.stage(), Stage::Begins(Some(BlockReason { passes: false, .. }))),
            "no owner has asked it to"
        );
    }

    #[test]
    fn a_service_that_was_asked_to_end_lacks_nothing() {
        let course = Course::new("groups");
        course.stands(true);
        course.end();
        course.has_ended();
        assert_eq!(course.watch().stage(), Stage::Stands);
    }
}
