//! Bodies of requests about groups, offsets and records, and what their answers say.

use crate::sinks::SinkError;
use crate::sinks::kafka::wire::{AnswerReader, bytes, string};

/// The kind of group that Kafka's own consumers make.
const GROUP_KIND: &str = "consumer";
/// How the leader of a group deals partitions: each member gets a range of them.
const STRATEGY: &str = "range";
/// The version of subscriptions and assignments.
const VERSION: i16 = 0;

/// This process as a member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) group: String,
    /// Given by the coordinator; empty for a new member.
    pub(super) id: String,
    pub(super) generation: i32,
}

impl Member {
    fn start(&self) -> Vec<u8> {
        let mut body = Vec::new();
        string(&self.group, &mut body);
        body.extend_from_slice(&self.generation.to_be_bytes());
        string(&self.id, &mut body);
        body
    }

    pub(super) fn heartbeat(&self) -> Vec<u8> {
        self.start()
    }

    pub(super) fn leave(&self) -> Vec<u8> {
        let mut body = Vec::new();
        string(&self.group, &mut body);
        string(&self.id, &mut body);
        body
    }

    pub(super) fn join(&self, topic: &str, session_ms: i32, rebalance_ms: i32) -> Vec<u8> {
        let mut subscription = VERSION.to_be_bytes().to_vec();
        subscription.extend_from_slice(&1_i32.to_be_bytes());
        string(topic, &mut subscription);
        subscription.extend_from_slice(&(-1_i32).to_be_bytes());
        let mut body = Vec::new();
        string(&self.group, &mut body);
        body.extend_from_slice(&session_ms.to_be_bytes());
        body.extend_from_slice(&rebalance_ms.to_be_bytes());
        string(&self.id, &mut body);
        string(GROUP_KIND, &mut body);
        body.extend_from_slice(&1_i32.to_be_bytes());
        string(STRATEGY, &mut body);
        bytes(&subscription, &mut body);
        body
    }

    /// `assignments` has an entry for each member when this member leads, and none otherwise.
    pub(super) fn sync(&self, assignments: &[Assignment]) -> Vec<u8> {
        let mut body = self.start();
        body.extend_from_slice(&(assignments.len() as u32).to_be_bytes());
        for one in assignments {
            let mut assignment = VERSION.to_be_bytes().to_vec();
            assignment.extend_from_slice(&(one.topics.len() as u32).to_be_bytes());
            for (topic, partitions) in &one.topics {
                string(topic, &mut assignment);
                numbers(partitions, &mut assignment);
            }
            assignment.extend_from_slice(&(-1_i32).to_be_bytes());
            string(&one.member, &mut body);
            bytes(&assignment, &mut body);
        }
        body
    }

    pub(super) fn commit(&self, topic: &str, offsets: &[(i32, i64)]) -> Vec<u8> {
        let mut body = self.start();
        // Kept as long as brokers keep offsets.
        body.extend_from_slice(&(-1_i64).to_be_bytes());
        body.extend_from_slice(&1_i32.to_be_bytes());
        string(topic, &mut body);
        body.extend_from_slice(&(offsets.len() as u32).to_be_bytes());
        for (partition, offset) in offsets {
            body.extend_from_slice(&partition.to_be_bytes());
            body.extend_from_slice(&offset.to_be_bytes());
            string("", &mut body);
        }
        body
    }

    pub(super) fn committed(&self, topic: &str, partitions: &[i32]) -> Vec<u8> {
        let mut body = Vec::new();
        string(&self.group, &mut body);
        body.extend_from_slice(&1_i32.to_be_bytes());
        string(topic, &mut body);
        numbers(partitions, &mut body);
        body
    }
}

fn numbers(numbers: &[i32], out: &mut Vec<u8>) {
    out.extend_from_slice(&(numbers.len() as u32).to_be_bytes());
    for number in numbers {
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// A member of a group, and the topics that it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subscriber {
    pub(super) id: String,
    pub(super) topics: Vec<String>,
}

/// The partitions that a member gets, by topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) member: String,
    pub(super) topics: Vec<(String, Vec<i32>)>,
}

/// The answer to a JOIN.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) error: i16,
    pub(super) generation: i32,
    pub(super) leader: String,
    pub(super) id: String,
    /// All members; empty for members that do not lead.
    pub(super) members: Vec<Subscriber>,
}

