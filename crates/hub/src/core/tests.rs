mod model;
mod windows;

use std::collections::BTreeMap;

use super::*;
use crate::steps::StepSettings;

/// Acknowledges a message on one connection.
type Token = (u64, u64);

fn core(sinks: usize, lanes: usize, messages: usize, dead: bool, steps: &StepSettings) -> Core<Token> {
    let batching = Batching { messages, time: 5, retry_min: 100, retry_max: 1_000, ..Batching::default() };
    let settings = CoreSettings {
        sinks: vec![SinkPlan { lanes, batching }; sinks],
        archives: false,
        dead_letter: dead.then_some(batching),
        max_held: 1_000,
        max_unacknowledged: 1_000,
        in_order: false,
        max_held_bytes: 1 << 30,
        max_age: 0,
        seed: 7,
    };
    Core::new(Steps::new(steps).unwrap(), settings)
}

fn message(number: u64, key: u64) -> Arc<Message> {
    Arc::new(Message {
        id: number.to_string(),
        lasting_id: true,
        topic: format!("k/{key}"),
        qos: 1,
        payload: number.to_string().into_bytes(),
        ..Message::default()
    })
}

fn actions(core: &mut Core<Token>, now: u64) -> Vec<Action<Token>> {
    std::iter::from_fn(|| core.next_action(now)).collect()
}

fn acknowledged(actions: &[Action<Token>]) -> Vec<u64> {
    let of = |action: &Action<Token>| match action {
        Action::Acknowledge((number, _), _) => Some(*number),
        _ => None,
    };
    actions.iter().filter_map(of).collect()
}

fn sent(actions: &[Action<Token>]) -> Vec<(usize, Vec<String>)> {
    let of = |action: &Action<Token>| match action {
        Action::Send { lane, batch } => Some((*lane, batch.iter().map(|record| record.id().to_owned()).collect())),
        _ => None,
    };
    actions.iter().filter_map(of).collect()
}

#[test]
fn a_message_is_acknowledged_once_all_sinks_have_it() {
    let mut core = core(2, 1, 10, false, &StepSettings::default());
    core.take(5, 0, &message(1, 0), Some((1, 0)));
    assert_eq!(sent(&actions(&mut core, 5)).len(), 2, "after a rest nothing waits");
    core.settle(6, 0, Outcome::Done);
    assert!(acknowledged(&actions(&mut core, 6)).is_empty());
    core.settle(7, 1, Outcome::Done);
    assert_eq!(acknowledged(&actions(&mut core, 7)), [1]);
    assert_eq!(
        core.numbers(),
        Numbers { taken: 1, delivered: 1, sink_deliveries: 2, batches: 2, batch_ms: 3, ..Numbers::default() }
    );
    assert_eq!((core.held(), core.deadline()), (0, None));
}

#[test]
fn a_message_may_be_used_again_when_all_sinks_have_it() {
    let mut core = core(2, 1, 10, false, &StepSettings::default());
    let own = message(1, 0);
    let place = Arc::as_ptr(&own);
    core.take(5, 0, &own, Some((1, 0)));
    drop(own);
    drop(actions(&mut core, 5));
    core.settle(6, 0, Outcome::Done);
    assert_eq!(core.next_ended(), None, "the other sink still has it");
    core.settle(7, 1, Outcome::Done);
    assert_eq!(core.next_ended().as_ref().map(Arc::as_ptr), Some(place));
    assert_eq!(core.next_ended(), None);
}

#[test]
fn a_message_that_no_sink_keeps_ends_as_dropped() {
    for (dead, ending) in [(false, Ending::Dropped), (true, Ending::Delivered)] {
        let mut core = core(2, 1, 1, dead, &StepSettings::default());
        core.take(0, 0, &message(1, 0), Some((1, 0)));
        assert_eq!(sent(&actions(&mut core, 0)).len(), 2);
        core.settle(1, 0, Outcome::Refused("x".into()));
        core.settle(1, 1, Outcome::Done);
        let mut all = actions(&mut core, 1);
        if dead {
            core.settle(7, 2, Outcome::Done);
            all = actions(&mut core, 7);
        }
        let is_right = |action: &Action<Token>| matches!(action, Action::Acknowledge(_, as_what) if *as_what == ending);
        assert!(all.iter().any(is_right), "{dead}: {all:?}");
    }
}

