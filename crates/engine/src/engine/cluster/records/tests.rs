use crate::engine::Engine;
use std::sync::Arc;

use tidegate_mqtt::QoS;

use super::*;
use crate::Settings;
use crate::ids::{ConnectionKey, ListenerId, SessionKey, ShardPosition, partition_of};
use crate::message::Publication;
use crate::now::Millis;
use crate::session::{FilterList, Session, Standing};
use crate::topics::{Subscriber, SubscriberOptions};

const NOW: Now = Now { monotonic: Millis(1000), unix: 1_700_000_000_000 };
const HERE: ShardId = ShardId(0);
const THERE: ShardId = ShardId(1);

fn engine(shard: ShardId) -> Engine {
    Engine::new(Arc::new(Settings::default()), ShardPosition { shard, shards: 2 }, 1, NOW)
}

/// An engine with a subscriber to `t` that is away, so that everything waits for it, and its peer, which knows.
fn pair() -> (Engine, SessionKey, Engine) {
    let (mut here, mut there) = (engine(HERE), engine(THERE));
    let names = (0..).map(|number: u32| number.to_string());
    let name = names.into_iter().find(|name| here.place.owns(partition_of(TenantId(0), name))).unwrap();
    let session = here.state.insert_session(Session {
        client_id: name.into(),
        connection: None,
        filters: FilterList::default(),
        flow: None,
        rare: None,
        expiry_seconds: u32::MAX,
        tenant: TenantId(0),
        listener: ListenerId(0),
        receive_maximum: u16::MAX,
        rights_epoch: 0,
        standing: Standing::Client,
        stored: None,
        identity: None,
    });
    let options = SubscriberOptions::new(QoS::AtLeastOnce, false, true);
    crate::flows::contexts::subscribing!(here).adopt_subscription(
        NOW,
        TenantId(0),
        "t",
        Subscriber { session, options, subscription_id: 0 },
    );
    there.cluster().handle_batch(NOW, here.take_batch(THERE).unwrap()).unwrap();
    (here, session, there)
}

fn publish(engine: &mut Engine, payload: &[u8]) {
    let mut message = Publication::new(TenantId(0), "t", QoS::AtLeastOnce, false, &[], Millis::NEVER, payload, 0);
    crate::flows::contexts::publishing!(engine).publish_inside(NOW, &mut message, None);
}

/// The messages in its queue so far.
fn got(engine: &Engine, key: SessionKey) -> Vec<&[u8]> {
    let flow = engine.state.sessions.get(key.0).and_then(|session| session.flow.as_ref());
    flow.iter().flat_map(|flow| flow.queue.iter()).map(|delivery| delivery.message.payload()).collect()
}

#[test]
fn a_batch_that_ends_early_is_worked_off_as_far_as_it_goes() {
    let (mut here, key, mut there) = pair();
    for payload in [b"1", b"2", b"3"] {
        publish(&mut there, payload);
    }
    let mut batch = there.take_batch(HERE).unwrap();
    // The credit that came last, nine bytes, and the end of the third message.
    batch.bytes.truncate(batch.bytes.len() - 10);
    assert!(here.cluster().read_batch(NOW, &mut batch).is_err());
    here.links.finish_batch(batch);
    assert_eq!(got(&here, key), [b"1", b"2"]);
    assert_eq!(here.questions().counters().dropped[Reason::ShardInboxFull.number()], 1);
    // The sender gets the credit for all of it, and the next message is taken.
    publish(&mut there, b"4");
    here.cluster().handle_batch(NOW, there.take_batch(HERE).unwrap()).unwrap();
    assert_eq!(got(&here, key), [b"1", b"2", b"4"]);
    here.links.send(THERE, Record::Unpark { connection: ConnectionKey { index: 0, generation: 0 } });
    there.cluster().handle_batch(NOW, here.take_batch(THERE).unwrap()).unwrap();
    assert_eq!(there.links.bytes(), 0);
}

