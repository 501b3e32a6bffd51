//! What a provider is.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::decision::{Decision, Identity, Refusal, RefusalKind};
use crate::request::Request;

/// What a provider has at hand while it decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// The time left for this request. Whoever waits, waits no longer.
    pub(crate) left: Duration,
}

/// One provider of a chain.
pub(crate) trait Provider: fmt::Debug + Send + Sync + 'static {
    /// Decides about a request. It may take its time, up to what the context says.
    fn decide(&self, request: &Request, context: Context) -> Decision;

    /// Begins enhanced authentication, if it speaks the method.
    fn begin(&self, request: &Request) -> Option<Box<dyn Mechanism>> {
        let _ = request;
        None
    }

    /// How long its decisions may be remembered; none for as long as the chain remembers any.
    fn cache_ttl(&self) -> Option<Duration> {
        None
    }

    /// Whether its decisions depend on the address of the peer.
    fn looks_at_peer(&self) -> bool {
        false
    }

    /// The users that it has, each with a digest of what is kept about it, for a comparison at a reload.
    fn users(&self) -> Option<Vec<(String, u64)>> {
        None
    }
}

/// A method of enhanced authentication at work.
pub(crate) trait Mechanism: fmt::Debug + Send {
    /// Takes what the client sent.
    fn step(&mut self, data: &[u8]) -> Step;
}

/// What follows from what a client sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The client gets this in an AUTH with reason code 0x18, and its answer goes to [`Exchange::step`].
    Continue(Vec<u8>),
    /// It is decided. What there is still to say to a client that is let in goes into CONNACK, or into AUTH with reason
    /// code 0x00 after a re-authentication.
    Done(Decision, Option<Vec<u8>>),
}

/// An enhanced authentication under way. Each step costs microseconds and may be done on any thread.
#[derive(Debug)]
pub struct Exchange {
    mechanism: Box<dyn Mechanism>,
    /// Steps that are left.
    steps: u32,
    /// What the client is already, when it authenticates again.
    current: Option<Identity>,
    /// The epoch of the chain's providers, and what it was when the exchange began.
    epoch: Arc<AtomicU64>,
    began: u64,
}

impl Exchange {
    /// Steps of an exchange; no method needs as many.
    const MAX_STEPS: u32 = 8;

    pub(crate) fn new(mechanism: Box<dyn Mechanism>, current: Option<Identity>, epoch: Arc<AtomicU64>) -> Self {
        let began = epoch.load(Ordering::Acquire);
        Self { mechanism, steps: Self::MAX_STEPS, current, epoch, began }
    }

    /// Takes the Authentication Data of CONNECT or AUTH. After [`Step::Done`] every further step is refused.
    pub fn step(&mut self, data: &[u8]) -> Step {
        if self.steps == 0 {
            return refused("the exchange is over");
        }
        self.steps -= 1;
        let step = self.mechanism.step(data);
        match step {
            Step::Continue(_) if self.steps == 0 => refused("the exchange takes too many steps"),
            Step::Continue(data) => Step::Continue(data),
            Step::Done(decision, data) => {
                self.steps = 0;
                self.finish(decision, data)
            }
        }
    }

    /// Who authenticates again must be who it was: MQTT has no way to become somebody else within a connection. And who
    /// was removed by a reload meanwhile does not come in.
    fn finish(&self, decision: Decision, data: Option<Vec<u8>>) -> Step {
        if matches!(decision, Decision::Allow(_)) && self.epoch.load(Ordering::Acquire) != self.began {
            let why = "the providers were replaced meanwhile";
            return Step::Done(Decision::Deny(Refusal::by_chain(RefusalKind::Unavailable, why)), None);
        }
        if let (Decision::Allow(identity), Some(current)) = (&decision, &self.current)
            && identity.user_name != current.user_name
        {
            return refused("the client authenticated again as another user");
        }
        Step::Done(decision, data)
    }
}

fn refused(why: &str) -> Step {
    Step::Done(Decision::Deny(Refusal::by_chain(RefusalKind::NotAuthorized, why)), None)
}