/// A core with a sink and an archive, and batches of up to this number of messages.
fn with_an_archive(steps: &StepSettings, messages: usize) -> Core<Token> {
    let batching = Batching { messages, ..Batching::default() };
    let settings = CoreSettings {
        sinks: vec![SinkPlan { lanes: 1, batching }; 2],
        archives: true,
        dead_letter: None,
        max_held: 1_000,
        max_unacknowledged: 1_000,
        in_order: false,
        max_held_bytes: 1 << 30,
        max_age: 0,
        seed: 7,
    };
    Core::new(Steps::new(steps).unwrap(), settings)
}

#[test]
fn an_archive_has_each_message_as_it_came() {
    let steps = StepSettings { filter: Some("100 / payload > 10".into()), ..StepSettings::default() };
    let mut core = with_an_archive(&steps, 1);
    // Number 5 passes, 50 is left out, and the filter fails for 0.
    for number in [5, 50, 0] {
        core.take(0, 0, &message(number, 0), Some((number, 0)));
        let all = actions(&mut core, 0);
        assert!(acknowledged(&all).is_empty(), "{number} is not in the archive yet");
        let archived: Vec<_> = sent(&all).into_iter().filter(|(lane, _)| *lane == 1).collect();
        assert_eq!(archived, [(1, vec![number.to_string()])]);
        core.settle(0, 0, Outcome::Done);
        core.settle(0, 1, Outcome::Done);
        assert_eq!(acknowledged(&actions(&mut core, 0)), [number]);
    }
    let numbers = core.numbers();
    assert_eq!((numbers.taken, numbers.delivered, numbers.filtered, numbers.failed), (3, 1, 1, 1));
    assert_eq!(numbers.sink_deliveries, 1, "the archive is no delivery");
}

#[test]
fn messages_that_another_process_takes_over_are_forgotten() {
    let mut core = core(1, 1, 2, false, &StepSettings::default());
    for number in 1..=5 {
        core.take(0, 0, &message(number, 0), Some((number, u64::from(number == 3))));
    }
    assert_eq!(sent(&actions(&mut core, 0)), [(0, vec!["1".into(), "2".into()])]);
    core.forget(|(_, connection)| *connection == 0);
    assert_eq!(core.held(), 1);
    core.settle(1, 0, Outcome::Away("x".into()));
    // The failed batch does not come again.
    assert_eq!(sent(&actions(&mut core, 5)), [(0, vec!["3".into()])]);
    core.settle(6, 0, Outcome::Done);
    assert_eq!(acknowledged(&actions(&mut core, 6)), [3]);
    core.take(7, 0, &message(1, 0), Some((1, 2)));
    assert_eq!(core.held(), 1, "it may return");
}

#[test]
fn a_refusal_of_a_forgotten_record_blames_no_other() {
    let mut core = core(1, 1, 2, true, &StepSettings::default());
    core.take(0, 0, &message(1, 0), Some((1, 0)));
    core.take(0, 0, &message(2, 0), Some((2, 1)));
    assert_eq!(sent(&actions(&mut core, 0)).len(), 1);
    core.forget(|(_, connection)| *connection == 0);
    core.settle(1, 0, Outcome::Refused("1 is to blame".into()));
    assert_eq!(sent(&actions(&mut core, 1)), [(0, vec!["2".into()])]);
    core.settle(2, 0, Outcome::Done);
    assert_eq!((acknowledged(&actions(&mut core, 2)), core.numbers().failed), (vec![2], 0));
}

#[test]
fn a_batch_that_waits_to_be_tried_again_is_forgotten() {
    let mut core = core(1, 1, 2, false, &StepSettings::default());
    core.take(0, 0, &message(1, 0), Some((1, 0)));
    actions(&mut core, 5);
    core.settle(5, 0, Outcome::Away("x".into()));
    actions(&mut core, 5);
    core.forget(|_| true);
    assert_eq!((core.held(), core.deadline()), (0, None));
    assert!(actions(&mut core, 10_000).is_empty());
}

