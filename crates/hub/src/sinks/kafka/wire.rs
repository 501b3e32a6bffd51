//! Requests and answers of Kafka's protocol, in versions that brokers from 1.0 on know. Making a topic needs 2.4, and reading
//! records 2.1: before, Zstandard is not sent.

use std::collections::BTreeMap;

use crate::sinks::SinkError;
use crate::sinks::socket::ServerAddress;

/// A request: its key and the version that is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Api(i16, i16);

pub(crate) const PRODUCE: Api = Api(0, 3);
pub(crate) const FETCH: Api = Api(1, 10);
pub(crate) const LIST_OFFSETS: Api = Api(2, 1);
pub(crate) const METADATA: Api = Api(3, 4);
pub(crate) const OFFSET_COMMIT: Api = Api(8, 2);
pub(crate) const OFFSET_FETCH: Api = Api(9, 1);
pub(crate) const FIND_COORDINATOR: Api = Api(10, 1);
pub(crate) const JOIN_GROUP: Api = Api(11, 2);
pub(crate) const HEARTBEAT: Api = Api(12, 1);
pub(crate) const LEAVE_GROUP: Api = Api(13, 1);
pub(crate) const SYNC_GROUP: Api = Api(14, 1);
pub(crate) const CREATE_TOPICS: Api = Api(19, 4);
pub(crate) const SASL_HANDSHAKE: Api = Api(17, 1);
pub(crate) const INIT_PRODUCER_ID: Api = Api(22, 0);
pub(crate) const ADD_PARTITIONS: Api = Api(24, 0);
pub(crate) const END_TRANSACTION: Api = Api(26, 0);
pub(crate) const API_VERSIONS: Api = Api(18, 0);
pub(crate) const WRITE_MARKERS: Api = Api(27, 1);
pub(crate) const DESCRIBE_PRODUCERS: Api = Api(61, 0);
pub(crate) const DESCRIBE_TRANSACTIONS: Api = Api(65, 0);
pub(crate) const SASL_AUTHENTICATE: Api = Api(36, 0);

/// The name by which brokers know the client.
const CLIENT: &str = "tidegate-hub";

/// Errors of brokers that are looked at.
pub(crate) mod code {
    pub(crate) const OFFSET_OUT_OF_RANGE: i16 = 1;
    pub(crate) const UNKNOWN_TOPIC: i16 = 3;
    pub(crate) const LEADER_NOT_AVAILABLE: i16 = 5;
    pub(crate) const MESSAGE_TOO_LARGE: i16 = 10;
    pub(crate) const COORDINATOR_LOADS: i16 = 14;
    pub(crate) const RECORD_LIST_TOO_LARGE: i16 = 18;
    pub(crate) const NO_RIGHT_TO_TOPIC: i16 = 29;
    pub(crate) const NO_RIGHT_TO_CLUSTER: i16 = 31;
    pub(crate) const ILLEGAL_GENERATION: i16 = 22;
    pub(crate) const UNKNOWN_MEMBER: i16 = 25;
    pub(crate) const REBALANCE: i16 = 27;
    pub(crate) const INVALID_TIMESTAMP: i16 = 32;
    pub(crate) const TOPIC_EXISTS: i16 = 36;
    pub(crate) const OUT_OF_ORDER_SEQUENCE: i16 = 45;
    pub(crate) const DUPLICATE_SEQUENCE: i16 = 46;
    pub(crate) const INVALID_PRODUCER_EPOCH: i16 = 47;
    pub(crate) const CONCURRENT_TRANSACTIONS: i16 = 51;
    pub(crate) const UNKNOWN_PRODUCER: i16 = 59;
    pub(crate) const INVALID_RECORD: i16 = 87;
    pub(crate) const UNKNOWN_TRANSACTIONS: i16 = 105;
}

/// An error of a broker in words.
pub(crate) fn in_words(code: i16) -> String {
    let words = match code {
        2 => "a checksum is wrong",
        code::UNKNOWN_TOPIC => "the topic is not there, and the brokers make none",
        code::LEADER_NOT_AVAILABLE => "the partition has no leader",
        6 => "the partition has another leader",
        7 => "the request has timed out",
        code::MESSAGE_TOO_LARGE | code::RECORD_LIST_TOO_LARGE => "a record is too large",
        code::COORDINATOR_LOADS | 15 | 16 => "the coordinator is not available yet",
        17 => "the name of the topic is invalid",
        19 | 20 => "too few replicas are in sync",
        code::NO_RIGHT_TO_TOPIC => "the user has no right to the topic",
        30 => "the user has no right to the group",
        code::NO_RIGHT_TO_CLUSTER => "the user may not write to the cluster",
        code::INVALID_TIMESTAMP => "the time of a record is out of the range of the topic",
        33 => "the brokers do not have this `sasl` mechanism",
        code::INVALID_RECORD => "the topic refuses a record",
        code::INVALID_PRODUCER_EPOCH | 90 => "another process has taken the transactions over",
        code::CONCURRENT_TRANSACTIONS => "the last transaction has not come to its end",
        53 => "the user has no right to the transactions",
        58 => "the user or the password is wrong",
        _ => return format!("the broker answers with the error {code}"),
    };
    format!("{words} (error {code} of Kafka)")
}

