//! The checks of an audit of an engine.

use crate::addresses::Nodes;
use crate::cluster::outgoing::Outgoing;
use crate::groups::Groups;
use crate::ids::ShardPosition;
use crate::link::Links;
use crate::observers::Observers;
use crate::orchestrator::broker_link::BrokerLinks;
use crate::principals::Principals;
use crate::publish::fan_out::FanOuts;
use crate::publish::turn_share::TurnShare;
use crate::retained::fetch::Fetches;
use crate::session::ended::EndedSessions;
use crate::settings::Settings;
use crate::state::ShardState;
use crate::sys::Sys;
use crate::topics::SubscriptionIndex;

/// The parts of an engine that an audit compares with each other. It changes none of them.
pub(crate) struct Audit<'e> {
    pub state: &'e ShardState,
    pub index: &'e SubscriptionIndex,
    pub links: &'e Links,
    pub groups: &'e Groups,
    pub nodes: &'e Nodes,
    pub broker_links: &'e BrokerLinks,
    pub sys: &'e Sys,
    pub fan_outs: &'e FanOuts,
    pub fetches: &'e Fetches,
    pub turn_share: &'e TurnShare,
    pub endings: &'e EndedSessions,
    pub observers: &'e Observers,
    pub principals: &'e Principals,
    pub outgoing: &'e Outgoing,
    pub place: ShardPosition,
    pub settings: &'e Settings,
}

/// Borrows the parts of an engine that an audit checks.
macro_rules! auditing {
    ($from:expr) => {
        $crate::audit::checks::Audit {
            state: &$from.state,
            index: &$from.router.index,
            links: &$from.links,
            groups: &$from.groups,
            nodes: &$from.nodes,
            broker_links: &$from.broker_links,
            sys: &$from.sys,
            fan_outs: &$from.fan_outs,
            fetches: &$from.retaining.fetches,
            turn_share: &$from.turn_share,
            endings: &$from.endings,
            observers: &$from.services.observers,
            principals: &$from.services.principals,
            outgoing: &$from.peers.outgoing,
            place: $from.place,
            settings: &$from.state.settings,
        }
    };
}
pub(crate) use auditing;
