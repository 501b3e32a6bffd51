//! The interface of a provider.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::decision::{Decision, Identity, Refusal, RefusalKind};
use crate::mark::Mark;
use crate::request::Request;

/// The context of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// The time left for this request: the longest that the provider may wait.
    pub(crate) left: Duration,
}

/// One provider of a chain.
pub(crate) trait Provider: fmt::Debug + Send + Sync + 'static {
    /// Decides about a request, within the time of the context.
    fn decide(&self, request: &Request, context: Context) -> Decision;

    /// Begins enhanced authentication, if the provider supports the method.
    fn begin(&self, request: &Request) -> Option<Box<dyn Mechanism>> {
        let _ = request;
        None
    }

    /// How long its decisions may be cached; `None` for the limit of the chain.
    fn cache_ttl(&self) -> Option<Duration> {
        None
    }

    /// Whether its decisions depend on the address of the peer.
    fn looks_at_peer(&self) -> bool {
        false
    }

    /// The mark of the credential that has proven this identity; `None` if the provider would no longer accept it. A
    /// provider that keeps no data of its clients has one mark for all, of the settings that decide.
    fn mark(&self, identity: &Identity) -> Option<Mark>;

    /// Whether the provider would accept an identity whose mark `is_mark` knows.
    fn accepts(&self, identity: &Identity, is_mark: &dyn Fn(Mark) -> bool) -> bool {
        self.mark(identity).is_some_and(is_mark)
    }

    /// Its users, each with a digest of its stored data, to be compared at a reload.
    fn users(&self) -> Option<Vec<(String, u64)>> {
        None
    }
}

/// A method of enhanced authentication at work.
pub(crate) trait Mechanism: fmt::Debug + Send {
    /// Processes the client's data.
    fn step(&mut self, data: &[u8]) -> Step;
}

/// The next action in an exchange.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The client gets this in an AUTH with reason code 0x18, and its answer goes to [`Exchange::step`].
    Continue(Vec<u8>),
    /// The exchange is decided. Final data for an accepted client is sent in CONNACK, or in AUTH with reason code 0x00
    /// after a re-authentication.
    Done(Decision, Option<Vec<u8>>),
}

/// An enhanced authentication under way. Each step costs microseconds and may be done on any thread.
#[derive(Debug)]
pub struct Exchange {
    mechanism: Box<dyn Mechanism>,
    provider: Arc<dyn Provider>,
    /// Steps that are left.
    steps: u32,
    /// The current identity of a client that re-authenticates.
    current: Option<Identity>,
    /// The epoch of the chain's providers, and its value when the exchange began.
    epoch: Arc<AtomicU64>,
    began: u64,
}

impl Exchange {
    /// Steps of an exchange; no method needs as many.
    const MAX_STEPS: u32 = 8;

    pub(crate) fn new(
        mechanism: Box<dyn Mechanism>,
        provider: Arc<dyn Provider>,
        current: Option<Identity>,
        epoch: Arc<AtomicU64>,
    ) -> Self {
        let began = epoch.load(Ordering::Acquire);
        Self { mechanism, provider, steps: Self::MAX_STEPS, current, epoch, began }
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

    /// A re-authentication must keep the identity: MQTT has no way to change the user within a connection. A user that
    /// a reload removed meanwhile is refused.
    fn finish(&self, mut decision: Decision, data: Option<Vec<u8>>) -> Step {
        if let Decision::Allow(identity) = &mut decision {
            identity.mark = self.provider.mark(identity);
        }
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
