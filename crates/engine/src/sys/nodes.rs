//! The values of `$SYS` of each node of a cluster, and their sums. A broker without a cluster is one node.

use std::collections::BTreeMap;

use crate::events::reason::Reason;
use crate::ids::{MAX_SHARDS, ShardId};
use crate::now::Millis;
use crate::roster::Shards;
use crate::sys::loads::Loads;
use crate::sys::values::{NUMBERS, SysValues};
use crate::wire::{WireError, WireReader, WireWrite};

/// Rounds without a whole answer after which a node is left out of the sums. Until then its last values count.
const SILENT_ROUNDS: u32 = 3;
/// Rounds without a whole answer after which a node is forgotten. Until then its state is shown as silent.
const FORGOTTEN_ROUNDS: u32 = 30;

/// The first byte of a report: its layout. A node with another layout has not answered.
const LAYOUT: u8 = 1;
/// Longest name of a node in a report, bytes: `tidegate_node::MAX_NODE_NAME`.
const NAME_MAX: usize = 64;

/// The report of a shard in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SysReport<'a> {
    /// The name of its node.
    pub(crate) node: &'a str,
    /// How many shards its node has.
    pub(crate) shards: u16,
    /// Since when its node runs, milliseconds ago.
    pub(crate) uptime_ms: u64,
    pub(crate) values: SysValues,
}

impl<'a> SysReport<'a> {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = vec![LAYOUT];
        out.put_u16(self.shards);
        out.put_u64(self.uptime_ms);
        out.put_bytes(self.node.as_bytes());
        self.values.write(&mut out);
        out
    }

    /// Reads a report of a shard. The name of another node is checked; that of a broker alone may be any text.
    pub(crate) fn read(bytes: &'a [u8], is_of_other: bool) -> Result<Self, WireError> {
        let mut reader = WireReader::new(bytes);
        if reader.u8("a layout")? != LAYOUT {
            return Err(WireError { reading: "a known layout" });
        }
        let shards = reader.u16("a number of shards")?;
        if !(1..=MAX_SHARDS).contains(&shards) {
            return Err(WireError { reading: "a number of shards" });
        }
        let uptime_ms = reader.u64("an uptime")?;
        let node = reader.text("the name of a node")?;
        if node.is_empty() || is_of_other && !is_node_name(node) {
            return Err(WireError { reading: "the name of a node" });
        }
        Ok(Self { node, shards, uptime_ms, values: SysValues::read(&mut reader) })
    }
}

/// Whether a text is the name of a node of a cluster, by the rules of `tidegate_node::NodeName`.
fn is_node_name(name: &str) -> bool {
    let is_possible = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_possible)
}

/// A node, as its shards have reported.
#[derive(Debug, Default)]
pub(crate) struct NodeValues {
    /// The sums of the reports in this round.
    gathered: SysValues,
    /// Shards that have reported in this round.
    answered: u16,
    /// Shards that it has.
    shards: u16,
    /// Its shards that have reported, as this process numbers them.
    places: Shards,
    uptime_ms: u64,
    /// The sums of the last round in which all its shards have reported.
    values: SysValues,
    loads: Loads,
    clients_maximum: u64,
    /// Rounds since then.
    silent: u32,
}

impl NodeValues {
    /// Whether its values count.
    fn counts(&self) -> bool {
        self.silent <= SILENT_ROUNDS
    }

    /// Ends a round. `live` are the shards to which this process has links, and its own.
    fn end_round(&mut self, now: Millis, live: Shards) {
        if self.answered == 0 || self.answered < self.shards {
            let is_gone = self.places.without(live) == self.places;
            self.silent = if is_gone { self.silent.max(SILENT_ROUNDS) } else { self.silent } + 1;
            return;
        }
        self.silent = 0;
        self.values = std::mem::take(&mut self.gathered);
        self.loads.take(now, self.uptime_ms, &self.values);
        self.clients_maximum = self.clients_maximum.max(self.values.numbers[0]);
    }

    /// Topics with their values, of this node alone.
    fn texts(&self) -> Vec<(String, String)> {
        let uptime = ("uptime".to_owned(), format!("{} seconds", self.uptime_ms / 1000));
        let mut texts = texts(&self.values, &self.loads, self.clients_maximum);
        texts.push(uptime);
        texts
    }
}

/// The values and the state of each node.
#[derive(Debug, Default)]
pub(crate) struct SysNodes {
    nodes: BTreeMap<String, NodeValues>,
    /// Most clients seen connected at once, at all nodes together.
    clients_maximum: u64,
}

