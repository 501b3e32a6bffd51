//! Ends of transactions that Kafka has lost. When Kafka 4.3 starts after a kill, its coordinator can take the partitions of a
//! transaction for deleted (KAFKA-20734): it notes that the transaction has ended, and writes no end into the partitions.
//! Consumers of committed records, this sink's marks among them, would wait there for ever.
//!
//! A transaction has lost its end in a partition when it is open there before and after its coordinator says that the
//! producer's last transaction has ended. Its end is written as the coordinator has decided: as often as needed, since an
//! end that is written twice changes nothing. The coordinator tells its decision until the next process takes the
//! transactions over, so this comes before.

use std::collections::BTreeMap;
use std::time::Instant;

use super::compact::{self, NO_TAGS};
use super::connection::{Access, BrokerConnection};
use super::marks::{MARKS_TOPIC, Marks};
use super::transactions::{coordinator_of, pause};
use super::wire::{self, AnswerReader, Coordinated, code};
use super::{Cluster, Seeker};
use crate::sinks::SinkError;
use crate::sinks::socket::ServerAddress;

/// The offset of a producer without an open transaction in a partition.
const NO_OFFSET: i64 = -1;

/// A transaction that is open in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OpenTransaction {
    topic: String,
    partition: i32,
    producer: i64,
    epoch: i16,
    /// The number of the last coordinator that wrote an end of this producer, at least 0.
    coordinator: i32,
    /// The offset of its first record.
    offset: i64,
}

/// The state of a producer's last transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastState {
    /// Its end is decided, and not yet written everywhere.
    Ending,
    Committed,
    Aborted,
    /// It is open, or the producer has begun no transaction.
    Other,
}

/// Answer of a coordinator about an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Described {
    producer: i64,
    state: LastState,
}

/// Partitions of a topic, and their leaders.
struct TopicPlace<'a> {
    topic: &'a str,
    cluster: Cluster,
    partitions: Vec<i32>,
}

/// Writes the ends of this sink's transactions that Kafka has lost, in the topic of the records and in the marks. Does nothing
/// at brokers that know no requests for it: they are older than the fault.
pub(super) fn mend(marks: &Marks, seeker: &Seeker<'_>, topic: &str, deadline: Instant) -> Result<(), SinkError> {
    let needed = [wire::DESCRIBE_PRODUCERS, wire::DESCRIBE_TRANSACTIONS, wire::WRITE_MARKERS];
    let is_known = seeker.ask(deadline, |connection| {
        wire::knows(&mut AnswerReader(&connection.ask(wire::API_VERSIONS, &[])?), &needed)
    })?;
    if !is_known {
        return Ok(());
    }
    // This lane's coordinator may be about to lose an end just now.
    let id = marks.transactions_id();
    settle(&mut coordinator_of(&id, seeker, deadline)?, id, deadline)?;
    let mut places = Vec::new();
    for (topic, is_wanted) in [(topic, None), (MARKS_TOPIC, Some(marks))] {
        places.extend(place(topic, is_wanted, seeker, deadline)?);
    }
    let access = (seeker.access, deadline);
    let before = open_transactions(&mut places, access)?;
    if before.is_empty() {
        return Ok(());
    }
    let mut ended = Vec::new();
    for (at, ids) in coordinators(marks, seeker, deadline)? {
        let answers = describe(&mut BrokerConnection::open(&at, seeker.access, deadline)?, &ids)?;
        // A coordinator that still loads is asked again when the lane of the id begins.
        ended.extend(answers.into_iter().filter(|(error, _)| *error == 0).map(|(_, described)| described));
    }
    let after = open_transactions(&mut places, access)?;
    for (open, commits) in lost(&before, &ended, &after) {
        write_end(&open, commits, &mut places, access)?;
        let OpenTransaction { topic, partition, offset, .. } = open;
        tracing::warn!(
            topic,
            partition,
            offset,
            commits,
            "Kafka had lost the end of a transaction of this sink (KAFKA-20734); the sink has written it"
        );
    }
    Ok(())
}