/// Levels of the topics and filters of [`with_many_filters`].
const LEVELS: usize = 11;

/// A pair whose subscriber has 2,048 filters. Finding the receivers of one topic visits 6,143 nodes, so that a turn has room
/// for 11 of these messages.
fn with_many_filters() -> (Engine, SessionKey, Engine) {
    let (mut here, key, mut there) = pair();
    let level = |number: usize, at: usize| if number >> at & 1 == 0 { "a/" } else { "+/" };
    let options = SubscriberOptions::new(QoS::AtLeastOnce, false, true);
    for number in 0..1 << LEVELS {
        let filter = (0..LEVELS).map(|at| level(number, at)).collect::<String>() + "+";
        let subscriber = Subscriber { session: key, options, subscription_id: 0 };
        crate::flows::contexts::subscribing!(here).adopt_subscription(NOW, TenantId(0), &filter, subscriber);
    }
    there.cluster().handle_batch(NOW, here.take_batch(THERE).unwrap()).unwrap();
    (here, key, there)
}

/// Publishes to a topic of its own that all filters match.
fn publish_costly(engine: &mut Engine, number: u8) {
    let (topic, payload) = ("a/".repeat(LEVELS) + &number.to_string(), [number]);
    let mut message = Publication::new(TenantId(0), &topic, QoS::AtLeastOnce, false, &[], Millis::NEVER, &payload, 0);
    crate::flows::contexts::publishing!(engine).publish_inside(NOW, &mut message, None);
}

#[test]
fn a_batch_of_topics_with_many_filters_takes_turns() {
    let (mut here, key, mut there) = with_many_filters();
    let payloads: Vec<Vec<u8>> = (0..100_u8).map(|number| vec![number]).collect();
    for number in 0..100 {
        publish_costly(&mut there, number);
    }
    let mut rest = there.take_batch(HERE);
    // Its credit is not given with that of the first batch.
    publish(&mut there, b"later");
    let later = there.take_batch(HERE).unwrap();
    let mut steps = Vec::new();
    while let Some(batch) = rest {
        let before = got(&here, key).len();
        here.cluster().begin_matching();
        rest = here.cluster().handle_batch(NOW, batch).unwrap();
        steps.push(got(&here, key).len() - before);
    }
    assert_eq!(got(&here, key), payloads);
    assert!(steps.len() >= 8 && steps.iter().all(|step| *step <= 12), "{steps:?}");
    here.links.send(THERE, Record::Unpark { connection: ConnectionKey { index: 0, generation: 0 } });
    there.cluster().handle_batch(NOW, here.take_batch(THERE).unwrap()).unwrap();
    assert_eq!(there.links.bytes(), later.cost, "the credit is given once");
}

#[test]
fn small_batches_use_up_the_share_of_a_turn_together() {
    let (mut here, key, mut there) = with_many_filters();
    here.cluster().begin_matching();
    let mut taken = 0;
    while !here.cluster().has_matched_for_a_turn() {
        publish_costly(&mut there, taken);
        // The rest of the last one is a record about credit at most.
        drop(here.cluster().handle_batch(NOW, there.take_batch(HERE).unwrap()).unwrap());
        taken += 1;
    }
    assert!((10..=12).contains(&taken), "{taken} batches of one message");
    assert_eq!(got(&here, key).len(), usize::from(taken));
    here.cluster().begin_matching();
    assert!(!here.cluster().has_matched_for_a_turn());
}

#[test]
fn a_batch_that_comes_twice_is_delivered_once() {
    let (mut here, key, mut there) = pair();
    publish(&mut there, b"1");
    publish(&mut there, b"2");
    let mut batch = there.take_batch(HERE).unwrap();
    here.cluster().read_batch(NOW, &mut batch).unwrap();
    batch.position = BatchPosition::default();
    here.cluster().read_batch(NOW, &mut batch).unwrap();
    here.links.finish_batch(batch);
    assert_eq!(got(&here, key), [b"1", b"2"]);
    assert_eq!(here.questions().counters().shard_messages_in, 2);
}