impl SysNodes {
    /// Forgets all values but the maximum.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
    }

    pub(crate) fn begin_round(&mut self) {
        for node in self.nodes.values_mut() {
            (node.gathered, node.answered) = (SysValues::default(), 0);
        }
    }

    /// Takes the report of a shard for this round.
    pub(crate) fn take(&mut self, from: ShardId, report: &SysReport<'_>) {
        let place = Shards::of(from);
        // Its number may have been that of another node.
        for node in self.nodes.values_mut() {
            node.places = node.places.without(place);
        }
        let node = self.nodes.entry(report.node.to_owned()).or_default();
        node.places = node.places.with(place);
        node.gathered.add(&report.values);
        node.answered += 1;
        (node.shards, node.uptime_ms) = (report.shards, report.uptime_ms);
    }

    /// Ends a round. A node without a whole round is not shown, and one without a live shard is silent at once.
    pub(crate) fn end_round(&mut self, now: Millis, live: Shards) {
        for node in self.nodes.values_mut() {
            node.end_round(now, live);
        }
        self.nodes.retain(|_, node| node.silent <= FORGOTTEN_ROUNDS && node.loads.is_begun());
        // The clients of a node that has not answered may be connected elsewhere by now.
        let answered = self.nodes.values().filter(|node| node.silent == 0);
        let connected = answered.fold(0_u64, |sum, node| sum.saturating_add(node.values.numbers[0]));
        self.clients_maximum = self.clients_maximum.max(connected);
    }

    /// The sums over all nodes that count.
    fn sum(&self) -> (SysValues, Loads) {
        let (mut values, mut loads) = (SysValues::default(), Loads::default());
        for node in self.nodes.values().filter(|node| node.counts()) {
            values.add(&node.values);
            loads.add(&node.loads);
        }
        (values, loads)
    }

    /// Topics below `$SYS/broker/` with the sums over all nodes.
    pub(crate) fn sum_texts(&self) -> Vec<(String, String)> {
        let (values, loads) = self.sum();
        texts(&values, &loads, self.clients_maximum)
    }

    /// Topics below `$SYS/` with the names and the values of the nodes. `own` is the name of this node. Empty
    /// where there are no other nodes.
    pub(crate) fn node_texts(&self, own: &str) -> Vec<(String, String)> {
        if self.nodes.keys().all(|name| name == own) {
            return Vec::new();
        }
        let counted: Vec<_> = self.nodes.iter().filter(|(_, node)| node.counts()).map(|(name, _)| &**name).collect();
        let mut all = vec![("brokers".to_owned(), counted.join(","))];
        for (name, node) in &self.nodes {
            let (level, state) = (level(name), if node.counts() { "running" } else { "silent" });
            all.push((format!("brokers/{level}/state"), state.to_owned()));
            let texts = if node.counts() { node.texts() } else { Vec::new() };
            all.extend(texts.into_iter().map(|(topic, text)| (format!("brokers/{level}/{topic}"), text)));
        }
        all
    }
}

/// A name as a level of a topic, which may not have all characters.
pub(crate) fn level(name: &str) -> String {
    name.replace(['+', '#', '/'], "_")
}

