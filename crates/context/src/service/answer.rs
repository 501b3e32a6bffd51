//! Messages of clients to a gateway, and its answers.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_bus::BusError;

/// The outcome for a message, a context or an advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The bus has it, or it needs nothing more.
    Done,
    /// The bus does not have it. It may be sent again.
    Later,
    /// The bus will never take it. It is not to be sent again.
    Never,
}

type Tell = Box<dyn FnOnce(Fate) + Send>;

/// Tells the outcome for a message, a context or an advertisement once. If all its copies are dropped before, it tells
/// [`Fate::Later`].
#[derive(Clone)]
pub struct Answer(Arc<Untold>);

struct Untold(Mutex<Option<Tell>>);

impl Untold {
    fn tell(&self, fate: Fate) {
        let tell = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(tell) = tell {
            tell(fate);
        }
    }
}

impl Drop for Untold {
    fn drop(&mut self) {
        self.tell(Fate::Later);
    }
}

impl Answer {
    /// Calls `tell` once.
    pub fn new(tell: impl FnOnce(Fate) + Send + 'static) -> Self {
        Self(Arc::new(Untold(Mutex::new(Some(Box::new(tell))))))
    }

    /// The bus has it, or it needs nothing more.
    pub fn done(self) {
        self.0.tell(Fate::Done);
    }

    /// The bus has refused it.
    pub fn refuse(self, error: &BusError) {
        self.0.tell(if error.is_for_good() { Fate::Never } else { Fate::Later });
    }

    pub(crate) fn tell(self, fate: Fate) {
        self.0.tell(fate);
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
