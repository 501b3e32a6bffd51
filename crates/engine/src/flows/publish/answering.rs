//! The context in which packets are acknowledged.

use crate::access::Rules;
use crate::cluster::outgoing::Outgoing;
use crate::cluster::peers::Peers;
use crate::groups::Groups;
use crate::ids::Place;
use crate::link::Links;
use crate::orchestrator::uplink::Uplinks;
use crate::principals::Principals;
use crate::publish::layouts::Layouts;
use crate::retained::RetainedStore;
use crate::retained::fetch::Fetches;
use crate::state::ShardState;
use crate::topics::SubscriptionIndex;

/// The parts of an engine that acknowledge a packet when all that it promises is confirmed, and that tell principals the outcome.
pub(crate) struct Answering<'e> {
    pub state: &'e mut ShardState,
    pub index: &'e mut SubscriptionIndex,
    pub layouts: &'e mut Layouts,
    pub links: &'e mut Links,
    pub retained: &'e mut RetainedStore,
    pub fetches: &'e mut Fetches,
    pub groups: &'e mut Groups,
    pub uplinks: &'e mut Uplinks,
    pub rules: &'e Rules,
    pub peers: &'e mut Peers,
    pub principals: &'e mut Principals,
    pub outgoing: &'e mut Outgoing,
    pub place: Place,
}

/// Borrows the context of acknowledgements from an engine, or from a wider context.
macro_rules! answering {
    ($from:expr) => {
        $crate::flows::publish::answering::Answering {
            state: &mut $from.state,
            index: &mut $from.index,
            layouts: &mut $from.layouts,
            links: &mut $from.links,
            retained: &mut $from.retained,
            fetches: &mut $from.fetches,
            groups: &mut $from.groups,
            uplinks: &mut $from.uplinks,
            rules: &$from.rules,
            peers: &mut $from.peers,
            principals: &mut $from.principals,
            outgoing: &mut $from.outgoing,
            place: $from.place,
        }
    };
}

pub(crate) use answering;
