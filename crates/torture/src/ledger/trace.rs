//! The last events of each topic, to see how something could happen.

use std::collections::{HashMap, VecDeque};

use super::{Clock, MessageId};

/// Events kept per topic.
const KEPT: usize = 96;
/// Events kept of connections.
const KEPT_MARKS: usize = 128;
/// Events kept of strikes and settled accounts.
const KEPT_STRIKES: usize = 16;

#[derive(Clone, Debug)]
struct Event {
    clock: Clock,
    id: MessageId,
    effect: &'static str,
    who: String,
}

/// A bounded ring of events per topic, and one for events of all topics.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    topics: HashMap<u32, VecDeque<Event>>,
    marks: VecDeque<(Clock, String)>,
    /// Apart, since clients that try again and again fill the marks.
    strikes: VecDeque<(Clock, String)>,
}

impl Trace {
    /// Notes an event of a message.
    pub(super) fn note(&mut self, topic: u32, clock: Clock, id: MessageId, effect: &'static str, who: &str) {
        let ring = self.topics.entry(topic).or_default();
        if ring.len() == KEPT {
            ring.pop_front();
        }
        ring.push_back(Event { clock, id, effect, who: who.to_owned() });
    }

    /// Notes an event of a connection.
    pub(crate) fn mark(&mut self, clock: Clock, text: String) {
        push(&mut self.marks, KEPT_MARKS, (clock, text));
    }

    /// Notes a strike, or that accounts are settled.
    pub(crate) fn mark_strike(&mut self, clock: Clock, text: String) {
        push(&mut self.strikes, KEPT_STRIKES, (clock, text));
    }

    /// The events of a topic, with the marks between them, oldest first.
    pub(super) fn of(&self, topic: u32) -> Vec<String> {
        let events = self.topics.get(&topic).into_iter().flatten();
        let mut lines: Vec<(Clock, String)> = events
            .map(|event| {
                let Event { clock, id, effect, who } = event;
                (*clock, format!("#{clock} {}:{} {effect} {who}", id.publisher, id.number).trim_end().to_owned())
            })
            .collect();
        let oldest = lines.first().map_or(0, |(clock, _)| *clock);
        let marks = self.marks.iter().chain(&self.strikes).filter(|(clock, _)| *clock >= oldest);
        lines.extend(marks.map(|(clock, text)| (*clock, format!("#{clock} -- {text}"))));
        lines.sort_by_key(|(clock, _)| *clock);
        lines.into_iter().map(|(_, line)| line).collect()
    }
}

fn push(ring: &mut VecDeque<(Clock, String)>, kept: usize, mark: (Clock, String)) {
    if ring.len() == kept {
        ring.pop_front();
    }
    ring.push_back(mark);
}
