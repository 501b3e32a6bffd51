//! The interface to the brokers of a fleet.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::decision::RefusalKind;
use crate::request::Request;

/// Asks a broker about the user name and password of a request, and waits for the answer no longer than it may.
pub trait AskFleet: Send + Sync + 'static {
    /// The answer of a broker.
    ///
    /// # Errors
    /// When the client does not come in: why not.
    fn ask(&self, request: &Request, limit: Duration) -> Result<(), (RefusalKind, String)>;
}

/// The party that asks the brokers. Clones are the same.
#[derive(Clone)]
pub struct FleetAsker(pub Arc<dyn AskFleet>);

impl PartialEq for FleetAsker {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for FleetAsker {}

impl fmt::Debug for FleetAsker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FleetAsker")
    }
}
