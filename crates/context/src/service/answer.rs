//! Messages of clients to a gateway, and its answers.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_bus::BusError;

/// The outcome for a message, a context or an advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The bus has it, or it needs nothing more.
    Done,
    /// The bus does not have it. It may be sent again.
    Later,
    /// The bus will never take it. It is not to be sent again.
    Never,
}

type Tell = Box<dyn FnOnce(DeliveryOutcome) + Send>;

/// Tells the outcome for a message, a context or an advertisement once. If all its copies are dropped before, it tells
/// [`DeliveryOutcome::Later`].
#[derive(Clone)]
pub struct Answer(Arc<Untold>);

struct Untold(Mutex<Option<Tell>>);

impl Untold {
    fn tell(&self, outcome: DeliveryOutcome) {
        let tell = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(tell) = tell {
            tell(outcome);
        }
    }
}

impl Drop for Untold {
    fn drop(&mut self) {
        self.tell(DeliveryOutcome::Later);
    }
}

impl Answer {
    /// Calls `tell` once.
    pub fn new(tell: impl FnOnce(DeliveryOutcome) + Send + 'static) -> Self {
        Self(Arc::new(Untold(Mutex::new(Some(Box::new(tell))))))
    }

    /// The bus has it, or it needs nothing more.
    pub fn done(self) {
        self.0.tell(DeliveryOutcome::Done);
    }

    /// The bus has refused it.
    pub fn refuse(self, error: &BusError) {
        self.0.tell(if error.is_for_good() { DeliveryOutcome::Never } else { DeliveryOutcome::Later });
    }

    pub(crate) fn tell(self, outcome: DeliveryOutcome) {
        self.0.tell(outcome);
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

/// A message of a client as a definer.
#[derive(Debug)]
pub struct ClientAdvertisement {
    /// The definer.
    pub definer: String,
    /// The message.
    pub payload: Vec<u8>,
    /// Told when the bus has it.
    pub answer: Answer,
}

/// A context that a node has sent.
#[derive(Debug)]
pub struct NodeContext {
    /// The client id of the node.
    pub node: String,
    /// The context; empty when the node has gone for good.
    pub context: Vec<u8>,
    /// Told when the bus has it.
    pub answer: Answer,
}
