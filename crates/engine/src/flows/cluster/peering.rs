//! The context in which shards tell each other of subscriptions and groups.

use crate::access::Rules;
use crate::addresses::Nodes;
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
use crate::sys::Sys;
use crate::topics::SubscriptionIndex;

/// The parts of an engine that process announcements of other shards about their subscriptions and groups.
pub(crate) struct Peering<'e> {
    pub state: &'e mut ShardState,
    pub index: &'e mut SubscriptionIndex,
    pub layouts: &'e mut Layouts,
    pub links: &'e mut Links,
    pub retained: &'e mut RetainedStore,
    pub fetches: &'e mut Fetches,
    pub groups: &'e mut Groups,
    pub nodes: &'e mut Nodes,
    pub uplinks: &'e mut Uplinks,
    pub sys: &'e mut Sys,
    pub rules: &'e Rules,
    pub peers: &'e mut Peers,
    pub principals: &'e mut Principals,
    pub outgoing: &'e mut Outgoing,
    pub place: Place,
}

/// Borrows the context of announcements of other shards from an engine.
macro_rules! peering {
    ($from:expr) => {
        $crate::flows::cluster::peering::Peering {
            state: &mut $from.state,
            index: &mut $from.index,
            layouts: &mut $from.layouts,
            links: &mut $from.links,
            retained: &mut $from.retained,
            fetches: &mut $from.fetches,
            groups: &mut $from.groups,
            nodes: &mut $from.nodes,
            uplinks: &mut $from.uplinks,
            sys: &mut $from.sys,
            rules: &$from.rules,
            peers: &mut $from.peers,
            principals: &mut $from.principals,
            outgoing: &mut $from.outgoing,
            place: $from.place,
        }
    };
}

pub(crate) use peering;
