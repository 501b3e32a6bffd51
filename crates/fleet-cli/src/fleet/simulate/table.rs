//! The results of policies, for people.

use std::fmt::Write;

use tidegate_fleet::decide::PolicyName;
use tidegate_fleet::simulate::{Report, Trace};

/// Actions that are shown of a single policy; `--json` has all.
const ACTIONS_MAX: usize = 100;

/// The policies with their summaries.
pub(super) fn policies() -> String {
    PolicyName::ALL.into_iter().fold(String::new(), |mut text, policy| {
        let _ = writeln!(text, "{:<21} {}", policy.name(), policy.summary());
        text
    })
}

/// One row per policy; of a single policy its actions, too.
pub(super) fn compare(trace: &Trace, reports: &[Report]) -> String {
    let mut text = format!(
        "{} rows from {} s to {} s, at most {} messages/s\n\n",
        trace.rows().len(),
        trace.start_s(),
        trace.end_s(),
        trace.highest_rate()
    );
    let _ = writeln!(
        text,
        "{:<21} {:>9} {:>9} {:>12} {:>10} {:>9} {:>9} {:>9} {:>8} {:>6} {:>7} {:>9} {:>8} {:>20}",
        "policy",
        "time s",
        "resource",
        "cost",
        "efficiency",
        "missed s",
        "dropped",
        "wait s",
        "actions",
        "false",
        "regret",
        "handovers",
        "brokers",
        "above/within/below"
    );
    for report in reports {
        row(&mut text, report);
    }
    text.push_str(
        "\nresource: mean resources; cost: resource-seconds; missed: seconds in which messages came that waited too long;\n\
         dropped: messages that might not wait; wait: the longest; false: growth that was not needed within 60 s of serving;\n\
         regret: shrinking that was missed within 60 s; handovers: of each client in an hour; brokers: at the end;\n\
         above/within/below: observations by where the brokers' CPU was.\n",
    );
    if let [report] = reports {
        actions(&mut text, report);
    }
    text
}

fn row(text: &mut String, report: &Report) {
    let observations = report.observations;
    let seen = format!("{}/{}/{}", observations.above, observations.within, observations.below);
    let _ = writeln!(
        text,
        "{:<21} {:>9.0} {:>9.2} {:>12.0} {:>10.3} {:>9} {:>9.0} {:>9.1} {:>8} {:>6} {:>7} {:>9.2} {:>8} {:>20}",
        report.policy.name(),
        report.time_s,
        report.resource,
        report.cost,
        report.efficiency,
        report.missed_s,
        report.dropped,
        report.longest_wait_s,
        report.actions.len(),
        report.false_positives,
        report.regretted_shrinks,
        report.handovers_per_client_hour,
        report.brokers_at_the_end,
        seen
    );
}

fn actions(text: &mut String, report: &Report) {
    text.push('\n');
    if report.actions.is_empty() {
        text.push_str("no actions\n");
    }
    for action in report.actions.iter().take(ACTIONS_MAX) {
        let (time_s, level) = (action.time_s, action.level);
        let _ = writeln!(text, "{time_s:>10} s  {level:<12} {:>5} to {:<5} {}", action.from, action.to, action.reason);
    }
    if let Some(more) = report.actions.len().checked_sub(ACTIONS_MAX).filter(|more| *more > 0) {
        let _ = writeln!(text, "and {more} more: --json has all");
    }
}
