//! What an image of a partition is written from.

use crate::addresses::Nodes;
use crate::cluster::outgoing::Outgoing;
use crate::groups::Groups;
use crate::link::Links;
use crate::retained::RetainedStore;
use crate::retained::fetch::Fetches;
use crate::state::ShardState;
use crate::topics::SubscriptionIndex;

/// The parts of an engine that an image of a partition is written from. It changes none of them.
pub(crate) struct Imaging<'e> {
    pub state: &'e ShardState,
    pub index: &'e SubscriptionIndex,
    pub links: &'e Links,
    pub retained: &'e RetainedStore,
    pub fetches: &'e Fetches,
    pub groups: &'e Groups,
    pub nodes: &'e Nodes,
    pub outgoing: &'e Outgoing,
}

/// Borrows what an image is written from from an engine.
macro_rules! imaging {
    ($from:expr) => {
        $crate::flows::image::imaging::Imaging {
            state: &$from.state,
            index: &$from.index,
            links: &$from.links,
            retained: &$from.retained,
            fetches: &$from.fetches,
            groups: &$from.groups,
            nodes: &$from.nodes,
            outgoing: &$from.outgoing,
        }
    };
}

pub(crate) use imaging;
