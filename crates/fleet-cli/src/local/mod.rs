//! Fleets of this user: the state directory of each, the choice among them, and their answers.

mod dns_metrics;
mod entry_point;
mod place;
mod resolver;
mod session;

pub(crate) use entry_point::{TableError, table as places_table};
pub(crate) use place::{FleetArgs, Known, ManagerState, PlaceError, text_of};
pub(crate) use session::{After, AtItsEnd, Session, SessionArgs};
