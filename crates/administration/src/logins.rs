//! The outcomes of logins, for the console.

use std::sync::Arc;

use tidegate_console::{Logins, Status};
use tidegate_identity::authentication::Authentication;

use crate::part::Part;

/// The authentication of clients, as a part of the broker's status.
pub struct LoginsPart(pub Arc<Authentication>);

impl Part for LoginsPart {
    fn add_to(&self, status: &mut Status) {
        status.logins = logins(&self.0);
    }
}

fn logins(authentication: &Authentication) -> Logins {
    let counted = authentication.counters();
    Logins {
        allowed: counted.allowed,
        refused: counted.refused,
        unavailable: counted.unavailable,
        cache_hits: counted.cache_hits,
        coalesced: counted.coalesced,
        overflowed: counted.overflowed,
        late: counted.late,
        waiting: counted.waiting,
        remembered: counted.remembered,
    }
}