pub(super) fn joined(answer: &mut AnswerReader<'_>) -> Result<Joined, SinkError> {
    answer.i32()?;
    let (error, generation) = (answer.i16()?, answer.i32()?);
    answer.string()?;
    let (leader, id) = (answer.string()?, answer.string()?);
    let members = answer.each(|member| {
        let id = member.string()?;
        // A member whose subscription cannot be read gets no partitions.
        let topics = subscribed(member.bytes()?).unwrap_or_default();
        Ok(Subscriber { id, topics })
    })?;
    Ok(Joined { error, generation, leader, id, members })
}

/// The topics of a subscription.
fn subscribed(subscription: &[u8]) -> Result<Vec<String>, SinkError> {
    let mut subscription = AnswerReader(subscription);
    subscription.i16()?;
    subscription.each(AnswerReader::string)
}

/// The error of an answer that has no more than that.
pub(super) fn error_of(answer: &mut AnswerReader<'_>) -> Result<i16, SinkError> {
    answer.i32()?;
    answer.i16()
}

/// The error of a SYNC, and the partitions of `topic` that this member gets.
pub(super) fn synced(answer: &mut AnswerReader<'_>, topic: &str) -> Result<(i16, Vec<i32>), SinkError> {
    answer.i32()?;
    let error = answer.i16()?;
    let assignment = answer.bytes()?;
    if error != 0 || assignment.is_empty() {
        return Ok((error, Vec::new()));
    }
    let mut assignment = AnswerReader(assignment);
    assignment.i16()?;
    let topics = assignment.each(|one| Ok((one.string()?, one.each(AnswerReader::i32)?)))?;
    let own = topics.into_iter().filter(|(name, _)| name == topic);
    Ok((0, own.flat_map(|(_, partitions)| partitions).collect()))
}

/// The errors of partitions in the answer to a commit.
pub(super) fn commit_errors(answer: &mut AnswerReader<'_>) -> Result<Vec<i16>, SinkError> {
    let topics = answer.each(|topic| {
        topic.string()?;
        topic.each(|one| {
            one.i32()?;
            one.i16()
        })
    })?;
    Ok(topics.into_iter().flatten().collect())
}

/// Partitions with their offset and their error.
pub(super) fn committed_offsets(answer: &mut AnswerReader<'_>) -> Result<Vec<(i32, i64, i16)>, SinkError> {
    let topics = answer.each(|topic| {
        topic.string()?;
        topic.each(|one| {
            let (partition, offset) = (one.i32()?, one.i64()?);
            one.string()?;
            Ok((partition, offset, one.i16()?))
        })
    })?;
    Ok(topics.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> Member {
        Member { group: "g".into(), id: "m".into(), generation: 3 }
    }

    #[test]
    fn an_assignment_is_read_as_it_was_written() {
        let topics = vec![("other".to_owned(), vec![1]), ("t".to_owned(), vec![0, 2])];
        let body = member().sync(&[Assignment { member: "m".into(), topics }]);
        // Behind group, generation, member, their number, and the member.
        let mut rest = AnswerReader(&body[3 + 4 + 3 + 4 + 3..]);
        let mut answer = vec![0; 6];
        bytes(rest.bytes().unwrap(), &mut answer);
        assert_eq!(synced(&mut AnswerReader(&answer), "t").unwrap(), (0, vec![0, 2]));
        assert_eq!(synced(&mut AnswerReader(&answer), "u").unwrap(), (0, vec![]));
        let none = [0, 0, 0, 0, 0, 27, 0, 0, 0, 0];
        assert_eq!(synced(&mut AnswerReader(&none), "t").unwrap(), (27, vec![]));
    }

    #[test]
    fn the_leader_reads_the_topics_of_each_member() {
        let body = member().join("orders", 1, 2);
        // Behind group, two times, member, kind, number, and strategy.
        let mut rest = AnswerReader(&body[3 + 8 + 3 + 10 + 4 + 7..]);
        let mut answer = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 3];
        for text in [STRATEGY, "m", "m"] {
            string(text, &mut answer);
        }
        answer.extend([0, 0, 0, 2]);
        string("m", &mut answer);
        bytes(rest.bytes().unwrap(), &mut answer);
        string("n", &mut answer);
        bytes(&[0], &mut answer);
        let subscriber = |id: &str, topics: &[&str]| Subscriber {
            id: id.to_owned(),
            topics: topics.iter().map(ToString::to_string).collect(),
        };
        let read = joined(&mut AnswerReader(&answer)).unwrap();
        assert_eq!(read.members, [subscriber("m", &["orders"]), subscriber("n", &[])]);
    }
}
