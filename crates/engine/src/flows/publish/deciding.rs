//! The context in which the stages of the pipeline decide about a PUBLISH.

use crate::access::Rules;
use crate::addresses::Nodes;
use crate::cluster::outgoing::Outgoing;
use crate::cluster::peers::Peers;
use crate::groups::Groups;
use crate::ids::{AssignedNames, Place};
use crate::link::Links;
use crate::observers::Observers;
use crate::orchestrator::homes::HomesInForce;
use crate::orchestrator::uplink::Uplinks;
use crate::principals::Principals;
use crate::publish::admission::Admissions;
use crate::publish::layouts::Layouts;
use crate::publish::turn_share::TurnShare;
use crate::retained::RetainedStore;
use crate::retained::fetch::Fetches;
use crate::settings::Settings;
use crate::state::ShardState;
use crate::topics::{Route, RouteCache, SubscriptionIndex};

/// The parts of an engine that the stages of the pipeline look at, and the room that they reserve.
pub(crate) struct Deciding<'e> {
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
    pub rules: &'e Rules,
    pub peers: &'e mut Peers,
    pub assigned: &'e mut AssignedNames,
    pub homes: &'e HomesInForce,
    pub admissions: &'e mut Admissions,
    pub turn_share: &'e mut TurnShare,
    pub observers: &'e mut Observers,
    pub principals: &'e mut Principals,
    pub outgoing: &'e mut Outgoing,
    pub place: Place,
    pub settings: &'e Settings,
}

/// Borrows the context of the stages from an engine.
macro_rules! deciding {
    ($from:expr) => {
        $crate::flows::publish::deciding::Deciding {
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
            rules: &$from.rules,
            peers: &mut $from.peers,
            assigned: &mut $from.assigned,
            homes: &$from.homes,
            admissions: &mut $from.admissions,
            turn_share: &mut $from.turn_share,
            observers: &mut $from.observers,
            principals: &mut $from.principals,
            outgoing: &mut $from.outgoing,
            place: $from.place,
            settings: &$from.settings,
        }
    };
}

pub(crate) use deciding;
