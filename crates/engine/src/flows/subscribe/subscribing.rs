//! The context in which subscriptions are added and removed.

use crate::access::Rules;
use crate::addresses::Nodes;
use crate::cluster::peers::Peers;
use crate::groups::Groups;
use crate::link::Links;
use crate::orchestrator::uplink::Uplinks;
use crate::publish::layouts::Layouts;
use crate::retained::RetainedStore;
use crate::retained::fetch::Fetches;
use crate::state::ShardState;
use crate::sys::Sys;
use crate::topics::SubscriptionIndex;

/// The parts of an engine that change with a subscription: the index, the groups, and the announcements to other shards and brokers.
pub(crate) struct Subscribing<'e> {
    pub state: &'e mut ShardState,
    pub index: &'e mut SubscriptionIndex,
    pub groups: &'e mut Groups,
    pub nodes: &'e mut Nodes,
    pub links: &'e mut Links,
    pub peers: &'e mut Peers,
    pub uplinks: &'e mut Uplinks,
    pub sys: &'e mut Sys,
    pub retained: &'e mut RetainedStore,
    pub layouts: &'e mut Layouts,
    pub fetches: &'e mut Fetches,
    pub rules: &'e Rules,
}

/// Borrows the context of a subscription from an engine.
macro_rules! subscribing {
    ($engine:expr) => {
        $crate::flows::subscribe::subscribing::Subscribing {
            state: &mut $engine.state,
            index: &mut $engine.index,
            groups: &mut $engine.groups,
            nodes: &mut $engine.nodes,
            links: &mut $engine.links,
            peers: &mut $engine.peers,
            uplinks: &mut $engine.uplinks,
            sys: &mut $engine.sys,
            retained: &mut $engine.retained,
            layouts: &mut $engine.layouts,
            fetches: &mut $engine.fetches,
            rules: &$engine.rules,
        }
    };
}

pub(crate) use subscribing;