#[test]
fn a_dealt_message_that_comes_twice_is_delivered_once() {
    let (mut here, _, mut there) = pair();
    let group = crate::link::record::GroupName { tenant: TenantId(0), share: "g", filter: "t" };
    let member = crate::link::record::MemberOptions { options: 1, subscription_id: 0 };
    let publication = Publication::new(TenantId(0), "t", QoS::AtLeastOnce, false, &[], Millis::NEVER, b"x", 0);
    let envelope = Envelope {
        purpose: 0,
        origin: THERE,
        sequence: 0,
        entered_at: NOW.monotonic,
        priority: 0,
        hops: 0,
        from: None,
        ticket: None,
        publication,
    };
    there.links.send(HERE, Record::Deal { session: 77, client: 7, group, member, insists: false, id: 0, envelope });
    let mut batch = there.take_batch(HERE).unwrap();
    here.cluster().read_batch(NOW, &mut batch).unwrap();
    batch.position = BatchPosition::default();
    here.cluster().read_batch(NOW, &mut batch).unwrap();
    assert_eq!(here.questions().counters().shard_messages_in, 1);
    here.links.finish_batch(batch);
}

/// A shard reads its clock once a turn: its neighbour's reading may be a later one.
#[test]
fn a_message_stamped_in_the_future_does_not_live_longer() {
    let (mut here, key, mut there) = pair();
    let late = Now { monotonic: NOW.monotonic.plus(8), unix: NOW.unix + 8 };
    let expires_at = late.monotonic.plus_seconds(100);
    let mut message = Publication::new(TenantId(0), "t", QoS::AtLeastOnce, false, &[], expires_at, b"x", 0);
    crate::flows::contexts::publishing!(there).publish_inside(late, &mut message, None);
    here.cluster().handle_batch(NOW, there.take_batch(HERE).unwrap()).unwrap();
    let flow = here.state.sessions.get(key.0).and_then(|session| session.flow.as_ref()).unwrap();
    let kept: Vec<Millis> = flow.queue.iter().map(|delivery| delivery.message.expires_at).collect();
    assert_eq!(kept, [NOW.monotonic.plus_seconds(100)]);
}

#[test]
fn a_message_that_goes_round_in_a_circle_is_stopped() {
    let (mut here, key, mut there) = pair();
    let publication = Publication::new(TenantId(0), "t", QoS::AtLeastOnce, false, &[], Millis::NEVER, b"x", 0);
    for (hops, delivered) in [(HOPS_MAX - 1, 1), (HOPS_MAX, 1)] {
        let envelope = Envelope {
            purpose: DELIVER,
            origin: THERE,
            sequence: 0,
            entered_at: NOW.monotonic,
            priority: 0,
            hops,
            from: None,
            ticket: None,
            publication: publication.clone(),
        };
        there.links.send(HERE, Record::Publish(envelope));
        here.cluster().handle_batch(NOW, there.take_batch(HERE).unwrap()).unwrap();
        assert_eq!(got(&here, key).len(), delivered, "{hops} hops");
    }
}

#[test]
fn another_publication_within_a_turn_has_its_own_share() {
    let (mut here, key, mut there) = with_many_filters();
    here.cluster().begin_matching();
    let mut number = 0;
    while !here.cluster().has_matched_for_a_turn() {
        publish_costly(&mut there, number);
        number += 1;
        drop(here.cluster().handle_batch(NOW, there.take_batch(HERE).unwrap()).unwrap());
    }
    let visited = here.cluster().pause_matching();
    assert!(!here.cluster().has_matched_for_a_turn());
    publish_costly(&mut here, 200);
    here.cluster().resume_matching(visited);
    assert!(here.cluster().has_matched_for_a_turn());
    assert!(got(&here, key).contains(&&[200][..]));
}
