//! Fleets of this user: where each keeps its state, which one is meant, and what it says of itself.

mod entry_point;
mod place;
mod session;

pub(crate) use place::{FleetArgs, Known, ManagerState, text_of};
pub(crate) use session::{After, AtItsEnd, Session, SessionArgs};
