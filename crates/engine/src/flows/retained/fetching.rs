//! The context in which retained messages are brought to subscriptions.

use crate::access::Rules;
use crate::link::Links;
use crate::publish::layouts::Layouts;
use crate::retained::RetainedStore;
use crate::retained::fetch::Fetches;
use crate::state::ShardState;
use crate::topics::SubscriptionIndex;

/// The parts of an engine that bring retained messages to subscriptions.
pub(crate) struct Fetching<'e> {
    pub state: &'e mut ShardState,
    pub fetches: &'e mut Fetches,
    pub index: &'e SubscriptionIndex,
    pub layouts: &'e mut Layouts,
    pub links: &'e mut Links,
    pub retained: &'e mut RetainedStore,
    pub rules: &'e Rules,
}

/// Borrows the context of a fetch from an engine.
macro_rules! fetching {
    ($engine:expr) => {
        $crate::flows::retained::fetching::Fetching {
            state: &mut $engine.state,
            fetches: &mut $engine.fetches,
            index: &$engine.index,
            layouts: &mut $engine.layouts,
            links: &mut $engine.links,
            retained: &mut $engine.retained,
            rules: &$engine.rules,
        }
    };
}

pub(crate) use fetching;
