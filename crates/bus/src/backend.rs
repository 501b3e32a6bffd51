//! The interface of a backend.

use std::sync::Arc;

use crate::budget::Ticket;
use crate::completion::Completion;
use crate::{
    Append, Bounds, BusError, Connection, Epoch, LiveMessage, LogPartition, LogSpec, Position, Reader, SubjectFilter,
    Subscription, Wake,
};

/// A partition of a log that is known.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) spec: Arc<LogSpec>,
    pub(crate) place: LogPartition,
}

/// The operations of a backend. Their arguments have been checked; a result that takes time comes through the
/// completion.
pub(crate) trait Backend: Send + Sync {
    fn connection(&self) -> Connection;
    fn failure(&self) -> Option<String>;
    fn create(&self, spec: Arc<LogSpec>, completion: Completion<()>);
    fn own(&self, target: Target, completion: Completion<Epoch>);
    fn append(&self, target: Target, append: Append, completion: Completion<Position>);
    fn read(&self, target: Target, from: Position, wake: Wake) -> Result<Reader, BusError>;
    fn bounds(&self, target: Target, completion: Completion<Bounds>);
    fn trim(&self, target: Target, below: Position, completion: Completion<()>);
    /// The room is given back when the message is on its way.
    fn publish(&self, message: LiveMessage, room: Ticket) -> Result<(), BusError>;
    fn subscribe(&self, filter: SubjectFilter, wake: Wake) -> Result<Subscription, BusError>;
}
