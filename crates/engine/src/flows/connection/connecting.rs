//! The context in which a CONNECT is checked and a session is bound.

use crate::access::Rules;
use crate::ids::AssignedNames;
use crate::link::Links;
use crate::orchestrator::homes::HomesInForce;
use crate::state::ShardState;
use crate::topics::SubscriptionIndex;

/// The parts of an engine that decide whether a client comes in, and under which name and limits.
pub(crate) struct Connecting<'e> {
    pub state: &'e mut ShardState,
    pub rules: &'e Rules,
    pub index: &'e mut SubscriptionIndex,
    pub homes: &'e HomesInForce,
    pub assigned: &'e mut AssignedNames,
    pub links: &'e Links,
}

/// Borrows the context of a CONNECT from an engine.
macro_rules! connecting {
    ($engine:expr) => {
        $crate::flows::connection::connecting::Connecting {
            state: &mut $engine.state,
            rules: &$engine.rules,
            index: &mut $engine.index,
            homes: &$engine.homes,
            assigned: &mut $engine.assigned,
            links: &$engine.links,
        }
    };
}

pub(crate) use connecting;
