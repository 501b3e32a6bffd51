//! Questions for records of partitions, and their answers.

use super::wire::{AnswerReader, in_words, string};
use crate::sinks::SinkError;

/// The answer of one broker holds up to this number of bytes of records, or one larger batch.
const FETCH_BYTES: i32 = 1 << 20;
/// The same of one partition.
const PARTITION_BYTES: i32 = 256 << 10;
/// Records of transactions that have not been committed are not seen.
const READ_COMMITTED: u8 = 1;
/// The number of a session, and its epoch: each question names all its partitions.
const NO_SESSION: [u8; 8] = [0, 0, 0, 0, 255, 255, 255, 255];
/// The epoch of a leader, where it is not known.
const UNKNOWN_EPOCH: i32 = -1;
/// Means the oldest record, in a question for offsets by time.
pub(crate) const OLDEST: i64 = -2;

/// A question for the first offset at a time (Unix milliseconds, or [`OLDEST`]).
pub(crate) fn list_offsets(topic: &str, partition: i32, time: i64) -> Vec<u8> {
    let mut body = (-1_i32).to_be_bytes().to_vec();
    body.extend_from_slice(&1_i32.to_be_bytes());
    string(topic, &mut body);
    body.extend_from_slice(&1_i32.to_be_bytes());
    body.extend_from_slice(&partition.to_be_bytes());
    body.extend_from_slice(&time.to_be_bytes());
    body
}

/// The error and the offset.
pub(crate) fn listed(answer: &mut AnswerReader<'_>) -> Result<(i16, i64), SinkError> {
    let topics = answer.each(|topic| {
        topic.string()?;
        topic.each(|one| {
            one.i32()?;
            let error = one.i16()?;
            one.i64()?;
            Ok((error, one.i64()?))
        })
    })?;
    topics.into_iter().flatten().next().ok_or_else(|| SinkError::away("the broker does not know the partition"))
}

/// A question for records, from an offset of each partition on. The broker waits for the first record for `wait_ms`.
pub(crate) fn fetch(topic: &str, partitions: &[(i32, i64)], wait_ms: i32) -> Vec<u8> {
    let mut body = (-1_i32).to_be_bytes().to_vec();
    for number in [wait_ms, 1, FETCH_BYTES] {
        body.extend_from_slice(&number.to_be_bytes());
    }
    body.push(READ_COMMITTED);
    body.extend_from_slice(&NO_SESSION);
    body.extend_from_slice(&1_i32.to_be_bytes());
    string(topic, &mut body);
    body.extend_from_slice(&(partitions.len() as u32).to_be_bytes());
    for (partition, offset) in partitions {
        body.extend_from_slice(&partition.to_be_bytes());
        body.extend_from_slice(&UNKNOWN_EPOCH.to_be_bytes());
        body.extend_from_slice(&offset.to_be_bytes());
        // Only followers know where their log begins.
        body.extend_from_slice(&(-1_i64).to_be_bytes());
        body.extend_from_slice(&PARTITION_BYTES.to_be_bytes());
    }
    // Of a session: partitions that are no longer asked for.
    body.extend_from_slice(&0_i32.to_be_bytes());
    body
}

/// Records of a partition.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fetched<'a> {
    pub(crate) partition: i32,
    pub(crate) error: i16,
    /// Behind the last record that there is.
    pub(crate) end: i64,
    /// Producers whose transactions were aborted, each with the first offset.
    pub(crate) aborted: Vec<(i64, i64)>,
    pub(crate) batches: &'a [u8],
}

pub(crate) fn fetched<'a>(answer: &mut AnswerReader<'a>) -> Result<Vec<Fetched<'a>>, SinkError> {
    answer.i32()?;
    let (error, _session) = (answer.i16()?, answer.i32()?);
    if error != 0 {
        return Err(SinkError::Away(in_words(error)));
    }
    let topics = answer.each(|topic| {
        topic.string()?;
        topic.each(|one| {
            let (partition, error, end) = (one.i32()?, one.i16()?, one.i64()?);
            // The last stable offset, and the first one.
            one.i64()?;
            one.i64()?;
            let aborted = one.each(|one| Ok((one.i64()?, one.i64()?)))?;
            Ok(Fetched { partition, error, end, aborted, batches: one.bytes()? })
        })
    })?;
    Ok(topics.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_cut_off_is_an_error() {
        let mut answer = vec![0; 10];
        answer.extend([0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1]);
        answer.extend([0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 9]);
        answer.extend([0; 8]);
        answer.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 42]);
        let found = fetched(&mut AnswerReader(&answer)).unwrap();
        assert_eq!(found, [Fetched { partition: 2, error: 0, end: 9, aborted: vec![(7, 4)], batches: &[42] }]);
        for end in 0..answer.len() {
            assert!(fetched(&mut AnswerReader(&answer[..end])).is_err(), "{end}");
        }
    }
}
