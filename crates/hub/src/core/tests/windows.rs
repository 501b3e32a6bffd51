use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The length of windows, milliseconds.
const EVERY: u64 = 60_000;
/// The wall clock at time 0 of the clock that never goes back: 10 s into a window.
const CLOCK: u64 = 1_772_323_210_000;

fn windowed(dead: bool) -> Core<Token> {
    let sql = "SELECT window_start, topic, count(*) AS n, sum(payload) AS sum, max(100 / payload) AS most FROM 'k/#' \
               WHERE payload <> 1 GROUP BY topic";
    let steps = StepSettings { sql: Some(sql.to_owned()), every: Some(EVERY), ..StepSettings::default() };
    core(1, 1, 100, dead, &steps)
}

/// A message that the broker took at this time.
fn at(now: u64, number: u64, key: u64) -> Arc<Message> {
    Arc::new(Message { timestamp: CLOCK + now, ..Message::clone(&message(number, key)) })
}

fn take(core: &mut Core<Token>, now: u64, number: u64, key: u64) {
    core.take(now, CLOCK + now, &at(now, number, key), Some((number, 0)));
}

/// The records of the batches that begin: lane, id and fields.
fn records(actions: &[Action<Token>]) -> Vec<(usize, String, Value)> {
    let of = |action: &Action<Token>| match action {
        Action::Send { lane, batch } => Some((*lane, Batch::clone(batch))),
        _ => None,
    };
    let batches = actions.iter().filter_map(of);
    batches
        .flat_map(|(lane, batch)| {
            let record = |it: &Arc<Record>| (lane, it.id().to_owned(), Value::Object(it.object()));
            batch.iter().map(record).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn a_window_gives_one_record_of_each_group() {
    let mut core = windowed(false);
    for (now, number, key) in [(0, 2, 1), (10, 4, 2), (20, 5, 1), (30, 1, 1)] {
        take(&mut core, now, number, key);
    }
    assert_eq!(acknowledged(&actions(&mut core, 30)), [1], "WHERE leaves it out");
    assert_eq!(core.deadline(), Some(51_000), "50 s until the end of the window, and one more");
    assert!(actions(&mut core, 50_999).is_empty());
    let all = records(&actions(&mut core, 51_000));
    let start = CLOCK - 10_000;
    let expected = [
        (0, "2.w2".to_owned(), json!({ "window_start": start, "topic": "k/1", "n": 2, "sum": 7, "most": 50.0 })),
        (0, "4.w1".to_owned(), json!({ "window_start": start, "topic": "k/2", "n": 1, "sum": 4, "most": 25.0 })),
    ];
    assert_eq!(all, expected);
    assert_eq!((core.held(), core.deadline()), (5, None), "three messages and two records");
    core.settle(51_001, 0, Outcome::Done);
    assert_eq!(acknowledged(&actions(&mut core, 51_001)), [2, 5, 4]);
    let numbers = core.numbers();
    assert_eq!((numbers.taken, numbers.delivered, numbers.filtered, numbers.sink_deliveries), (4, 3, 1, 2));
    assert_eq!((core.held(), core.ledger.bytes(), numbers.ended_early), (0, 0, 0));
}

#[test]
fn messages_that_come_late_stay_in_their_window() {
    let mut core = windowed(false);
    // The broker kept them for an hour.
    for number in 2..5 {
        core.take(3_600_000 + number * 900, CLOCK + 3_600_000, &at(number, number, 0), Some((number, 0)));
        assert!(actions(&mut core, 3_600_000 + number * 900).is_empty());
    }
    let all = records(&actions(&mut core, 3_600_000 + 4 * 900 + 1_000));
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].2["n"], 3);
    assert_eq!(core.numbers().ended_early, 0);
}

#[test]
fn a_message_that_comes_again_counts_once() {
    let mut core = windowed(false);
    take(&mut core, 0, 2, 0);
    core.lose_connection();
    core.take(10, CLOCK + 10, &at(0, 2, 0), Some((2, 1)));
    let all = actions(&mut core, 51_000);
    assert_eq!(records(&all)[0].2["n"], 1);
    core.settle(51_000, 0, Outcome::Done);
    let tokens: Vec<_> = actions(&mut core, 51_000)
        .into_iter()
        .filter_map(|action| if let Action::Acknowledge(token, _) = action { Some(token) } else { None })
        .collect();
    assert_eq!(tokens, [(2, 1)], "on the new connection");
}

#[test]
fn windows_end_early_when_the_source_hands_out_no_more() {
    let mut core = windowed(false);
    core.windows = core.steps.every().map(|every| Windows::new(every, 3, false));
    for number in 2..9 {
        take(&mut core, number, number, number % 2);
    }
    let all = records(&actions(&mut core, 9));
    let counts: Vec<_> = all.iter().map(|(_, id, fields)| (id.as_str(), fields["n"].as_u64().unwrap())).collect();
    assert_eq!(counts, [("2.w2", 2), ("3.w1", 1), ("5.w2", 2), ("6.w1", 1)]);
    assert_eq!(core.numbers().ended_early, 4);
    assert_eq!(core.deadline(), Some(51_000), "the last message waits for the end");
}

#[test]
fn messages_of_qos_0_need_no_memory_each() {
    let mut core = windowed(false);
    for number in 2..30_000 {
        core.take(number, CLOCK + number, &at(number, number, 0), None);
    }
    assert_eq!((core.held(), core.numbers().dropped), (0, 0));
    let all = records(&actions(&mut core, 51_000));
    assert_eq!(all[0].2["n"], 29_998);
    core.settle(51_000, 0, Outcome::Done);
    assert_eq!((core.numbers().delivered, core.held(), core.windows.unwrap().bytes()), (29_998, 0, 0));
}

#[test]
fn many_groups_end_early() {
    let mut core = windowed(false);
    for key in 0..10_001 {
        core.take(key, CLOCK, &at(0, 2, key), None);
    }
    assert_eq!(core.numbers().ended_early, 10_000);
}

#[test]
fn a_message_that_fails_is_not_in_its_window() {
    let mut core = windowed(true);
    take(&mut core, 0, 2, 0);
    take(&mut core, 1, 0, 0);
    let all = records(&actions(&mut core, 1));
    assert_eq!((all.len(), all[0].0), (1, 1), "a dead letter");
    assert!(all[0].2["dead_letter_reason"].as_str().unwrap().contains("divided by 0"), "{all:?}");
    assert_eq!(records(&actions(&mut core, 51_000))[0].2["n"], 1);
}

#[test]
fn a_record_that_is_refused_ends_its_messages() {
    for (dead, ending) in [(false, Ending::Dropped), (true, Ending::Delivered)] {
        let mut core = windowed(dead);
        take(&mut core, 0, 2, 0);
        take(&mut core, 0, 3, 0);
        assert_eq!(records(&actions(&mut core, 51_000)).len(), 1);
        core.settle(51_000, 0, Outcome::Refused("no".into()));
        let mut all = actions(&mut core, 51_001);
        if dead {
            assert_eq!(records(&all)[0].2["n"], 2, "the dead letter has the fields");
            core.settle(51_002, 1, Outcome::Done);
            all = actions(&mut core, 51_002);
        }
        let endings = all.iter().filter(|action| matches!(action, Action::Acknowledge(_, how) if *how == ending));
        assert_eq!((endings.count(), core.held(), core.numbers().delivered), (2, 0, 0), "{dead}");
    }
}

#[test]
fn messages_of_another_process_leave_their_window() {
    let mut core = windowed(false);
    for number in 2..6 {
        take(&mut core, number, number, number % 2);
    }
    core.forget(|(number, _)| *number == 3 || *number % 2 == 0);
    assert_eq!(core.held(), 1);
    let all = records(&actions(&mut core, 51_000));
    assert_eq!(all.len(), 1, "a window without messages gives no record");
    assert_eq!((&all[0].2["n"], &all[0].2["sum"], all[0].1.as_str()), (&json!(1), &json!(5), "5.w1"));
    // The record of a window whose messages are gone does not go again.
    core.settle(51_000, 0, Outcome::Away("down".into()));
    core.forget(|_| true);
    assert_eq!((core.held(), core.ledger.bytes(), core.windows.as_ref().unwrap().bytes()), (0, 0, 0));
    assert!(records(&actions(&mut core, 99_000)).is_empty());
}

#[test]
fn a_broker_that_forwards_messages_gathers_none() {
    let sql = Some("SELECT topic, count(*) AS n FROM 'k/#' GROUP BY topic".to_owned());
    let steps = StepSettings { sql, every: Some(EVERY), forwards: true, ..StepSettings::default() };
    let mut core = core(1, 1, 100, false, &steps);
    take(&mut core, 0, 2, 1);
    let all = actions(&mut core, 0);
    let Some(Action::Send { batch, .. }) = all.first() else { panic!("{all:?}") };
    assert!(matches!(&batch[0].content, Content::Logged(_)), "the whole message");
}

#[test]
fn messages_of_a_window_that_fails_are_dead_letters_each() {
    let sql = Some("SELECT 1 / (count(*) - 2) AS n FROM 'k/#'".to_owned());
    let steps = StepSettings { sql, every: Some(EVERY), ..StepSettings::default() };
    let mut core = core(1, 1, 100, true, &steps);
    take(&mut core, 0, 2, 1);
    take(&mut core, 0, 3, 1);
    let all = records(&actions(&mut core, 51_000));
    let letters: Vec<_> =
        all.iter().map(|(lane, id, fields)| (*lane, id.as_str(), fields["payload"].clone())).collect();
    assert_eq!(letters, [(1, "2", json!(2)), (1, "3", json!(3))]);
    core.settle(51_001, 1, Outcome::Done);
    assert_eq!(acknowledged(&actions(&mut core, 51_001)), [2, 3]);
    assert_eq!((core.numbers().failed, core.numbers().dead_letters, core.held()), (2, 2, 0));
}

#[test]
fn a_time_that_is_wrong_keeps_no_window_open() {
    let mut core = windowed(false);
    for (number, at) in [(2, CLOCK * 1_000), (3, 0)] {
        let message = Arc::new(Message { timestamp: at, ..Message::clone(&message(number, 0)) });
        core.take(0, CLOCK, &message, Some((number, 0)));
    }
    assert_eq!(records(&actions(&mut core, 1_000)).len(), 1, "the past ends at once");
    core.settle(1_000, 0, Outcome::Done);
    // Messages with an old time go on to come.
    for now in (1_000..61_000).step_by(500) {
        let old = Arc::new(Message { timestamp: 0, ..Message::clone(&message(100 + now, 0)) });
        core.take(now, CLOCK + now, &old, None);
    }
    assert_eq!(records(&actions(&mut core, 62_000)).len(), 2, "and the future after a window");
}

#[test]
fn a_source_that_counts_in_order_is_not_waited_for() {
    let mut core = windowed(false);
    core.windows = core.steps.every().map(|every| Windows::new(every, 10, true));
    take(&mut core, 0, 2, 0);
    // WHERE leaves 1 out. The source hands out no more than ten messages from the oldest that is not done on.
    for number in 10..20 {
        core.take(
            1,
            CLOCK,
            &Arc::new(Message { payload: b"1".to_vec(), ..Message::clone(&at(1, number, 0)) }),
            Some((number, 0)),
        );
    }
    assert_eq!((records(&actions(&mut core, 1)).len(), core.numbers().ended_early), (1, 1));
}

proptest! {
    #[test]
    fn each_message_is_in_one_window_and_acknowledged(
        events in proptest::collection::vec((0_u8..14, 0_u64..4, 0_u64..40_000), 1..200),
        // Sources whose messages other processes take over keep all of them.
        is_shared in any::<bool>(),
    ) {
        let mut core = windowed(false);
        core.windows = core.steps.every().map(|every| Windows::new(every, 20, false));
        let (mut now, mut number, mut connection) = (0, 2, 0);
        let mut taken: BTreeMap<u64, Arc<Message>> = BTreeMap::new();
        // Messages that the broker does not keep, and messages that another process has taken over.
        let (mut unkept, mut gone) = (BTreeSet::new(), BTreeMap::new());
        let (mut counts, mut acked) = (BTreeMap::new(), BTreeSet::new());
        let mut look = |core: &mut Core<Token>, now: u64, outcome: Outcome| {
            let all = actions(core, now);
            acked.extend(acknowledged(&all));
            for (lane, id, fields) in records(&all) {
                prop_assert_eq!(lane, 0);
                counts.insert(id, (fields["n"].as_u64().unwrap(), fields["sum"].as_u64().unwrap()));
            }
            if core.under_way() > 0 {
                core.settle(now, 0, outcome);
            }
            acked.extend(acknowledged(&actions(core, now)));
            Ok(acked.clone())
        };
        for (event, key, pause) in events {
            match event {
                0..=4 => {
                    let message = at(now, number, key);
                    core.take(now, CLOCK + now, &message, Some((number, connection)));
                    taken.insert(number, message);
                    number += 1;
                }
                5 if !is_shared => {
                    core.take(now, CLOCK + now, &at(now, number, key), None);
                    unkept.insert(number);
                    number += 1;
                }
                6 => {
                    core.lose_connection();
                    connection += 1;
                    let acked = look(&mut core, now, Outcome::Away("down".into()))?;
                    for (number, message) in taken.iter().filter(|(number, _)| !acked.contains(number)) {
                        core.take(now, CLOCK + now, message, Some((*number, connection)));
                    }
                }
                7 => drop(look(&mut core, now, Outcome::Away("down".into()))?),
                8 => drop(look(&mut core, now, Outcome::Refused("no".into()))?),
                9 if is_shared => {
                    let acked = look(&mut core, now, Outcome::Done)?;
                    core.forget(|(number, _)| number % 4 == key);
                    gone.extend(taken.extract_if(.., |number, _| number % 4 == key && !acked.contains(number)));
                }
                _ => {
                    now += pause;
                    look(&mut core, now, Outcome::Done)?;
                }
            }
        }
        for _ in 0..1_000 {
            now += 5_000;
            look(&mut core, now, Outcome::Done)?;
        }
        let all: BTreeSet<u64> = taken.keys().copied().collect();
        prop_assert_eq!(&acked, &all);
        let counted = || all.iter().chain(&unkept);
        let (least, sum) = (counted().count() as u64, counted().sum::<u64>());
        // The record of a window may have begun with messages that another process took over later.
        let in_windows = counts.values().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
        prop_assert!((least..=least + gone.len() as u64).contains(&in_windows.0), "{counts:?}");
        prop_assert!((sum..=sum + gone.keys().sum::<u64>()).contains(&in_windows.1), "{counts:?}");
        prop_assert_eq!((core.held(), core.ledger.bytes(), core.windows.unwrap().bytes()), (0, 0, 0));
    }
}
