//! What dealing a message to a member of a shared group needs.

use crate::desk::Desk;
use crate::groups::Groups;
use crate::link::Links;
use crate::orchestrator::uplink::Uplinks;
use crate::publish::layouts::Layouts;

/// The parts of an engine that dealing works on: the groups, the sessions that may get a message, and the way to other
/// shards.
pub(crate) struct Dealing<'e> {
    pub desk: &'e mut Desk,
    pub layouts: &'e mut Layouts,
    pub links: &'e mut Links,
    pub groups: &'e mut Groups,
    pub uplinks: &'e mut Uplinks,
}

/// Borrows what dealing needs from an engine, or from what delivering needs.
macro_rules! dealing {
    ($from:ident) => {
        $crate::groups::dealing::Dealing {
            desk: &mut $from.desk,
            layouts: &mut $from.layouts,
            links: &mut $from.links,
            groups: &mut $from.groups,
            uplinks: &mut $from.uplinks,
        }
    };
}
pub(crate) use dealing;
