//! Counters of the answers of an entry point, for Prometheus.

use std::fmt::Write;

use tidegate_dns::{AnswerKind, Counters, DropReason, Event, QueryKind, UpdateCounters};

/// The counters of a DNS server, and of updates of another one, in the text format of Prometheus.
pub(super) fn page(counters: Option<&Counters>, updates: Option<&UpdateCounters>) -> String {
    let mut page = String::new();
    if let Some(updates) = updates {
        let outcomes = [("done", updates.done()), ("failed", updates.failed())];
        let help = "Updates of the zone at another DNS server, by outcome.";
        metric(&mut page, "tidegate_dns_updates_total", "outcome", help, outcomes.into_iter());
    }
    if let Some(counters) = counters {
        add_server(&mut page, counters);
    }
    page
}

fn add_server(page: &mut String, counters: &Counters) {
    let queries = QueryKind::ALL.iter().map(|kind| (kind.label(), counters.queries(*kind)));
    metric(page, "tidegate_dns_queries_total", "type", "Queries that were understood, by type.", queries);
    let answers = AnswerKind::ALL.iter().map(|kind| (kind.label(), counters.answers(*kind)));
    metric(page, "tidegate_dns_answers_total", "answer", "Answers of the entry point, by kind.", answers);
    let drops = DropReason::ALL.iter().map(|reason| (reason.label(), counters.dropped(*reason)));
    metric(page, "tidegate_dns_dropped_total", "reason", "Packets that were not answered, by reason.", drops);
    let events = Event::ALL.iter().map(|event| (event.label(), counters.events(*event)));
    metric(page, "tidegate_dns_events_total", "event", "What else happened at the entry point.", events);
}

fn metric<'a>(page: &mut String, name: &str, label: &str, help: &str, values: impl Iterator<Item = (&'a str, u64)>) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} counter");
    for (value, count) in values {
        let _ = writeln!(page, "{name}{{{label}=\"{value}\"}} {count}");
    }
}
