//! Readers: their beginnings, their waits, and trimmed records.

use std::collections::BTreeMap;

use tidegate_bus::{Append, BusError, LogSpec, Position};

use crate::client::{Client, log, place, text};
use crate::{Deployment, settings};

pub(crate) fn a_reader_follows_and_begins_at_its_position<D: Deployment>(deployment: &mut D) {
    let client = Client(deployment.bus());
    client.create(LogSpec::shared(log("inbox"), 1)).unwrap();
    let inbox = place("inbox", 0);
    let mut early = client.reader(&inbox, Position::START);
    let first = client.append(&inbox, Append::new("1")).unwrap();
    let second = client.append(&inbox, Append::new("2")).unwrap();
    let mut at = client.reader(&inbox, second);
    let mut after = client.reader(&inbox, second.next());
    client.append(&inbox, Append::new("3")).unwrap();
    let texts = |records: Vec<_>| records.iter().map(text).collect::<Vec<_>>();
    let one = early.take(1).unwrap();
    assert_eq!((one[0].position, text(&one[0])), (first, "1".to_owned()));
    assert_eq!(texts(early.take(2).unwrap()), ["2", "3"]);
    assert_eq!(texts(at.take(2).unwrap()), ["2", "3"]);
    assert_eq!(texts(after.take(1).unwrap()), ["3"]);
    assert!(after.reader.take(1).unwrap().records.is_empty());
}

pub(crate) fn a_reader_is_woken_at_the_end_even_of_an_empty_log<D: Deployment>(deployment: &mut D) {
    let client = Client(deployment.bus());
    client.create(LogSpec::shared(log("inbox"), 1)).unwrap();
    let inbox = place("inbox", 0);
    let end = client.bounds(&inbox).next;
    client.reader(&inbox, Position::START).wait_for_end(end);
    let last = client.append(&inbox, Append::new("1")).unwrap();
    client.reader(&inbox, Position::START).wait_for_end(last.next());
}

pub(crate) fn a_reader_takes_no_more_than_it_has_room_for<D: Deployment>(deployment: &mut D) {
    let client = Client(deployment.bus());
    client.create(LogSpec::shared(log("inbox"), 1)).unwrap();
    let inbox = place("inbox", 0);
    // Three times as much as is read ahead, by bytes.
    let (size, count) = (100_000, 3 * settings().max_ahead_bytes / 100_000);
    let begun: Vec<_> =
        (0..count).map(|number| client.append(&inbox, Append::new(vec![number as u8; size])).unwrap()).collect();
    let mut tail = client.reader(&inbox, Position::START);
    let (mut read, mut turns) = (Vec::new(), 0);
    while read.len() < count {
        read.extend(tail.take(1).unwrap());
        let ahead = tail.reader.take(usize::MAX).unwrap().records;
        // If there is room for any of a record, the largest comes.
        let most = settings().max_ahead_bytes + settings().max_record_bytes;
        assert!(ahead.len() * size <= most, "{} records", ahead.len());
        read.extend(ahead);
        turns += 1;
    }
    assert!(turns > 2);
    assert_eq!(read.iter().map(|record| record.position).collect::<Vec<_>>(), begun);
}

pub(crate) fn trimmed_records_are_gone_and_reported<D: Deployment>(deployment: &mut D) {
    let client = Client(deployment.bus());
    client.create(LogSpec::shared(log("inbox"), 2)).unwrap();
    let inbox = place("inbox", 0);
    let positions: Vec<_> =
        (0..6).map(|number| client.append(&inbox, Append::new(number.to_string())).unwrap()).collect();
    client.append(&place("inbox", 1), Append::new("other")).unwrap();
    client.trim(&inbox, positions[3]);
    client.trim(&inbox, positions[1]);
    assert_eq!(client.bounds(&inbox).first, positions[3]);
    assert_eq!(client.payloads(&inbox), ["3", "4", "5"]);
    assert_eq!(client.payloads(&place("inbox", 1)), ["other"]);
    let late = client.reader(&inbox, positions[1]).take(1);
    assert!(matches!(late, Err(BusError::Trimmed { first, .. }) if first == positions[3]), "{late:?}");
    // All of them: the next record has a new position all the same.
    client.trim(&inbox, client.bounds(&inbox).next);
    assert_eq!(client.payloads(&inbox), [""; 0]);
    let next = client.append(&inbox, Append::new("6")).unwrap();
    assert!(next > positions[5]);
    assert_eq!(client.payloads(&inbox), ["6"]);
}

pub(crate) fn the_latest_record_of_each_key_stays<D: Deployment>(deployment: &mut D) {
    let client = Client(deployment.bus());
    client.create(LogSpec::fenced(log("state"), 1).latest_of_key()).unwrap();
    let state = place("state", 0);
    let owner = client.own(&state);
    for (key, value) in [("a/+ #>*.", "1"), ("b", "1"), ("b", ""), ("a/+ #>*.", "2"), ("c", "1")] {
        client.append(&state, Append::new(value).with_key(key).by(owner)).unwrap();
    }
    let latest: BTreeMap<_, _> = client.all(&state).iter().map(|record| (record.key.clone(), text(record))).collect();
    let expected = [("a/+ #>*.", "2"), ("b", ""), ("c", "1")];
    assert_eq!(latest, expected.map(|(key, value)| (key.into(), value.to_owned())).into());
}