#[test]
fn a_forgotten_batch_takes_no_retries_from_the_next() {
    for is_under_way in [true, false] {
        let mut core = core(1, 1, 2, false, &StepSettings::default());
        core.take(0, 0, &message(1, 0), Some((1, 0)));
        let mut now = 0;
        for _ in 0..lane::MAX_LIMITED_RETRIES {
            assert_eq!(sent(&actions(&mut core, now)).len(), 1);
            core.settle(now, 0, Outcome::Limited("full".into()));
            now += 1_000;
        }
        if is_under_way {
            assert_eq!(sent(&actions(&mut core, now)).len(), 1, "it is under way");
        }
        core.forget(|_| true);
        core.settle(now, 0, Outcome::Limited("full".into()));
        core.take(now, 0, &message(2, 0), Some((2, 1)));
        assert_eq!(sent(&actions(&mut core, now + 10)), [(0, vec!["2".into()])]);
        core.settle(now, 0, Outcome::Limited("full".into()));
        assert_eq!((core.numbers().failed, core.held()), (0, 1), "{is_under_way}: it goes again");
    }
}

#[test]
fn a_batch_is_full_by_count_and_due_by_time() {
    let mut core = core(1, 1, 2, false, &StepSettings::default());
    for number in 1..=3 {
        core.take(0, 0, &message(number, 0), Some((number, 0)));
    }
    assert_eq!(sent(&actions(&mut core, 0)), [(0, vec!["1".into(), "2".into()])]);
    core.settle(1, 0, Outcome::Done);
    assert!(sent(&actions(&mut core, 1)).is_empty());
    assert_eq!(core.deadline(), Some(5));
    assert_eq!(sent(&actions(&mut core, 5)), [(0, vec!["3".into()])]);
}

#[test]
fn a_message_of_several_records_ends_with_the_last() {
    let steps = StepSettings { sql: Some("FOREACH payload FROM 'k/#'".into()), ..StepSettings::default() };
    let mut core = with_an_archive(&steps, 2);
    let list = Arc::new(Message { payload: b"[1,2,3]".to_vec(), ..Message::clone(&message(7, 0)) });
    core.take(0, 0, &list, Some((7, 0)));
    let all = sent(&actions(&mut core, 0));
    assert_eq!(all, [(0, vec!["7.1".into(), "7.2".into()]), (1, vec!["7.1".into()])], "the archive has it once");
    core.settle(1, 0, Outcome::Done);
    core.settle(1, 1, Outcome::Done);
    let rest = actions(&mut core, 10);
    assert_eq!((acknowledged(&rest), sent(&rest)), (vec![], vec![(0, vec!["7.3".into()])]));
    core.settle(11, 0, Outcome::Done);
    assert_eq!(acknowledged(&actions(&mut core, 11)), [7]);
    assert_eq!((core.numbers().taken, core.numbers().delivered, core.numbers().sink_deliveries), (1, 1, 3));
}

#[test]
fn records_of_a_foreach_count_as_bytes_that_are_held() {
    let steps = StepSettings { sql: Some("FOREACH payload FROM 'k/#'".into()), ..StepSettings::default() };
    let batching = Batching::default();
    let settings = CoreSettings {
        sinks: vec![SinkPlan { lanes: 1, batching }],
        archives: false,
        dead_letter: None,
        max_held: 1_000,
        max_unacknowledged: 1_000,
        in_order: false,
        max_held_bytes: 100_000,
        max_age: 0,
        seed: 7,
    };
    let mut core = Core::<Token>::new(Steps::new(&steps).unwrap(), settings);
    // A payload of 2 kB becomes 1,000 records.
    let payload = format!("[{}1]", "1,".repeat(999)).into_bytes();
    let message = |number: u64| Arc::new(Message { payload: payload.clone(), ..Message::clone(&message(number, 0)) });
    core.take(0, 0, &message(1), None);
    assert!(core.ledger.bytes() > 1_000 * size_of::<Record>(), "{}", core.ledger.bytes());
    core.take(0, 0, &message(2), None);
    assert_eq!((core.numbers().taken, core.numbers().dropped, core.held()), (1, 1, 1));
    for now in [0, 5] {
        assert_eq!(sent(&actions(&mut core, now))[0].1.len(), 500);
        core.settle(now, 0, Outcome::Done);
    }
    assert_eq!((core.held(), core.ledger.bytes()), (0, 0));
}

