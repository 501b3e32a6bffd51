//! The context in which a session ends and its will is published.

use crate::access::Rules;
use crate::addresses::Nodes;
use crate::cluster::outgoing::Outgoing;
use crate::cluster::peers::Peers;
use crate::durable::Recovery;
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
use crate::session::ended::EndedSessions;
use crate::settings::Settings;
use crate::state::ShardState;
use crate::sys::Sys;
use crate::topics::{Route, RouteCache, SubscriptionIndex};

/// The parts of an engine that end a session, and that publish its will here or owe it to other nodes.
pub(crate) struct SessionEnding<'e> {
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
    pub recovery: &'e mut Recovery,
    pub handover: &'e mut Handover,
    pub assigned: &'e mut AssignedNames,
    pub homes: &'e HomesInForce,
    pub endings: &'e mut EndedSessions,
    pub observers: &'e mut Observers,
    pub principals: &'e mut Principals,
    pub outgoing: &'e mut Outgoing,
    pub place: Place,
    pub settings: &'e Settings,
}

/// Borrows the context of ending sessions from an engine.
macro_rules! ending {
    ($from:expr) => {
        $crate::flows::cluster::ending::SessionEnding {
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
            recovery: &mut $from.recovery,
            handover: &mut $from.handover,
            assigned: &mut $from.assigned,
            homes: &$from.homes,
            endings: &mut $from.endings,
            observers: &mut $from.observers,
            principals: &mut $from.principals,
            outgoing: &mut $from.outgoing,
            place: $from.place,
            settings: &$from.settings,
        }
    };
}

pub(crate) use ending;
