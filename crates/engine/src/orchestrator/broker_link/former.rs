//! Sessions of brokers that an earlier process knew and no configuration names any more: other brokers get their
//! messages.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{BROKER_LINK_PREFIX, BrokerLinkKey};
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::Brokers;
use crate::session::Session;
use crate::session::table::Sessions;
use crate::state::ShardState;
use crate::timers::Timer;

/// How long after the first broker serves the others of an earlier process may still be named, milliseconds. Who
/// manages a fleet names them one after the other.
const NAMED_WITHIN_MS: u64 = 10_000;

/// The state of the brokers of an earlier process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Former {
    /// Their sessions have not been looked for.
    #[default]
    Unknown,
    /// They may still be named until then.
    Awaited(Millis),
    /// There are none, or they were given up.
    Settled,
}

impl Former {
    /// Whether brokers of an earlier process may still be named: each keeps messages for this one. `named` are the sessions
    /// of the present ones.
    pub(crate) fn may_be_named(self, named: &BTreeMap<u32, BrokerLinkKey>, sessions: &Sessions) -> bool {
        let is_unnamed = |(key, session): (u32, &Session)| {
            let name = session.client_id.strip_prefix(BROKER_LINK_PREFIX).filter(|_| session.is_broker_link());
            name.is_some_and(|name| !is_of_dead(name)) && !named.contains_key(&key)
        };
        self != Self::Settled && sessions.iter().any(is_unnamed)
    }
}

/// Whether the broker link of this name is the connection of a dead orchestrator. The name of a broker has no `@`.
pub(crate) fn is_of_dead(name: &str) -> bool {
    name.contains('@')
}

/// The connections of dead orchestrators ([`crate::OrchestratorMoves::adopt_broker_link`]) that this process continues after a
/// restart. Their sessions are kept until they are adopted again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Continued {
    /// This process continues none.
    #[default]
    None,
    /// This process does not know yet which connections it continues.
    All,
    /// The connections with these names in the fleet.
    Named(BTreeSet<String>),
}

impl Continued {
    /// Whether the session of the broker link of this name is kept.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => is_of_dead(name),
            Self::Named(names) => names.contains(name),
        }
    }
}

impl Brokers {
    /// A broker serves: brokers of an earlier process that are not named in time are given up from now on.
    pub(super) fn await_former_broker_links(&mut self, now: Now, state: &mut ShardState) {
        if self.former == Former::Unknown {
            let until = now.monotonic.plus(NAMED_WITHIN_MS);
            self.former = Former::Awaited(until);
            state.timers.set(until, Timer::FormerBrokerLinks);
        }
    }
}