#[test]
fn records_are_made_when_there_is_memory_for_them() {
    let steps = StepSettings { sql: Some("FOREACH payload FROM 'k/#'".into()), ..StepSettings::default() };
    let mut core = core(1, 1, 1_000, false, &steps);
    core.settings.max_held_bytes = 100_000;
    let payload = format!("[{}1]", "1,".repeat(999)).into_bytes();
    let message = |number: u64| Arc::new(Message { payload: payload.clone(), ..Message::clone(&message(number, 0)) });
    for number in 1..=3 {
        core.take(0, 0, &message(number), Some((number, 0)));
    }
    // The broker sends one of them for a second filter.
    core.take(0, 0, &message(3), Some((3, 0)));
    assert_eq!((core.numbers().taken, core.numbers().dropped, core.held()), (1, 0, 3));
    let (mut now, mut ended) = (0, Vec::new());
    for number in 1..=3 {
        assert!(core.ledger.bytes() < 2 * core.settings.max_held_bytes + 1_000 * 1_000, "{}", core.ledger.bytes());
        let all = actions(&mut core, now);
        ended.extend(acknowledged(&all));
        assert_eq!(sent(&all)[0].1[0], format!("{number}.1"));
        now += 10;
        core.settle(now, 0, Outcome::Done);
    }
    ended.extend(acknowledged(&actions(&mut core, now)));
    assert_eq!((ended, core.held(), core.numbers().taken), (vec![1, 2, 3, 3], 0, 3));
}

#[test]
fn messages_that_wait_for_memory_are_forgotten_with_others() {
    let mut core = core(1, 1, 1, false, &StepSettings::default());
    core.settings.max_held_bytes = 1;
    for number in 1..=4 {
        core.take(0, 0, &message(number, 0), Some((number, 0)));
    }
    core.forget(|(number, _)| matches!(number, 1 | 3));
    assert_eq!(sent(&actions(&mut core, 0)), [(0, vec!["2".to_owned()])]);
    core.lose_connection();
    assert_eq!(core.held(), 1, "parked messages come again");
}

#[test]
fn a_limit_of_a_sink_is_retried_a_bounded_number_of_times() {
    let mut core = core(1, 1, 10, true, &StepSettings::default());
    for number in 1..=3 {
        core.take(0, 0, &message(number, 0), Some((number, 0)));
    }
    let (mut now, mut tries, mut letters) = (0, 0, Vec::new());
    while core.held() > 0 {
        for action in actions(&mut core, now) {
            match action {
                Action::Send { lane: 0, batch } => {
                    let bad = batch.iter().any(|record| record.id() == "2");
                    tries += u32::from(bad);
                    core.settle(now, 0, if bad { Outcome::Limited("full".into()) } else { Outcome::Done });
                }
                Action::Send { lane, batch } => {
                    letters.extend(batch.iter().map(|record| record.id().to_owned()));
                    core.settle(now, lane, Outcome::Done);
                }
                Action::Acknowledge(..) | Action::Tell(_) => {}
            }
        }
        now += 1_000;
    }
    // The batch, its retries, and its parts until the record is alone.
    assert!((lane::MAX_LIMITED_RETRIES + 2..=lane::MAX_LIMITED_RETRIES + 3).contains(&tries), "{tries}");
    assert_eq!((letters, core.numbers().delivered), (vec!["2".to_owned()], 2));
    core.take(now, 0, &message(4, 0), Some((4, 0)));
    actions(&mut core, now);
    core.settle(now, 0, Outcome::Limited("full".into()));
    assert_eq!(core.numbers().failed, 1, "the next batch has its own retries");
}

#[test]
fn a_message_without_all_its_headers_is_a_dead_letter() {
    let mut core = core(1, 1, 1, true, &StepSettings::default());
    let cut = Arc::new(Message { headers_cut: true, ..Message::clone(&message(1, 0)) });
    core.take(0, 0, &cut, Some((1, 0)));
    assert_eq!(sent(&actions(&mut core, 0)), [(1, vec!["1".to_owned()])]);
    assert_eq!((core.numbers().failed, core.numbers().looped), (1, 0));
}