/// A request on the wire.
pub(crate) fn request(api: Api, correlation: i32, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len() + 32);
    out.extend_from_slice(&((10 + CLIENT.len() + body.len()) as u32).to_be_bytes());
    out.extend_from_slice(&api.0.to_be_bytes());
    out.extend_from_slice(&api.1.to_be_bytes());
    out.extend_from_slice(&correlation.to_be_bytes());
    string(CLIENT, &mut out);
    out.extend_from_slice(body);
    out
}

pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// A text that may be absent.
pub(crate) fn optional_string(text: Option<&str>, out: &mut Vec<u8>) {
    match text {
        Some(text) => string(text, out),
        None => out.extend_from_slice(&(-1_i16).to_be_bytes()),
    }
}

/// The body of a request that writes batches to partitions of a topic, within a transaction or not, and is answered when
/// all replicas in sync have them.
pub(crate) fn produce(
    transaction: Option<&str>,
    topic: &str,
    timeout_ms: i32,
    partitions: &[(i32, Vec<u8>)],
) -> Vec<u8> {
    let mut body = Vec::new();
    optional_string(transaction, &mut body);
    body.extend_from_slice(&(-1_i16).to_be_bytes());
    body.extend_from_slice(&timeout_ms.to_be_bytes());
    body.extend_from_slice(&1_i32.to_be_bytes());
    string(topic, &mut body);
    body.extend_from_slice(&(partitions.len() as u32).to_be_bytes());
    for (partition, batch) in partitions {
        body.extend_from_slice(&partition.to_be_bytes());
        bytes(batch, &mut body);
    }
    body
}

/// The body of a request for the partitions of a topic. With `make` the brokers make it if their settings say so.
pub(crate) fn metadata(topic: &str, make: bool) -> Vec<u8> {
    let mut body = 1_i32.to_be_bytes().to_vec();
    string(topic, &mut body);
    body.push(u8::from(make));
    body
}

/// An answer that is read from its front.
#[derive(Debug)]
pub(crate) struct AnswerReader<'a>(pub(crate) &'a [u8]);

impl<'a> AnswerReader<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], SinkError> {
        let short = || SinkError::away("the answer is not that of a Kafka broker");
        let (front, rest) = self.0.split_at_checked(len).ok_or_else(short)?;
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], SinkError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, SinkError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, SinkError> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, SinkError> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, SinkError> {
        self.array().map(i64::from_be_bytes)
    }

    /// A text; an absent one is empty.
    pub(crate) fn string(&mut self) -> Result<String, SinkError> {
        let len = usize::try_from(self.i16()?).unwrap_or(0);
        Ok(String::from_utf8_lossy(self.take(len)?).into_owned())
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], SinkError> {
        let len = usize::try_from(self.i32()?).unwrap_or(0);
        self.take(len)
    }

    /// Reads elements one after the other. Each has a byte at least, so their number is bounded by the answer.
    pub(crate) fn each<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, SinkError>,
    ) -> Result<Vec<T>, SinkError> {
        let mut all = Vec::new();
        for _ in 0..self.i32()? {
            all.push(read(self)?);
        }
        Ok(all)
    }
}

/// A partition and its leader, by the id of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Led {
    pub(crate) partition: i32,
    pub(crate) leader: i32,
}

/// The brokers' description of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// Brokers with their host and port.
    pub(crate) brokers: Vec<(i32, String, i32)>,
    /// The broker that makes topics.
    pub(crate) controller: i32,
    /// The error of the topic; 0 means success.
    pub(crate) topic_error: i16,
    /// The error of the topic, or of one of its partitions; 0 means success.
    pub(crate) error: i16,
    /// In the order of their numbers.
    pub(crate) partitions: Vec<Led>,
}

