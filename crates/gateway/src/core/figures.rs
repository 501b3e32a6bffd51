//! The figures of the core, as a part of the broker's status.

use std::sync::Arc;

use tidegate_administration::Part;
use tidegate_console::{CoreNumbers, Status};
use tidegate_context::service::{CoreCounters, CoreFigures};

/// The core of a gateway, as a part of the broker's status.
pub(super) struct CorePart(pub(super) Arc<CoreCounters>);

impl Part for CorePart {
    fn add_to(&self, status: &mut Status) {
        status.core = Some(core_numbers(&self.0.figures()));
    }
}

/// The figures of the core as metrics.
pub(super) fn core_numbers(figures: &CoreFigures) -> CoreNumbers {
    CoreNumbers {
        gateways: figures.gateways,
        load_reports: figures.load_reports,
        connection_reports: figures.connection_reports,
        context_reports: figures.context_reports,
        pings: figures.pings,
        pongs: figures.pongs,
        late_pongs: figures.late_pongs,
        handovers: figures.handovers,
        handovers_decided: figures.handovers_decided,
        group_changes: figures.group_changes,
        contexts_evaluated: figures.contexts_evaluated,
        advertisements: figures.advertisements,
        records_out: figures.records_out,
        records_refused: figures.records_refused,
        records_retried: figures.records_retried,
        records_waiting: figures.records_waiting,
        records_in: figures.records_in,
        records_rejected: figures.records_rejected,
        records_expired: figures.records_expired,
        left_out: figures.left_out(),
    }
}
