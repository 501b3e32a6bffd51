//! Names of logs and live subjects on the servers.

use std::fmt::Write;

use crate::{Keep, LogName, LogSpec, Partition, Subject, SubjectFilter, Writers};

/// The stream of a partition: `PREFIX_LOG_PARTITION`.
pub(super) fn stream(prefix: &str, log: &LogName, partition: Partition) -> String {
    format!("{prefix}_{log}_{partition}")
}

/// The beginning of all subjects of a partition.
fn root(prefix: &str, log: &LogName, partition: Partition) -> String {
    format!("{prefix}.log.{log}.{partition}")
}

/// The subjects of a partition's stream.
pub(super) fn subjects(prefix: &str, log: &LogName, partition: Partition) -> String {
    format!("{}.>", root(prefix, log, partition))
}

/// The subject of a claim.
pub(super) fn claim(prefix: &str, log: &LogName, partition: Partition) -> String {
    format!("{}.claim", root(prefix, log, partition))
}

/// The subject of a record: one for each key where only the latest of each is kept.
pub(super) fn record(prefix: &str, spec: &LogSpec, partition: Partition, key: &[u8]) -> String {
    let root = root(prefix, &spec.name, partition);
    match spec.keep {
        Keep::All => format!("{root}.record"),
        Keep::LatestOfKey => format!("{root}.key.{}", hex(key)),
    }
}

/// The subjects of all records.
pub(super) fn records(prefix: &str, spec: &LogSpec, partition: Partition) -> String {
    let root = root(prefix, &spec.name, partition);
    match spec.keep {
        Keep::All => format!("{root}.record"),
        Keep::LatestOfKey => format!("{root}.key.>"),
    }
}

pub(super) fn live(prefix: &str, subject: &Subject) -> String {
    format!("{prefix}.live.{subject}")
}

pub(super) fn live_filter(prefix: &str, filter: &SubjectFilter) -> String {
    format!("{prefix}.live.{}", filter.as_str())
}

/// The subject behind the name on the server.
pub(super) fn of_live(prefix: &str, name: &str) -> Option<Subject> {
    Subject::new(name.strip_prefix(prefix)?.strip_prefix(".live.")?).ok()
}

/// The properties of a log that cannot change, as the description of its streams.
pub(super) fn description(spec: &LogSpec) -> String {
    let writers = match spec.writers {
        Writers::Many => "many",
        Writers::Owner => "owner",
    };
    let keep = match spec.keep {
        Keep::All => "all",
        Keep::LatestOfKey => "latest-of-key",
    };
    format!("tidegate bus: partitions={} writers={writers} keep={keep}", spec.partitions)
}

/// The property that differs between a stream's description and a log.
pub(super) fn difference(found: &str, spec: &LogSpec) -> &'static str {
    let wanted = description(spec);
    let parts = found.split(' ').zip(wanted.split(' '));
    let different = parts.into_iter().find(|(found, wanted)| found != wanted).map_or("", |(_, wanted)| wanted);
    match different.split('=').next() {
        Some("partitions") => "number of partitions",
        Some("writers") => "kind of writers",
        Some("keep") => "way of keeping records",
        _ => "description of its stream",
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing into a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_documented() {
        let spec = LogSpec::fenced(LogName::new("state").unwrap(), 4).latest_of_key();
        assert_eq!(stream("p", &spec.name, Partition(3)), "p_state_3");
        assert_eq!(record("p", &spec, Partition(3), b"a/#"), "p.log.state.3.key.612f23");
        assert_eq!(description(&spec), "tidegate bus: partitions=4 writers=owner keep=latest-of-key");
        let other = LogSpec { partitions: 5, ..spec.clone() };
        assert_eq!(difference(&description(&spec), &other), "number of partitions");
        assert_eq!(difference("another program's", &spec), "description of its stream");
        let subject = Subject::new("node.a").unwrap();
        assert_eq!(of_live("p", &live("p", &subject)), Some(subject));
        assert_eq!(unhex(&hex(&[0, 255, 16])), Some(vec![0, 255, 16]));
        assert_eq!(unhex("zz"), None);
    }
}
