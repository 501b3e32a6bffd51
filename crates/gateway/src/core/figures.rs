//! The figures of the core, as a part of the broker's status.

use std::sync::Arc;

use tidegate_administration::Part;
use tidegate_console::Status;
use tidegate_context::service::CoreCounters;

/// The core of a gateway, as a part of the broker's status.
pub(super) struct CorePart(pub(super) Arc<CoreCounters>);

impl Part for CorePart {
    fn add_to(&self, status: &mut Status) {
        status.core = Some(self.0.figures());
    }
}