fn texts(values: &SysValues, loads: &Loads, clients_maximum: u64) -> Vec<(String, String)> {
    let [connected, disconnected, ..] = values.numbers;
    let mut texts = vec![
        ("clients/total".into(), connected.saturating_add(disconnected).to_string()),
        ("clients/maximum".into(), clients_maximum.to_string()),
    ];
    for (number, value) in NUMBERS.iter().zip(values.numbers) {
        texts.extend(number.topics.iter().map(|topic| ((*topic).to_owned(), value.to_string())));
    }
    for (reason, count) in Reason::ALL.iter().zip(values.dropped).filter(|(_, count)| *count > 0) {
        texts.push((format!("publish/messages/dropped/{}", reason.label()), count.to_string()));
    }
    texts.extend(loads.texts());
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(node: &str, shards: u16, connected: u64) -> SysReport<'_> {
        let mut values = SysValues::default();
        values.numbers[0] = connected;
        SysReport { node, shards, uptime_ms: 60_000, values }
    }

    fn text(texts: &[(String, String)], topic: &str) -> Option<String> {
        texts.iter().find(|(it, _)| it == topic).map(|(_, text)| text.clone())
    }

    /// The shards of the nodes `a` and `b`.
    fn all() -> Shards {
        Shards::of(ShardId(0)).with(Shards::of(ShardId(1)))
    }

    fn round_with(nodes: &mut SysNodes, reports: &[SysReport<'_>], live: Shards) {
        nodes.begin_round();
        for report in reports {
            nodes.take(ShardId(u16::from(report.node != "a")), report);
        }
        nodes.end_round(Millis(1), live);
    }

    fn round(nodes: &mut SysNodes, reports: &[SysReport<'_>]) {
        round_with(nodes, reports, all());
    }

    #[test]
    fn a_report_survives_its_bytes_and_cut_ones_are_refused() {
        let report = report("a", 2, 7);
        let bytes = report.write();
        assert_eq!(SysReport::read(&bytes, true).unwrap(), report);
        assert!(SysReport::read(&bytes[..8], true).is_err());
        assert_eq!(SysReport::read(&bytes[..bytes.len() - 1], true).unwrap().node, "a");
        let other_layout = [&[LAYOUT + 1], &bytes[1..]].concat();
        assert!(SysReport::read(&other_layout, true).is_err());
    }

    #[test]
    fn a_report_with_an_impossible_name_or_size_is_refused() {
        let long = "n".repeat(NAME_MAX + 1);
        for name in ["", "a/b", "a+", "#", "a\u{0}", "ä", &long] {
            assert!(SysReport::read(&report(name, 1, 7).write(), true).is_err(), "{name:?}");
        }
        for shards in [0, MAX_SHARDS + 1] {
            assert!(SysReport::read(&report("a", shards, 7).write(), true).is_err(), "{shards}");
        }
        assert!(SysReport::read(&report("Node-1.b_c", MAX_SHARDS, 7).write(), true).is_ok());
        assert!(SysReport::read(&report("a broker/1", 1, 7).write(), false).is_ok(), "a broker alone");
    }

    #[test]
    fn clients_of_a_dead_node_raise_no_maximum_elsewhere() {
        let mut nodes = SysNodes::default();
        round(&mut nodes, &[report("a", 1, 3), report("b", 1, 4)]);
        for live in [all(), all(), Shards::of(ShardId(0))] {
            round_with(&mut nodes, &[report("a", 1, 7)], live);
        }
        assert_eq!(text(&nodes.sum_texts(), "clients/maximum").unwrap(), "7");
        assert_eq!(text(&nodes.sum_texts(), "clients/connected").unwrap(), "7", "it has no shard any more");
        assert_eq!(text(&nodes.node_texts("a"), "brokers/b/state").unwrap(), "silent");
    }

    #[test]
    fn a_silent_node_counts_for_three_rounds_and_is_shown() {
        let mut nodes = SysNodes::default();
        round(&mut nodes, &[report("a", 1, 2), report("b", 2, 3), report("b", 2, 4)]);
        assert_eq!(text(&nodes.sum_texts(), "clients/connected").unwrap(), "9");
        for _ in 0..SILENT_ROUNDS {
            // One of its shards alone is no answer of the node.
            round(&mut nodes, &[report("a", 1, 1), report("b", 2, 3)]);
            assert_eq!(text(&nodes.sum_texts(), "clients/connected").unwrap(), "8");
        }
        round(&mut nodes, &[report("a", 1, 1)]);
        let texts = nodes.node_texts("a");
        assert_eq!(text(&nodes.sum_texts(), "clients/connected").unwrap(), "1");
        assert_eq!(text(&nodes.sum_texts(), "clients/maximum").unwrap(), "9");
        assert_eq!(text(&texts, "brokers").unwrap(), "a");
        assert_eq!(text(&texts, "brokers/b/state").unwrap(), "silent");
        assert_eq!(text(&texts, "brokers/b/clients/connected"), None);
        assert_eq!(text(&texts, "brokers/a/clients/connected").unwrap(), "1");
        for _ in SILENT_ROUNDS..FORGOTTEN_ROUNDS {
            round(&mut nodes, &[report("a", 1, 1)]);
        }
        assert!(nodes.node_texts("a").is_empty(), "it is forgotten");
    }

    #[test]
    fn a_node_is_not_shown_before_its_first_whole_answer() {
        let mut nodes = SysNodes::default();
        round(&mut nodes, &[report("a", 1, 2), report("b", 2, 3)]);
        assert_eq!(text(&nodes.sum_texts(), "clients/connected").unwrap(), "2");
        assert!(nodes.node_texts("a").is_empty());
    }
}
