//! The outcomes of logins, for the console.

use std::sync::Arc;

use tidegate_console::Status;
use tidegate_identity::authentication::Authentication;

use crate::part::Part;

/// The authentication of clients, as a part of the broker's status.
pub struct LoginsPart(pub Arc<Authentication>);

impl Part for LoginsPart {
    fn add_to(&self, status: &mut Status) {
        status.logins = self.0.counters();
    }
}
