//! Fleets of this user: where each keeps its state, which one is meant, and what it says of itself.

mod dns_metrics;
mod entry_point;
mod place;
mod resolver;
mod session;

pub(crate) use entry_point::table as places_table;
pub(crate) use place::{FleetArgs, Known, ManagerState, text_of};
pub(crate) use session::{After, AtItsEnd, Session, SessionArgs};