impl Metadata {
    pub(crate) fn read(answer: &mut AnswerReader<'_>) -> Result<Self, SinkError> {
        answer.i32()?;
        let brokers = answer.each(|one| {
            let broker = (one.i32()?, one.string()?, one.i32()?);
            one.string()?;
            Ok(broker)
        })?;
        answer.string()?;
        let mut found = Self { brokers, controller: answer.i32()?, ..Self::default() };
        answer.each(|topic| {
            let error = topic.i16()?;
            topic.string()?;
            topic.take(1)?;
            let mut partitions = topic.each(|one| {
                let (error, led) = (one.i16()?, Led { partition: one.i32()?, leader: one.i32()? });
                one.each(AnswerReader::i32)?;
                one.each(AnswerReader::i32)?;
                Ok((error, led))
            })?;
            partitions.sort_by_key(|(_, led)| led.partition);
            // A replica that is not available (9) is no obstacle.
            let of_partition = partitions.iter().map(|(error, _)| *error).find(|error| !matches!(error, 0 | 9));
            found.topic_error = error;
            found.error = if error == 0 { of_partition.unwrap_or(0) } else { error };
            found.partitions = partitions.into_iter().map(|(_, led)| led).collect();
            Ok(())
        })?;
        Ok(found)
    }

    /// The addresses of the brokers.
    pub(crate) fn addresses(&self) -> Result<BTreeMap<i32, ServerAddress>, SinkError> {
        let address = |(id, host, port): &(i32, String, i32)| {
            let port = u16::try_from(*port).map_err(|_| SinkError::away("a broker has an invalid port"))?;
            Ok((*id, ServerAddress { host: host.clone(), port }))
        };
        self.brokers.iter().map(address).collect()
    }
}

/// Partitions and their errors out of the answer to a produce request.
pub(crate) fn produced(answer: &mut AnswerReader<'_>) -> Result<Vec<(i32, i16)>, SinkError> {
    let topics = answer.each(|topic| {
        topic.string()?;
        topic.each(|one| {
            let outcome = (one.i32()?, one.i16()?);
            one.take(16)?;
            Ok(outcome)
        })
    })?;
    Ok(topics.into_iter().flatten().collect())
}

/// The kind of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coordinated {
    Group,
    Transactions,
}

/// The body of a request for the broker that coordinates a group, or the transactions of an id.
pub(crate) fn coordinator(kind: Coordinated, id: &str) -> Vec<u8> {
    let mut body = Vec::new();
    string(id, &mut body);
    body.push(match kind {
        Coordinated::Group => 0,
        Coordinated::Transactions => 1,
    });
    body
}

/// The coordinator, or an error.
pub(crate) fn coordinator_of(answer: &mut AnswerReader<'_>) -> Result<Result<ServerAddress, i16>, SinkError> {
    answer.i32()?;
    let error = answer.i16()?;
    answer.string()?;
    answer.i32()?;
    let (host, port) = (answer.string()?, answer.i32()?);
    let port = u16::try_from(port).map_err(|_| SinkError::away("a broker has an invalid port"))?;
    Ok(if error == 0 { Ok(ServerAddress { host, port }) } else { Err(error) })
}

/// Whether a broker knows requests, out of its answer about the versions that it speaks.
pub(crate) fn knows(answer: &mut AnswerReader<'_>, wanted: &[Api]) -> Result<bool, SinkError> {
    let error = answer.i16()?;
    if error != 0 {
        return Err(SinkError::Away(in_words(error)));
    }
    let spoken = answer.each(|one| Ok((one.i16()?, one.i16()?, one.i16()?)))?;
    let is_spoken = |Api(key, version): &Api| {
        spoken.iter().any(|(of, oldest, newest)| of == key && (oldest..=newest).contains(&version))
    };
    Ok(wanted.iter().all(is_spoken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_about_a_topic_names_the_leaders() {
        let mut bytes = vec![0; 4];
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 5, 0, 1, b'h', 0, 0, 0x23, 0x84, 0xff, 0xff]);
        bytes.extend([0xff, 0xff, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 1, b't', 0]);
        bytes.extend([0, 0, 0, 2]);
        for partition in [1, 0] {
            bytes.extend([0, 0, 0, 0, 0, partition, 0, 0, 0, 5, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0]);
        }
        let read = Metadata::read(&mut AnswerReader(&bytes)).unwrap();
        let led = |partition| Led { partition, leader: 5 };
        let (brokers, partitions) = (vec![(5, "h".into(), 9092)], vec![led(0), led(1)]);
        assert_eq!(read, Metadata { brokers, controller: 5, topic_error: 0, error: 0, partitions });
        for end in 0..bytes.len() {
            assert!(Metadata::read(&mut AnswerReader(&bytes[..end])).is_err());
        }
    }

    #[test]
    fn an_answer_that_says_too_much_is_no_answer() {
        assert!(produced(&mut AnswerReader(&[0x7f, 0xff, 0xff, 0xff])).is_err());
        assert!(AnswerReader(&[0x7f, 0xff, 1]).string().is_err());
        assert_eq!(AnswerReader(&[0xff, 0xff]).string().unwrap(), "");
    }
}
