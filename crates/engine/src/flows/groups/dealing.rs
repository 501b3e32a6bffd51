//! The context in which messages are dealt to members of shared groups.

use crate::groups::Groups;
use crate::link::Links;
use crate::orchestrator::uplink::Uplinks;
use crate::publish::layouts::Layouts;
use crate::state::ShardState;

/// The parts of an engine that dealing works on: the groups, the sessions that may get a message, and the way to other
/// shards.
pub(crate) struct Dealing<'e> {
    pub state: &'e mut ShardState,
    pub layouts: &'e mut Layouts,
    pub links: &'e mut Links,
    pub groups: &'e mut Groups,
    pub uplinks: &'e mut Uplinks,
}

/// Borrows the context of dealing from an engine, or from a wider context.
macro_rules! dealing {
    ($from:expr) => {
        $crate::flows::groups::dealing::Dealing {
            state: &mut $from.state,
            layouts: &mut $from.layouts,
            links: &mut $from.links,
            groups: &mut $from.groups,
            uplinks: &mut $from.uplinks,
        }
    };
}

pub(crate) use dealing;
