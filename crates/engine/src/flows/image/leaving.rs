//! The context in which partitions move between shards and processes.

use crate::access::Rules;
use crate::addresses::Nodes;
use crate::cluster::peers::Peers;
use crate::groups::Groups;
use crate::ids::{AssignedNames, Place};
use crate::image::Handover;
use crate::link::Links;
use crate::observers::Observers;
use crate::orchestrator::homes::HomesInForce;
use crate::orchestrator::uplink::Uplinks;
use crate::principals::Principals;
use crate::publish::layouts::Layouts;
use crate::retained::RetainedStore;
use crate::retained::fetch::Fetches;
use crate::settings::Settings;
use crate::state::ShardState;
use crate::sys::Sys;
use crate::topics::{Route, RouteCache, SubscriptionIndex};

/// The parts of an engine that write, read, hand over and forget the sessions of partitions that move.
pub(crate) struct Moving<'e> {
    pub state: &'e mut ShardState,
    pub index: &'e mut SubscriptionIndex,
    pub cache: &'e mut RouteCache,
    pub scratch_route: &'e mut Route,
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
    pub handover: &'e mut Handover,
    pub assigned: &'e mut AssignedNames,
    pub homes: &'e HomesInForce,
    pub observers: &'e mut Observers,
    pub principals: &'e mut Principals,
    pub place: Place,
    pub settings: &'e Settings,
}

/// Borrows the context of moving partitions from an engine, or from a wider context.
macro_rules! moving {
    ($from:expr) => {
        $crate::flows::image::leaving::Moving {
            state: &mut $from.state,
            index: &mut $from.index,
            cache: &mut $from.cache,
            scratch_route: &mut $from.scratch_route,
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
            handover: &mut $from.handover,
            assigned: &mut $from.assigned,
            homes: &$from.homes,
            observers: &mut $from.observers,
            principals: &mut $from.principals,
            place: $from.place,
            settings: &$from.settings,
        }
    };
}

pub(crate) use moving;
