//! The context in which a publisher is made to wait.

use crate::desk::Desk;
use crate::ids::Place;
use crate::link::Links;
use crate::publish::turn_share::TurnShare;
use crate::settings::Settings;

/// The parts of an engine that make a publisher wait: its connection, the links that may be full, and the share of the turn.
pub(crate) struct Parking<'e> {
    pub desk: &'e mut Desk,
    pub links: &'e mut Links,
    pub turn_share: &'e mut TurnShare,
    pub place: Place,
    pub settings: &'e Settings,
}

/// Borrows the context of waiting publishers from an engine, or from a wider context.
macro_rules! parking {
    ($from:ident) => {
        $crate::publish::parking::Parking {
            desk: &mut $from.desk,
            links: &mut $from.links,
            turn_share: &mut $from.turn_share,
            place: $from.place,
            settings: &$from.settings,
        }
    };
}
pub(crate) use parking;