/// The transactions that were open before and after their coordinators said how they have ended, and whether each is
/// committed.
fn lost(before: &[OpenTransaction], ended: &[Described], after: &[OpenTransaction]) -> Vec<(OpenTransaction, bool)> {
    let decided = |open: &OpenTransaction| {
        let of = ended.iter().find(|described| described.producer == open.producer)?;
        match of.state {
            LastState::Committed => Some(true),
            LastState::Aborted => Some(false),
            LastState::Ending | LastState::Other => None,
        }
    };
    let still = after.iter().filter(|open| before.contains(open));
    still.filter_map(|open| Some((open.clone(), decided(open)?))).collect()
}

/// The partitions of a topic that matter: all, or the one of the marks. None where the topic is missing.
fn place<'a>(
    topic: &'a str,
    marks: Option<&Marks>,
    seeker: &Seeker<'_>,
    deadline: Instant,
) -> Result<Option<TopicPlace<'a>>, SinkError> {
    let own = Seeker { makes_topics: false, takes_parts: true, awaits_topics: false, ..*seeker };
    let metadata = own.ask(deadline, |connection| own.describe(connection, topic))?;
    if metadata.topic_error == code::UNKNOWN_TOPIC {
        return Ok(None);
    }
    let cluster = own.cluster(topic, deadline)?;
    let all = cluster.numbers();
    let partitions = marks.map_or_else(|| all.clone(), |marks| marks.partition(&all).into_iter().collect());
    Ok(Some(TopicPlace { topic, cluster, partitions }))
}

/// The coordinators of all lanes of the sink, with the ids of each.
fn coordinators(
    marks: &Marks,
    seeker: &Seeker<'_>,
    deadline: Instant,
) -> Result<Vec<(ServerAddress, Vec<String>)>, SinkError> {
    seeker.ask(deadline, |connection| {
        let mut found: Vec<(ServerAddress, Vec<String>)> = Vec::new();
        for id in marks.transactions_ids() {
            let body = wire::coordinator(Coordinated::Transactions, &id);
            let answer = connection.ask(wire::FIND_COORDINATOR, &body)?;
            let Ok(at) = wire::coordinator_of(&mut AnswerReader(&answer))? else { continue };
            match found.iter_mut().find(|(other, _)| *other == at) {
                Some((_, ids)) => ids.push(id),
                None => found.push((at, vec![id])),
            }
        }
        Ok(found)
    })
}

/// Waits until the coordinator writes no end of a transaction.
fn settle(coordinator: &mut BrokerConnection, id: String, deadline: Instant) -> Result<(), SinkError> {
    let ids = [id];
    loop {
        match describe(coordinator, &ids)?.first() {
            Some((0, Described { state: LastState::Ending, .. })) => pause(code::CONCURRENT_TRANSACTIONS, deadline)?,
            Some((0 | code::UNKNOWN_TRANSACTIONS, _)) => return Ok(()),
            Some((error, _)) => pause(*error, deadline)?,
            None => return Err(SinkError::away("the coordinator says nothing of transactions")),
        }
    }
}

/// Asks for the last transaction of each id. An answer with an error, which is not 0, says nothing else.
fn describe(coordinator: &mut BrokerConnection, ids: &[String]) -> Result<Vec<(i16, Described)>, SinkError> {
    let mut body = vec![NO_TAGS];
    compact::array(ids, &mut body, |id, out| compact::string(id, out));
    body.push(NO_TAGS);
    described(&mut AnswerReader(&coordinator.ask(wire::DESCRIBE_TRANSACTIONS, &body)?))
}

fn described(answer: &mut AnswerReader<'_>) -> Result<Vec<(i16, Described)>, SinkError> {
    answer.tags()?;
    answer.i32()?;
    answer.each_compact(|one| {
        let error = one.i16()?;
        one.compact_string()?;
        let state = match one.compact_string()?.as_str() {
            "PrepareCommit" | "PrepareAbort" | "PrepareEpochFence" => LastState::Ending,
            "CompleteCommit" => LastState::Committed,
            "CompleteAbort" => LastState::Aborted,
            _ => LastState::Other,
        };
        one.i32()?;
        one.i64()?;
        let producer = one.i64()?;
        one.i16()?;
        one.each_compact(|topic| {
            topic.compact_string()?;
            topic.compact_numbers()
        })?;
        Ok((error, Described { producer, state }))
    })
}

