//! The context in which messages are routed, retained and delivered.

use crate::access::Rules;
use crate::addresses::Nodes;
use crate::groups::Groups;
use crate::ids::AssignedNames;
use crate::link::Links;
use crate::observers::Observers;
use crate::orchestrator::homes::HomesInForce;
use crate::orchestrator::uplink::Uplinks;
use crate::principals::Principals;
use crate::publish::layouts::Layouts;
use crate::retained::RetainedStore;
use crate::state::ShardState;
use crate::topics::{Route, RouteCache, SubscriptionIndex};

/// The parts of an engine that route, retain and deliver a message. No connection is opened or closed by it.
pub(crate) struct Publishing<'e> {
    pub state: &'e mut ShardState,
    pub layouts: &'e mut Layouts,
    pub links: &'e mut Links,
    pub groups: &'e mut Groups,
    pub uplinks: &'e mut Uplinks,
    pub index: &'e mut SubscriptionIndex,
    pub cache: &'e mut RouteCache,
    pub scratch_route: &'e mut Route,
    pub retained: &'e mut RetainedStore,
    pub assigned: &'e mut AssignedNames,
    pub observers: &'e mut Observers,
    pub nodes: &'e mut Nodes,
    pub homes: &'e HomesInForce,
    pub rules: &'e Rules,
    pub principals: &'e Principals,
}

/// Borrows the context of publishing from an engine.
macro_rules! publishing {
    ($engine:expr) => {
        $crate::flows::publish::publishing::Publishing {
            state: &mut $engine.state,
            layouts: &mut $engine.layouts,
            links: &mut $engine.links,
            groups: &mut $engine.groups,
            uplinks: &mut $engine.uplinks,
            index: &mut $engine.index,
            cache: &mut $engine.cache,
            scratch_route: &mut $engine.scratch_route,
            retained: &mut $engine.retained,
            assigned: &mut $engine.assigned,
            observers: &mut $engine.observers,
            nodes: &mut $engine.nodes,
            homes: &$engine.homes,
            rules: &$engine.rules,
            principals: &$engine.principals,
        }
    };
}

pub(crate) use publishing;
