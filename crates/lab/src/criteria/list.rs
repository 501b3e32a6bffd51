//! The criteria of the survey, and the source of each answer.

use super::probed;
use crate::probe::Finding;

/// A criterion.
#[derive(Clone, Copy, Debug)]
pub struct Criterion {
    /// Its statement's id.
    pub id: &'static str,
    /// The title.
    pub title: &'static str,
    /// The scenario that measures it.
    pub measured_by: Option<&'static str>,
    /// The answer from a probe's findings.
    pub(super) probed: Option<Say>,
}

/// Converts findings to a short answer.
pub(super) type Say = fn(&[Finding]) -> Option<String>;

const fn unmeasured(id: &'static str, title: &'static str) -> Criterion {
    Criterion { id, title, measured_by: None, probed: None }
}

const fn measured(id: &'static str, title: &'static str, scenario: &'static str) -> Criterion {
    Criterion { id, title, measured_by: Some(scenario), probed: None }
}

const fn asked(id: &'static str, title: &'static str, probed: Say) -> Criterion {
    Criterion { id, title, measured_by: None, probed: Some(probed) }
}

/// All of them, MID-02 to MID-36.
pub const CRITERIA: [Criterion; 35] = [
    unmeasured("MID-02", "Language of development"),
    unmeasured("MID-03", "Languages of client libraries"),
    unmeasured("MID-04", "First released"),
    unmeasured("MID-05", "Domain: data, messages, objects or services"),
    measured("MID-06", "Memory footprint", "middleware-footprint"),
    asked("MID-07", "Application protocols", probed::protocols),
    unmeasured("MID-08", "Platforms"),
    asked("MID-09", "Patterns of communication", probed::patterns),
    measured("MID-10", "Throughput", "middleware-throughput"),
    measured("MID-11", "Latency", "middleware-latency"),
    asked("MID-12", "Persistence", probed::persistence),
    asked("MID-13", "Load balancing", probed::balancing),
    measured("MID-14", "Scalability", "middleware-scalability and suite-connection"),
    asked("MID-15", "Routing", probed::routing),
    asked("MID-16", "Queues", probed::queues),
    asked("MID-17", "Delayed messages", probed::delayed),
    unmeasured("MID-18", "Consistency or availability when the network parts"),
    asked("MID-19", "Format of data within the middleware", probed::format),
    asked("MID-20", "Quality of service", probed::quality),
    asked("MID-21", "Security", probed::security),
    unmeasured("MID-22", "Discovery of brokers"),
    unmeasured("MID-23", "High availability and failover"),
    measured("MID-24", "Reliability", "kill-restart"),
    unmeasured("MID-25", "Services started by events"),
    asked("MID-26", "Loose coupling", probed::coupling),
    measured("MID-27", "Subscribers that join and leave", "middleware-dynamic-subscribers"),
    unmeasured("MID-28", "Looking for a better source after one was found"),
    unmeasured("MID-29", "Open standards"),
    asked("MID-30", "Management console", probed::console),
    unmeasured("MID-31", "Maintenance"),
    unmeasured("MID-32", "Ease of use, and how it is deployed"),
    unmeasured("MID-33", "Licence"),
    unmeasured("MID-34", "Self-hosted or remote"),
    unmeasured("MID-35", "Cost of operation"),
    unmeasured("MID-36", "Freedom from one vendor"),
];