#[test]
fn a_message_of_a_loop_is_a_dead_letter_once() {
    let mut core = core(1, 1, 1, true, &StepSettings::default());
    for (number, hops) in [(1, MAX_HOPS - 1), (2, MAX_HOPS), (3, MAX_HOPS + 1)] {
        let message = Arc::new(Message { hops, ..Message::clone(&message(number, 0)) });
        core.take(0, 0, &message, Some((number, 0)));
    }
    let all = actions(&mut core, 0);
    assert_eq!(sent(&all), [(0, vec!["1".to_owned()]), (1, vec!["2".to_owned()])]);
    assert_eq!(acknowledged(&all), [3]);
    let numbers = core.numbers();
    assert_eq!((numbers.failed, numbers.looped, numbers.dead_letters), (2, 2, 1));
}

#[test]
fn a_record_waits_only_for_the_pace_of_batches() {
    let mut core = core(1, 1, 10, false, &StepSettings::default());
    // The time of each message, and that of its batch: 5 ms after the begin of the batch before it, or at once.
    for (number, (at, begins)) in [(3, 3), (4, 8), (12, 13), (18, 18), (40, 40)].into_iter().enumerate() {
        let number = number as u64;
        core.take(at, 0, &message(number, 0), Some((number, 0)));
        assert_eq!(core.deadline(), Some(begins), "message of {at}");
        assert!(begins == at || sent(&actions(&mut core, begins - 1)).is_empty());
        assert_eq!(sent(&actions(&mut core, begins)), [(0, vec![number.to_string()])]);
        core.settle(begins, 0, Outcome::Done);
        assert_eq!(acknowledged(&actions(&mut core, begins)), [number]);
    }
}

#[test]
fn records_gather_for_sinks_that_make_an_object_of_a_batch() {
    let batching = Batching { messages: 3, time: 1_000, gathers: true, ..Batching::default() };
    let settings = CoreSettings {
        sinks: vec![SinkPlan { lanes: 1, batching }],
        archives: false,
        dead_letter: None,
        max_held: 1_000,
        max_unacknowledged: 1_000,
        in_order: false,
        max_held_bytes: 1 << 30,
        max_age: 0,
        seed: 7,
    };
    let mut core = Core::<Token>::new(Steps::new(&StepSettings::default()).unwrap(), settings);
    // Also after a rest the first record waits for the second one.
    for start in [5_000, 60_000] {
        core.take(start, 0, &message(start, 0), Some((start, 0)));
        assert_eq!(core.deadline(), Some(start + 1_000));
        core.take(start + 900, 0, &message(start + 1, 0), Some((start + 1, 0)));
        assert!(sent(&actions(&mut core, start + 999)).is_empty());
        let batch = vec![start.to_string(), (start + 1).to_string()];
        assert_eq!(sent(&actions(&mut core, start + 1_000)), [(0, batch)]);
        core.settle(start + 1_001, 0, Outcome::Done);
        assert_eq!(acknowledged(&actions(&mut core, start + 1_001)), [start, start + 1]);
    }
    (1..=3).for_each(|number| core.take(70_000, 0, &message(number, 0), Some((number, 0))));
    assert_eq!(core.deadline(), Some(0), "a full batch does not wait");
}

