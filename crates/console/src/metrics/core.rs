//! Metrics of a gateway of mobile nodes and the services beside it. Where there are none, none has a sample.

use tidegate_context::service::CoreFigures;

use super::Reading;

metrics! { |it, out|
    /// Every metric of the core for mobile nodes, in the order in which they are written.
    Gauge "tidegate_context_gateways" [] => out.any(of(it, |core| core.gateways)),
        "Active gateways in the last list of the manager of points of access.";
    Counter "tidegate_context_load_reports_total" [] => out.any(of(it, |core| core.load_reports)),
        "Load reports told by this gateway.";
    Counter "tidegate_context_connection_reports_total" [] => out.any(of(it, |core| core.connection_reports)),
        "Connection reports told by this gateway.";
    Counter "tidegate_context_reports_total" [] => out.any(of(it, |core| core.context_reports)),
        "Contexts of nodes told by this gateway.";
    Counter "tidegate_context_pings_total" [] => out.any(of(it, |core| core.pings)),
        "Nodes that were pinged, in rounds that are over.";
    Counter "tidegate_context_pongs_total" [] => out.any(of(it, |core| core.pongs)),
        "Pongs that came within the window.";
    Counter "tidegate_context_late_pongs_total" [] => out.any(of(it, |core| core.late_pongs)),
        "Pongs that came after the window, and were discarded.";
    Counter "tidegate_context_handovers_total" [] => out.any(of(it, |core| core.handovers)),
        "Nodes that this gateway was asked to send elsewhere.";
    Counter "tidegate_context_handovers_decided_total" [] => out.any(of(it, |core| core.handovers_decided)),
        "Handovers that the manager of points of access in this process has decided.";
    Counter "tidegate_context_group_changes_total" [] => out.any(of(it, |core| core.group_changes)),
        "Changes of the groups of nodes that this gateway has made.";
    Counter "tidegate_context_evaluations_total" [] => out.any(of(it, |core| core.contexts_evaluated)),
        "Contexts that group definers in this process have looked at.";
    Counter "tidegate_context_advertisements_total" [] => out.any(of(it, |core| core.advertisements)),
        "Changes of groups that they have told.";
    Counter "tidegate_context_records_out_total" [] => out.any(of(it, |core| core.records_out)),
        "Messages for applications that were put on the bus.";
    Counter "tidegate_context_records_refused_total" [] => out.any(of(it, |core| core.records_refused)),
        "Messages for applications that the bus did not take; an alarm should watch it.";
    Counter "tidegate_context_records_retried_total" [] => out.any(of(it, |core| core.records_retried)),
        "Appends of such messages that were tried once more.";
    Gauge "tidegate_context_records_waiting" [] => out.any(of(it, |core| core.records_waiting)),
        "Messages for applications that wait for the bus now.";
    Counter "tidegate_context_records_in_total" [] => out.any(of(it, |core| core.records_in)),
        "Records of applications that were given to the broker, for nodes.";
    Counter "tidegate_context_records_rejected_total" [] => out.any(of(it, |core| core.records_rejected)),
        "Records of applications that were no messages, and were put into RejectedRecords; an alarm should watch it.";
    Counter "tidegate_context_records_expired_total" [] => out.any(of(it, |core| core.records_expired)),
        "Records of applications whose time was over when they were read.";
    Counter "tidegate_context_left_out_total" ["cause"] => {
        for (cause, count) in it.status.core.iter().flat_map(CoreFigures::left_out) {
            out.add(&[cause], count);
        }
    }, "Contexts of nodes, advertisements of groups and records between services that this process could not use, by cause; an alarm should watch it.";
}

fn of(it: &Reading<'_>, number: fn(&CoreFigures) -> u64) -> Option<u64> {
    it.status.core.as_ref().map(number)
}
