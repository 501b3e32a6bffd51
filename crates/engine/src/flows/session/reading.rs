//! The context in which the end of a long queue is read from the store.

use crate::access::Rules;
use crate::settings::Settings;
use crate::state::ShardState;

/// The parts of an engine that take messages of a queue back from the store.
pub(crate) struct Reading<'e> {
    pub state: &'e mut ShardState,
    pub rules: &'e Rules,
    pub settings: &'e Settings,
}

/// Borrows the context of reading queues from an engine.
macro_rules! reading {
    ($from:expr) => {
        $crate::flows::session::reading::Reading {
            state: &mut $from.state,
            rules: &$from.rules,
            settings: &$from.settings,
        }
    };
}

pub(crate) use reading;
