//! Damaged pairs: refused, and never another reason to stop the process.

use std::sync::Arc;

use tidegate_engine::{Engine, RestoreError, ShardId, ShardPosition, describe};
use tidegate_mqtt::{PacketId, PacketType, QoS};

use super::*;

/// The pairs of a broker.
fn pairs() -> Pairs {
    let world = stored(1);
    everything(&world);
    world.pairs()
}

fn take_in(pairs: &Pairs, shards: u16) -> Result<Vec<Engine>, RestoreError> {
    let now = World::new(1).now();
    let settings = Settings { durability: Durability::Commit, ..Settings::default() };
    let settings = Arc::new(settings);
    let engine = |shard| Engine::new(Arc::clone(&settings), ShardPosition { shard: ShardId(shard), shards }, 1, now);
    let mut engines: Vec<Engine> = (0..shards).map(engine).collect();
    restore(&mut engines, now, pairs)?;
    Ok(engines)
}

#[test]
fn every_kind_of_pair_cut_short_or_made_longer_is_refused() {
    let whole = pairs();
    assert!(take_in(&whole, 2).is_ok());
    for (key, value) in &whole {
        for damaged in [value[..value.len().saturating_sub(1)].to_vec(), [value, &[0][..]].concat()] {
            let received = describe(key, value).unwrap().contains("QoS 2 packet id");
            if received || damaged == *value {
                continue;
            }
            let mut pairs = whole.clone();
            pairs.insert(key.clone(), damaged);
            assert!(take_in(&pairs, 2).is_err(), "{:?}", describe(key, value));
        }
    }
}

#[test]
fn pairs_of_a_later_version_are_refused() {
    let whole = pairs();
    for key in [vec![0x7f, 1], vec![0x10, 0, 0, 0, 0, 0, 0, 0, 1, 9], vec![]] {
        let mut pairs = whole.clone();
        pairs.insert(key.clone(), vec![1]);
        assert!(take_in(&pairs, 2).is_err(), "{key:?}");
    }
    let mut pairs = whole.clone();
    pairs.insert(vec![0x90, 1], vec![1, 2, 3]);
    assert!(take_in(&pairs, 2).is_ok(), "foreign keys are left alone");
}

#[test]
fn what_others_need_is_missed() {
    let whole = pairs();
    let mut missed = 0;
    for (key, value) in &whole {
        let text = describe(key, value).unwrap();
        let mut pairs = whole.clone();
        pairs.remove(key);
        let shared = text.starts_with("message");
        let session = text.starts_with("session") && text.contains(" of ");
        let alone = !whole.keys().any(|other| other.len() > key.len() && other.starts_with(&key[..key.len() - 1]));
        if shared || (session && !alone) {
            missed += 1;
            assert!(take_in(&pairs, 2).is_err(), "{text}");
        }
    }
    assert!(missed > 3, "{missed}");
}

#[test]
fn a_retained_message_under_another_topic_is_refused() {
    let whole = pairs();
    let retained: Vec<_> =
        whole.iter().filter(|(key, value)| describe(key, value).unwrap().starts_with("retained")).collect();
    let mut pairs = whole.clone();
    pairs.insert(retained[0].0.clone(), retained[1].1.clone());
    assert!(take_in(&pairs, 2).is_err());
}

#[test]
fn no_damage_stops_the_process() {
    let whole = pairs();
    let keys: Vec<&Vec<u8>> = whole.keys().collect();
    let mut random = Random::new(1);
    let mut refused = 0;
    for _ in 0..1_500 {
        let mut pairs = whole.clone();
        for _ in 0..=random.below(3) {
            let key = keys[random.below(keys.len())];
            let Some(mut value) = pairs.remove(key) else { continue };
            let mut key = key.clone();
            let bit = 1 << random.below(8);
            match random.below(6) {
                0 => {
                    let at = random.below(key.len());
                    key[at] ^= bit;
                }
                1 => key.truncate(random.below(key.len())),
                2 => value.truncate(random.below(value.len())),
                3 => value.extend([0, 1, 255]),
                4 => continue,
                _ if value.is_empty() => {}
                _ => {
                    // Most of the meaning is at the front.
                    let at = random.below(value.len().min(40));
                    value[at] ^= bit;
                }
            }
            let _ = describe(&key, &value);
            pairs.insert(key, value);
        }
        match take_in(&pairs, 1 + random.below(3) as u16) {
            Ok(engines) => {
                for engine in engines {
                    let wrong = engine.questions().audit();
                    assert!(wrong.is_empty(), "{wrong:?}");
                }
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(refused > 300, "{refused}");
}

/// No engine names two messages to a client by one packet id. They are owed nevertheless.
#[test]
fn messages_to_a_client_under_one_packet_id_all_come() {
    let world = stored(1);
    world.absent_subscriber(v5("s").lasting(), "t", QoS::ExactlyOnce);
    let publisher = world.connect(v5("p"));
    for payload in ["1", "2", "3"] {
        publisher.publish(message("t", payload).qos2());
    }
    let client = world.connect(v5("s").lasting().manual());
    assert_eq!(client.payloads(), ["1", "2", "3"]);
    client.pubrec(id(2));
    client.expect(PacketType::PubRel);
    publisher.publish(message("t", "4").qos2());
    assert_eq!(client.payloads(), ["4"]);
    client.pubrec(id(4));
    client.expect(PacketType::PubRel);
    let mut pairs = world.pairs();
    let is_sent = |key: &[u8], value: &[u8]| describe(key, value).unwrap().contains("is under packet id");
    let records: Vec<&mut Vec<u8>> =
        pairs.iter_mut().filter(|(key, value)| is_sent(key, value)).map(|(_, value)| value).collect();
    assert_eq!(records.len(), 4);
    let last = [records[3][0], records[3][1]];
    for record in records {
        record[..2].copy_from_slice(&last);
    }
    world.put_pairs(0, pairs);
    for crashes in 0..2 {
        world.crash(Crash::now(1));
        let again = world.connect(v5("s").lasting().manual());
        let came: Vec<(String, Option<PacketId>)> =
            again.messages_among_others().iter().map(|it| (it.text(), it.id)).collect();
        // The client has the others.
        let expected = [("1", 1), ("3", 2)];
        assert_eq!(came, expected.map(|(payload, number)| (payload.to_owned(), Some(id(number)))), "{crashes}");
    }
    world.crash(Crash::now(1));
    let again = world.connect(v5("s").lasting().manual());
    assert_eq!(again.drain(), ["1", "3"]);
    world.crash(Crash::now(1));
    assert_eq!(world.connect(v5("s").lasting()).drain(), Vec::<String>::new());
}
