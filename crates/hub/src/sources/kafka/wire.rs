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

    /// `assignments` are the partitions of each member, from the leader alone.
    pub(super) fn sync(&self, topic: &str, assignments: &[(String, Vec<i32>)]) -> Vec<u8> {
        let mut body = self.start();
        body.extend_from_slice(&(assignments.len() as u32).to_be_bytes());
        for (member, partitions) in assignments {
            let mut assignment = VERSION.to_be_bytes().to_vec();
            assignment.extend_from_slice(&1_i32.to_be_bytes());
            string(topic, &mut assignment);
            numbers(partitions, &mut assignment);
            assignment.extend_from_slice(&(-1_i32).to_be_bytes());
            string(member, &mut body);
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

/// The answer to a JOIN.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Joined {
    pub(super) error: i16,
    pub(super) generation: i32,
    pub(super) leader: String,
    pub(super) id: String,
    /// All members; empty for members that do not lead.
    pub(super) members: Vec<String>,
}

pub(super) fn joined(answer: &mut AnswerReader<'_>) -> Result<Joined, SinkError> {
    answer.i32()?;
    let (error, generation) = (answer.i16()?, answer.i32()?);
    answer.string()?;
    let (leader, id) = (answer.string()?, answer.string()?);
    let members = answer.each(|member| {
        let id = member.string()?;
        member.bytes()?;
        Ok(id)
    })?;
    Ok(Joined { error, generation, leader, id, members })
}

/// The error of an answer that has no more than that.
pub(super) fn error_of(answer: &mut AnswerReader<'_>) -> Result<i16, SinkError> {
    answer.i32()?;
    answer.i16()
}

/// The error of a SYNC, and the partitions that this member gets.
pub(super) fn synced(answer: &mut AnswerReader<'_>) -> Result<(i16, Vec<i32>), SinkError> {
    answer.i32()?;
    let error = answer.i16()?;
    let assignment = answer.bytes()?;
    if error != 0 || assignment.is_empty() {
        return Ok((error, Vec::new()));
    }
    let mut assignment = AnswerReader(assignment);
    assignment.i16()?;
    let topics = assignment.each(|topic| {
        topic.string()?;
        topic.each(AnswerReader::i32)
    })?;
    Ok((0, topics.into_iter().flatten().collect()))
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

    #[test]
    fn an_assignment_is_read_as_it_was_written() {
        let member = Member { group: "g".into(), id: "m".into(), generation: 3 };
        let body = member.sync("t", &[("m".into(), vec![0, 2])]);
        // Behind group, generation, member, their number, and the member.
        let mut rest = AnswerReader(&body[3 + 4 + 3 + 4 + 3..]);
        let mut answer = vec![0; 6];
        bytes(rest.bytes().unwrap(), &mut answer);
        assert_eq!(synced(&mut AnswerReader(&answer)).unwrap(), (0, vec![0, 2]));
        let none = [0, 0, 0, 0, 0, 27, 0, 0, 0, 0];
        assert_eq!(synced(&mut AnswerReader(&none)).unwrap(), (27, vec![]));
    }
}