#[test]
fn the_waits_of_two_pipelines_in_a_row_are_under_20_ms() {
    let steps = StepSettings::default();
    let batching = Batching::default();
    let pipeline = || {
        let settings = CoreSettings {
            sinks: vec![SinkPlan { lanes: 1, batching }],
            archives: false,
            dead_letter: None,
            max_held: 1_000,
            max_unacknowledged: 1_000,
            in_order: false,
            max_held_bytes: 1 << 30,
            max_age: 0,
            seed: 7,
        };
        Core::<Token>::new(Steps::new(&steps).unwrap(), settings)
    };
    // A gateway and a hub with sinks that take no time; devices send in an uneven rhythm for two seconds.
    let (mut gateway, mut hub) = (pipeline(), pipeline());
    let (mut chance, mut longest, mut arrived, mut due) = (SplitMix64::new(7), 0, 0, 0);
    let mut published = BTreeMap::new();
    for now in 0..2_100_u64 {
        while due <= now && now < 2_000 {
            let number = published.len() as u64;
            published.insert(number.to_string(), now);
            gateway.take(now, 0, &message(number, number % 3), Some((number, 0)));
            due = now + chance.number() % 40;
        }
        for (lane, batch) in sent(&actions(&mut gateway, now)) {
            gateway.settle(now, lane, Outcome::Done);
            for id in batch {
                hub.take(now, 0, &message(id.parse().unwrap(), 0), Some((0, 0)));
            }
        }
        for (lane, batch) in sent(&actions(&mut hub, now)) {
            hub.settle(now, lane, Outcome::Done);
            arrived += batch.len();
            longest = batch.iter().map(|id| now - published[id]).max().unwrap_or(0).max(longest);
        }
    }
    assert!(arrived == published.len() && arrived > 50, "{arrived} of {}", published.len());
    assert!((1..20).contains(&longest), "{longest} ms");
}

#[test]
fn another_reason_of_a_sink_is_reported_within_a_minute() {
    let mut core = core(1, 1, 10, false, &StepSettings::default());
    core.take(0, 0, &message(1, 0), Some((1, 0)));
    let (mut now, mut reported) = (5, Vec::new());
    while now < 70_000 {
        actions(&mut core, now);
        // The server starts, and does not know the password.
        let why = if now < 1_000 { "refused" } else { "wrong password" };
        core.settle(now, 0, Outcome::Away(why.into()));
        for action in actions(&mut core, now) {
            if let Action::Tell(News::Away { why, .. }) = action {
                reported.push((why, now));
            }
        }
        now = core.deadline().unwrap();
    }
    let [(first, 5), (second, at)] = &reported[..] else { panic!("{reported:?}") };
    assert_eq!((first.as_str(), second.as_str()), ("refused", "wrong password"));
    assert!((60_005..62_000).contains(at), "{reported:?}");
}

#[test]
fn a_sink_that_is_away_is_tried_later_and_later_and_reported() {
    let mut core = core(1, 1, 10, false, &StepSettings::default());
    core.take(0, 0, &message(1, 0), Some((1, 0)));
    let mut now = 5;
    let mut pauses = Vec::new();
    for _ in 0..8 {
        assert_eq!(sent(&actions(&mut core, now)), [(0, vec!["1".into()])], "the same batch");
        core.settle(now, 0, Outcome::Away("refused".into()));
        let news = actions(&mut core, now);
        let is_first = pauses.is_empty();
        assert_eq!(news.len(), usize::from(is_first), "said once");
        let next = core.deadline().unwrap();
        pauses.push(next - now);
        now = next;
    }
    assert!(pauses.iter().all(|pause| (50..=1_000).contains(pause)), "{pauses:?}");
    assert!(pauses[7] >= 500 && pauses[0] <= 100, "{pauses:?}");
    actions(&mut core, now);
    core.settle(now, 0, Outcome::Done);
    let back = actions(&mut core, now);
    assert!(matches!(back[..], [Action::Tell(News::Back { sink: 0 }), Action::Acknowledge(..)]), "{back:?}");
    assert_eq!(core.numbers().retried, 8);
}