/// The transactions that are open in partitions. A topic that the user may not read is left out.
fn open_transactions(
    places: &mut [TopicPlace<'_>],
    (access, deadline): (&Access, Instant),
) -> Result<Vec<OpenTransaction>, SinkError> {
    let mut all = Vec::new();
    for place in places {
        let mut leaders: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for partition in &place.partitions {
            leaders.entry(place.cluster.leader_of(*partition)?).or_default().push(*partition);
        }
        for (leader, partitions) in leaders {
            let mut body = vec![NO_TAGS];
            topics(place.topic, &partitions, &mut body);
            body.push(NO_TAGS);
            let answer = place.cluster.connection(leader, access, deadline)?.ask(wire::DESCRIBE_PRODUCERS, &body)?;
            all.extend(open(&mut AnswerReader(&answer))?);
        }
    }
    Ok(all)
}

/// Appends a topic and some of its partitions.
fn topics(topic: &str, partitions: &[i32], body: &mut Vec<u8>) {
    compact::array(&[topic], body, |topic, out| {
        compact::string(topic, out);
        compact::array(partitions, out, |partition, out| out.extend_from_slice(&partition.to_be_bytes()));
        out.push(NO_TAGS);
    });
}

fn open(answer: &mut AnswerReader<'_>) -> Result<Vec<OpenTransaction>, SinkError> {
    answer.tags()?;
    answer.i32()?;
    let mut found = Vec::new();
    answer.each_compact(|topic| {
        let name = topic.compact_string()?;
        topic.each_compact(|one| {
            let (partition, error) = (one.i32()?, one.i16()?);
            one.compact_string()?;
            let producers = one.each_compact(|of| {
                let (producer, epoch) = (of.i64()?, of.i32()?);
                of.i32()?;
                of.i64()?;
                Ok((producer, epoch, of.i32()?, of.i64()?))
            })?;
            if !matches!(error, 0 | code::NO_RIGHT_TO_TOPIC) {
                return Err(SinkError::Away(format!("topic {name}: {}", wire::in_words(error))));
            }
            for (producer, epoch, coordinator, offset) in producers.into_iter().filter(|found| found.3 != NO_OFFSET) {
                let epoch = i16::try_from(epoch).map_err(|_| SinkError::away("a producer has an invalid epoch"))?;
                let (topic, coordinator) = (name.clone(), coordinator.max(0));
                found.push(OpenTransaction { topic, partition, producer, epoch, coordinator, offset });
            }
            Ok(())
        })
    })?;
    Ok(found)
}

/// Writes the end of a transaction into a partition.
fn write_end(
    open: &OpenTransaction,
    commits: bool,
    places: &mut [TopicPlace<'_>],
    (access, deadline): (&Access, Instant),
) -> Result<(), SinkError> {
    let mut body = vec![NO_TAGS];
    compact::array(&[open], &mut body, |open, out| {
        out.extend_from_slice(&open.producer.to_be_bytes());
        out.extend_from_slice(&open.epoch.to_be_bytes());
        out.push(u8::from(commits));
        topics(&open.topic, &[open.partition], out);
        out.extend_from_slice(&open.coordinator.to_be_bytes());
        out.push(NO_TAGS);
    });
    body.push(NO_TAGS);
    let place = places.iter_mut().find(|place| place.topic == open.topic);
    let cluster = &mut place.ok_or_else(|| SinkError::away("a topic has gone"))?.cluster;
    let leader = cluster.leader_of(open.partition)?;
    let answer = cluster.connection(leader, access, deadline)?.ask(wire::WRITE_MARKERS, &body)?;
    written(&mut AnswerReader(&answer)).map_err(|why| {
        let OpenTransaction { topic, partition, offset, .. } = open;
        SinkError::Away(format!(
            "Kafka has lost the end of a transaction (KAFKA-20734) in partition {partition} of the topic {topic} at offset {offset}, and the sink cannot write it: {why}"
        ))
    })
}

fn written(answer: &mut AnswerReader<'_>) -> Result<(), SinkError> {
    answer.tags()?;
    let markers = answer.each_compact(|marker| {
        marker.i64()?;
        marker.each_compact(|topic| {
            topic.compact_string()?;
            topic.each_compact(|one| {
                one.i32()?;
                one.i16()
            })
        })
    })?;
    let mut errors = markers.into_iter().flatten().flatten();
    match errors.next() {
        Some(0) => Ok(()),
        Some(code::NO_RIGHT_TO_CLUSTER) => Err(SinkError::away("the user needs the right ALTER of the cluster")),
        Some(error) => Err(SinkError::Away(wire::in_words(error))),
        None => Err(SinkError::away("the broker says nothing of the partition")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(partition: i32, producer: i64, offset: i64) -> OpenTransaction {
        OpenTransaction { topic: "t".to_owned(), partition, producer, epoch: 3, coordinator: 0, offset }
    }

    #[test]
    fn only_a_transaction_without_its_end_is_ended() {
        let described = |producer, state| Described { producer, state };
        let before: Vec<OpenTransaction> = (0..5).map(|producer| transaction(0, producer, 9)).collect();
        let states = [LastState::Committed, LastState::Aborted, LastState::Ending, LastState::Other];
        let ended: Vec<Described> = (0..).zip(states).map(|(producer, state)| described(producer, state)).collect();
        let found = lost(&before, &ended, &before);
        assert_eq!(found, [(before[0].clone(), true), (before[1].clone(), false)]);
        // One has its end meanwhile, and the other is the next transaction of its producer.
        assert_eq!(lost(&before, &ended, &[transaction(0, 0, 20)]), []);
        assert_eq!(lost(&[], &ended, &before), []);
    }

    #[test]
    fn answers_that_are_cut_off_are_errors() {
        let mut producers = vec![0, 0, 0, 0, 0, 2, 2, b't', 2, 0, 0, 0, 4, 0, 0, 0, 3];
        for offset in [NO_OFFSET, 9] {
            producers.extend([7_i64.to_be_bytes().as_slice(), &3_i32.to_be_bytes(), &[0; 12]].concat());
            producers.extend([(-1_i32).to_be_bytes().as_slice(), &offset.to_be_bytes(), &[NO_TAGS]].concat());
        }
        producers.extend([NO_TAGS; 3]);
        let found = open(&mut AnswerReader(&producers)).unwrap();
        assert_eq!(found, [transaction(4, 7, 9)]);
        let mut transactions = vec![0, 0, 0, 0, 0, 2, 0, 0, 2, b'i'];
        compact::string("CompleteCommit", &mut transactions);
        transactions.extend([&[0; 12][..], &7_i64.to_be_bytes(), &[0, 3, 1, NO_TAGS, NO_TAGS]].concat());
        let said = described(&mut AnswerReader(&transactions)).unwrap();
        assert_eq!(said, [(0, Described { producer: 7, state: LastState::Committed })]);
        let mut markers = vec![0, 2];
        markers.extend(7_i64.to_be_bytes());
        markers.extend([2, 2, b't', 2, 0, 0, 0, 4, 0, 0, NO_TAGS, NO_TAGS, NO_TAGS, NO_TAGS]);
        assert_eq!(written(&mut AnswerReader(&markers)), Ok(()));
        markers[19] = 31;
        let why = written(&mut AnswerReader(&markers)).unwrap_err().to_string();
        assert!(why.contains("ALTER"), "{why}");
        for end in 0..producers.len() - 1 {
            assert!(open(&mut AnswerReader(&producers[..end])).is_err(), "{end}");
        }
        for end in 0..transactions.len() - 1 {
            assert!(described(&mut AnswerReader(&transactions[..end])).is_err(), "{end}");
        }
        for end in 0..markers.len() - 1 {
            assert!(written(&mut AnswerReader(&markers[..end])).is_err(), "{end}");
        }
    }

    #[test]
    fn an_id_without_transactions_has_its_own_error() {
        let mut answer = vec![0, 0, 0, 0, 0, 2, 0, 105, 2, b'i', 1];
        answer.extend([0; 12 + 8 + 2]);
        answer.extend([1, NO_TAGS, NO_TAGS]);
        let found = described(&mut AnswerReader(&answer)).unwrap();
        assert_eq!(found, [(code::UNKNOWN_TRANSACTIONS, Described { producer: 0, state: LastState::Other })]);
    }
}
