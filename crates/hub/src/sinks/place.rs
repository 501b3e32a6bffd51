//! The position of a sink, and the ids by which receivers know its records.

use std::fmt::Write;

/// The pipeline that a sink gets its records from, and the lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SinkLane<'a> {
    /// The name of the pipeline.
    pub pipeline: &'a str,
    /// The lane of the sink, counted from 0.
    pub lane: usize,
    /// Whether it gets the dead letters.
    pub dead_letters: bool,
}

/// Makes the ids by which a receiver drops a record that it has already. A message has one for each pipeline and sink:
/// two pipelines that write to one stream or table make different records of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    suffix: String,
}

impl Ids {
    pub(super) fn new(place: &SinkLane<'_>, sink: &str) -> Self {
        let mut suffix = String::new();
        for name in [place.pipeline, sink] {
            suffix.push('/');
            append(&mut suffix, name);
        }
        if place.dead_letters {
            suffix.push_str("/dead");
        }
        Self { suffix }
    }

    /// The id of a record, by that of its message. It fits a header.
    pub(super) fn of(&self, message: &str) -> String {
        let mut id = String::with_capacity(message.len() + self.suffix.len());
        append(&mut id, message);
        id.push_str(&self.suffix);
        id
    }
}

/// Makes the ids of the transactions of a lane. Two brokers with one name of a pipeline and a sink have different prefixes.
#[derive(Clone, Debug)]
pub(super) struct LaneIds {
    sink: String,
    pub(super) lane: usize,
}

impl LaneIds {
    pub(super) fn new(ids: &Ids, prefix: &str, lane: usize) -> Self {
        let mut sink = String::new();
        append(&mut sink, prefix);
        sink.push_str(&ids.suffix);
        Self { sink, lane }
    }

    /// The prefix of the ids of all lanes of the sink.
    pub(super) fn of_sink(&self) -> &str {
        &self.sink
    }

    /// The id of a lane.
    pub(super) fn of_lane(&self, lane: usize) -> String {
        format!("{}/{lane}", self.sink)
    }
}

/// Appends visible characters as they are, and the bytes of others as in URLs.
fn append(out: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'/' | b'%') {
            out.push(char::from(byte));
        } else {
            // Writing to text does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pipeline_and_sink_has_its_own_id_of_a_message() {
        let hot = SinkLane { pipeline: "hot", ..SinkLane::default() };
        let id = |place: &SinkLane<'_>, sink| Ids::new(place, sink).of("a-1");
        assert_eq!(id(&hot, "bus"), "a-1/hot/bus");
        assert_eq!(id(&SinkLane { lane: 3, ..hot }, "bus"), "a-1/hot/bus", "lanes share them");
        assert_eq!(id(&SinkLane { dead_letters: true, ..hot }, "bus"), "a-1/hot/bus/dead");
        assert_eq!(id(&hot, "bus/dead"), "a-1/hot/bus%2Fdead");
        assert_eq!(id(&SinkLane { pipeline: "h\u{f6}\n", ..hot }, "b s"), "a-1/h%C3%B6%0A/b%20s");
    }

    #[test]
    fn brokers_with_other_prefixes_have_other_transactions() {
        let ids = Ids::new(&SinkLane { pipeline: "hot", ..SinkLane::default() }, "bus");
        let id = |prefix| LaneIds::new(&ids, prefix, 0).of_lane(3);
        assert_eq!(id("tidegate-hub"), "tidegate-hub/hot/bus/3");
        assert_eq!(id("plant/2"), "plant%2F2/hot/bus/3");
    }
}