#[test]
fn a_record_that_is_refused_is_found_and_does_not_stop_others() {
    let mut core = core(1, 1, 10, true, &StepSettings::default());
    for number in 1..=7 {
        core.take(0, 0, &message(number, 0), Some((number, 0)));
    }
    let (mut delivered, mut letters, mut done) = (Vec::new(), Vec::new(), Vec::new());
    for now in (100..500).step_by(10) {
        for action in actions(&mut core, now) {
            match action {
                Action::Send { lane: 0, batch } => {
                    let bad = batch.iter().any(|record| record.id() == "5");
                    if !bad {
                        delivered.extend(batch.iter().map(|record| record.id().to_owned()));
                    }
                    core.settle(now, 0, if bad { Outcome::Refused("not a number".into()) } else { Outcome::Done });
                }
                Action::Send { lane, batch } => {
                    letters.extend(batch.iter().map(|record| (record.id().to_owned(), record.reason.clone())));
                    core.settle(now, lane, Outcome::Done);
                }
                Action::Acknowledge((number, _), _) => done.push(number),
                Action::Tell(_) => {}
            }
        }
    }
    assert_eq!(delivered, ["1", "2", "3", "4", "6", "7"]);
    assert_eq!(letters, [("5".to_owned(), Some("not a number".to_owned()))]);
    done.sort_unstable();
    assert_eq!(done, [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!((core.numbers().delivered, core.numbers().failed), (6, 1));
}

#[test]
fn what_steps_leave_out_or_fail_on_is_acknowledged_and_counted() {
    let steps = StepSettings {
        sql: Some("SELECT 10 / payload AS x FROM 'k/#' WHERE payload >= 0 OR payload IS NULL".into()),
        ..StepSettings::default()
    };
    let mut core = core(1, 1, 10, false, &steps);
    let bad = message(0, 0);
    core.take(0, 0, &bad, Some((0, 0)));
    let bad = Arc::new(Message { payload: b"-1".to_vec(), id: "x".into(), ..Message::clone(&bad) });
    core.take(0, 0, &bad, Some((1, 0)));
    let all = actions(&mut core, 0);
    assert_eq!(acknowledged(&all), [0, 1]);
    assert!(matches!(&all[0], Action::Tell(News::Failed { kept: false, why, .. }) if why.contains("divided by 0")));
    assert_eq!((core.numbers().failed, core.numbers().filtered), (1, 1));
}

#[test]
fn a_reason_does_not_repeat_a_long_payload() {
    let sql = Some("SELECT bool(payload) AS x FROM 'k/#'".into());
    let mut core = core(1, 1, 10, false, &StepSettings { sql, format: crate::Format::Raw, ..StepSettings::default() });
    let long = Message { payload: "ü".repeat(500_000).into_bytes(), ..Message::clone(&message(1, 0)) };
    core.take(0, 0, &Arc::new(long), Some((1, 0)));
    let all = actions(&mut core, 0);
    let Action::Tell(News::Failed { why, .. }) = &all[0] else { panic!("{:?}", all[0]) };
    assert_eq!((why.chars().count(), why.ends_with('…')), (1_001, true));
}

#[test]
fn a_message_that_comes_again_is_not_taken_twice() {
    let mut core = core(1, 1, 10, false, &StepSettings::default());
    core.take(0, 0, &message(1, 0), Some((1, 0)));
    core.take(0, 0, &message(2, 0), Some((2, 0)));
    assert_eq!(sent(&actions(&mut core, 5)).len(), 1);
    core.lose_connection();
    core.take(6, 0, &message(1, 0), Some((1, 1)));
    core.settle(7, 0, Outcome::Done);
    assert!(
        matches!(actions(&mut core, 7)[..], [Action::Acknowledge((1, 1), _)]),
        "only what the broker has sent again can be acknowledged"
    );
    core.take(8, 0, &message(2, 0), Some((2, 1)));
    assert!(matches!(actions(&mut core, 8)[..], [Action::Acknowledge((2, 1), _)]));
    assert_eq!(core.numbers().taken, 2);
}

#[test]
fn each_delivery_of_a_message_is_acknowledged() {
    let mut core = core(1, 1, 10, false, &StepSettings::default());
    // Retained, and by two filters: the broker counts each delivery until it is acknowledged.
    core.take(0, 0, &message(1, 0), Some((1, 0)));
    core.take(0, 0, &message(1, 0), Some((2, 0)));
    assert_eq!(sent(&actions(&mut core, 5)), [(0, vec!["1".into()])]);
    core.settle(6, 0, Outcome::Done);
    assert_eq!(acknowledged(&actions(&mut core, 6)), [1, 2]);
    assert_eq!(core.numbers().delivered, 1);
}

#[test]
fn each_delivery_that_comes_again_is_acknowledged() {
    let mut core = core(1, 1, 10, false, &StepSettings::default());
    core.take(0, 0, &message(1, 0), Some((1, 0)));
    core.take(0, 0, &message(1, 0), Some((2, 0)));
    actions(&mut core, 5);
    core.lose_connection();
    core.take(6, 0, &message(1, 0), Some((1, 1)));
    core.settle(7, 0, Outcome::Done);
    assert!(matches!(actions(&mut core, 7)[..], [Action::Acknowledge((1, 1), _)]), "the others are of no use");
    core.take(8, 0, &message(1, 0), Some((2, 1)));
    assert!(matches!(actions(&mut core, 8)[..], [Action::Acknowledge((2, 1), _)]), "sinks have it");
    core.take(9, 0, &message(1, 0), Some((3, 1)));
    assert_eq!(core.numbers().taken, 2, "no more come of it, so this is a new one");
}

#[test]
fn without_room_only_messages_of_qos_0_are_dropped() {
    let mut core = core(1, 1, 10, false, &StepSettings::default());
    core.settings.max_held = 2;
    for number in 0..4 {
        core.take(0, 0, &message(number, 0), None);
    }
    core.take(0, 0, &message(9, 0), Some((9, 0)));
    assert_eq!((core.numbers().taken, core.numbers().dropped, core.held()), (3, 2, 3));
}

#[test]
fn messages_that_become_too_old_are_dead_letters() {
    let mut core = core(1, 1, 10, true, &StepSettings::default());
    core.settings.max_age = 1_000;
    let taken_at = |number: u64, timestamp: u64| Arc::new(Message { timestamp, ..Message::clone(&message(number, 0)) });
    core.take(0, 5_000, &taken_at(1, 4_500), Some((1, 0)));
    assert_eq!(sent(&actions(&mut core, 0)), [(0, vec!["1".to_owned()])]);
    core.take(10, 5_010, &taken_at(2, 5_010), Some((2, 0)));
    core.settle(20, 0, Outcome::Away("down".into()));
    core.fail_late(20, 5_020, 0);
    assert_eq!(sent(&actions(&mut core, 20)), [], "none is too old, and it is tried again later");
    assert_eq!(sent(&actions(&mut core, 200)), [(0, vec!["1".to_owned()])]);
    core.settle(501, 0, Outcome::Away("down".into()));
    core.fail_late(501, 5_501, 0);
    let all = actions(&mut core, 501);
    assert_eq!(sent(&all), [(1, vec!["1".to_owned()])], "the first is a dead letter");
    let is_reported = |action: &Action<Token>| matches!(action, Action::Tell(News::Failed { kept: true, why, .. }) if why.contains("max_age"));
    assert!(all.iter().any(is_reported), "{all:?}");
    core.settle(502, 1, Outcome::Done);
    assert_eq!(acknowledged(&actions(&mut core, 502)), [1]);
    core.take(503, 6_503, &taken_at(3, 5_502), Some((3, 0)));
    assert_eq!(sent(&actions(&mut core, 510)), [(1, vec!["3".to_owned()])], "it comes too late");
    core.settle(511, 1, Outcome::Away("full".into()));
    core.fail_late(511, 9_000, 1);
    assert!(sent(&actions(&mut core, 5_000)).contains(&(1, vec!["3".to_owned()])), "a dead letter waits on");
    core.settle(5_001, 0, Outcome::Away("down".into()));
    core.fail_late(5_001, 10_001, 0);
    core.settle(5_002, 1, Outcome::Done);
    assert_eq!(sent(&actions(&mut core, 5_010)), [(1, vec!["2".to_owned()])]);
    core.settle(5_011, 1, Outcome::Done);
    assert_eq!(acknowledged(&actions(&mut core, 5_011)), [2]);
    assert_eq!((core.held(), core.numbers().failed, core.deadline()), (0, 3, None));
    let replayed = Arc::new(Message { archived: true, ..Message::clone(&taken_at(4, 0)) });
    core.take(20_000, 25_000, &replayed, Some((4, 0)));
    assert_eq!(sent(&actions(&mut core, 20_000)), [(0, vec!["4".to_owned()])], "a replay brings old messages");
}

#[test]
fn a_paused_pipeline_begins_nothing() {
    let mut core = core(1, 1, 10, false, &StepSettings::default());
    core.pause(true);
    core.take(0, 0, &message(1, 0), Some((1, 0)));
    assert!(actions(&mut core, 1_000).is_empty() && core.deadline().is_none());
    core.pause(false);
    assert_eq!(sent(&actions(&mut core, 1_000)).len(), 1);
}
