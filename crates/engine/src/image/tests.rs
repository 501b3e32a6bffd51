use std::num::NonZeroU32;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate_mqtt::{
    Connect, ConnectProperties, Packet, PacketId, PubRec, Publish, PublishProperties, QoS, ReasonCode, Subscribe,
    SubscriptionOptions, Subscriptions, TopicFilter, TopicName, UserProperties, Version, Will, WillProperties,
};

use super::*;
use crate::link::exchange_word::ExchangeName;
use crate::link::got::Got;
use crate::{
    ConnectionKey, Engine, Event, Gauges, ListenerId, Millis, Now, PARTITIONS, PartitionId, Partitions, Settings,
    ShardId, ShardPosition, TenantId, partition_of,
};

const NOW: Now = Now { monotonic: Millis(5_000_000), unix: 1_700_000_000_000 };

fn engine() -> Engine {
    Engine::new(Arc::new(Settings::default()), ShardPosition::ALONE, 1, NOW)
}

/// A name of the partition that all of these tests are about.
fn name(stem: &str) -> String {
    let names = (0..).map(|number| format!("{stem}{number}"));
    names.into_iter().find(|name| partition_of(TenantId::DEFAULT, name) == home()).unwrap()
}

fn home() -> PartitionId {
    partition_of(TenantId::DEFAULT, "subscriber")
}

/// A connection that speaks MQTT 5.
struct Peer {
    key: ConnectionKey,
}

impl Peer {
    fn connect(engine: &mut Engine, client_id: &str, will: Option<&str>) -> Self {
        let key = engine.open_connection(NOW, ListenerId(0)).unwrap();
        let will = will.map(|topic| Will {
            topic: TopicName::new(topic).unwrap(),
            payload: b"gone",
            qos: QoS::AtLeastOnce,
            retain: true,
            properties: WillProperties { delay_interval: Some(60), ..WillProperties::default() },
        });
        let connect = Connect {
            version: Version::V5,
            bridge: false,
            clean_start: false,
            keep_alive: 0,
            client_id,
            will,
            username: None,
            password: None,
            properties: ConnectProperties { session_expiry_interval: Some(3600), ..ConnectProperties::default() },
        };
        let mut bytes = Vec::new();
        connect.encode(&mut bytes).unwrap();
        engine.handle_input(NOW, key, &bytes);
        Self { key }
    }

    fn send(&self, engine: &mut Engine, packet: &Packet<'_>) {
        let mut bytes = Vec::new();
        packet.encode(Version::V5, &mut bytes).unwrap();
        engine.handle_input(NOW, self.key, &bytes);
    }

    fn subscribe(&self, engine: &mut Engine, filters: &[&str]) {
        let with = |text| (TopicFilter::new(text).unwrap(), SubscriptionOptions::new(QoS::ExactlyOnce));
        let filters: Vec<_> = filters.iter().map(|text| with(*text)).collect();
        self.send(
            engine,
            &Packet::Subscribe(Subscribe {
                packet_id: PacketId::MIN,
                subscription_identifier: Some(7),
                user_properties: UserProperties::EMPTY,
                subscriptions: Subscriptions::new(&filters),
            }),
        );
    }

    fn publish(&self, engine: &mut Engine, topic: &str, id: u16, qos: QoS, retain: bool) {
        self.send(
            engine,
            &Packet::Publish(Publish {
                dup: false,
                qos,
                retain,
                topic: Some(TopicName::new(topic).unwrap()),
                packet_id: PacketId::new(id),
                properties: PublishProperties {
                    message_expiry: NonZeroU32::new(u32::from(id)).map(NonZeroU32::get),
                    content_type: Some("text/plain"),
                    user_properties: UserProperties::new(&[("name", "value")]),
                    ..PublishProperties::default()
                },
                payload: b"payload",
            }),
        );
    }
}

/// An engine that owes something of each kind, and the image of the partition.
fn owing() -> (Engine, PartitionId) {
    let mut engine = engine();
    let subscriber = Peer::connect(&mut engine, "subscriber", Some("wills/1"));
    subscriber.subscribe(&mut engine, &["t/#", "$share/group/t/shared"]);
    let publisher = Peer::connect(&mut engine, &name("publisher"), None);
    let publish = |engine: &mut Engine, id: u16, qos| publisher.publish(engine, "t/1", id, qos, false);
    publish(&mut engine, 101, QoS::AtLeastOnce);
    publish(&mut engine, 102, QoS::ExactlyOnce);
    publish(&mut engine, 103, QoS::ExactlyOnce);
    let received = PubRec::new(PacketId::new(2).unwrap(), ReasonCode::Success);
    subscriber.send(&mut engine, &Packet::PubRec(received));
    publisher.publish(&mut engine, "t/shared", 104, QoS::AtLeastOnce, false);
    engine.handle_transport_closed(NOW, subscriber.key);
    publish(&mut engine, 105, QoS::AtLeastOnce);
    publish(&mut engine, 106, QoS::ExactlyOnce);
    publisher.publish(&mut engine, &name("kept/"), 107, QoS::AtLeastOnce, true);
    drain(&mut engine);
    (engine, home())
}

/// Carries out the engine's requests, as far as they matter here.
fn drain(engine: &mut Engine) {
    while let Some(event) = engine.poll_event() {
        if let Event::Close { key, .. } = event {
            engine.release_connection(key);
        }
    }
    while engine.outputs().pop_dirty().is_some() {}
}

/// The image of a partition, which leaves its engine.
fn export(engine: &mut Engine, partition: PartitionId) -> Vec<u8> {
    let [PartitionImage { image, .. }] = snapshot(engine, partition).try_into().unwrap();
    let partitions = Partitions::of(partition);
    engine.moves().forget_partitions(NOW, partitions);
    engine.moves().forget_retained(NOW, partitions);
    engine.moves().release_partitions(NOW, partitions);
    drain(engine);
    image
}

/// Whether the engine is empty.
fn is_untouched(engine: &Engine) -> bool {
    let nothing = engine.questions().gauges() == Gauges::default() && engine.next_deadline() == Millis::NEVER;
    nothing && (0..PARTITIONS).all(|partition| engine.questions().owed(PartitionId(partition)) == Owed::default())
}

/// An image with other content, sealed as if it were so.
fn reseal(content: &[u8]) -> Vec<u8> {
    let mut image = begin();
    image.extend_from_slice(content);
    seal(image)
}

#[test]
fn a_move_keeps_the_counts_of_its_partition() {
    let (mut engine, partition) = owing();
    let owed = engine.questions().owed(partition);
    let expected = Owed {
        sessions: 2,
        subscriptions: 2,
        fetches: 0,
        queued: 2,
        await_pub_ack: 3,
        await_pub_rec: 1,
        await_pub_comp: 1,
        await_pub_rel: 3,
        wills: 1,
        retained: 1,
    };
    assert_eq!(owed, expected);
    let image = export(&mut engine, partition);
    assert_eq!(engine.questions().owed(partition), Owed::default());
    assert_eq!(engine.questions().gauges(), Gauges::default(), "nothing is left behind");
    let mut other = self::engine();
    assert_eq!(other.moves().import_image(NOW, &image, Partitions::ALL), Ok(partition));
    assert_eq!(other.questions().owed(partition), owed);
    assert_eq!(other.questions().counters().dropped_total() + engine.questions().counters().dropped_total(), 0);
}

#[test]
fn an_image_with_any_byte_changed_is_refused() {
    let (mut owing, partition) = owing();
    let image = export(&mut owing, partition);
    let mut engine = engine();
    for at in 0..image.len() {
        for change in [1, 0x80, 0xff] {
            let mut changed = image.clone();
            changed[at] ^= change;
            let refused = engine.moves().import_image(NOW, &changed, Partitions::ALL).unwrap_err();
            let wanted = if at == 0 { ImageError::Version(IMAGE_VERSION ^ change) } else { ImageError::Damaged };
            assert_eq!(refused, wanted);
        }
    }
    assert!(is_untouched(&engine));
}

#[test]
fn an_image_that_ends_early_or_late_is_refused() {
    let (mut owing, partition) = owing();
    let image = export(&mut owing, partition);
    let mut engine = engine();
    for len in 0..image.len() {
        assert!(engine.moves().import_image(NOW, &image[..len], Partitions::ALL).is_err(), "{len} bytes");
        let content = image.get(SEAL_LEN..len).unwrap_or_default();
        assert!(engine.moves().import_image(NOW, &reseal(content), Partitions::ALL).is_err(), "{len} bytes, sealed");
    }
    let mut longer = image[SEAL_LEN..].to_vec();
    // One byte is no list of groups, and nothing comes behind an empty one.
    for (more, reading) in [(&[0][..], "a number of groups"), (&[0; 4], "the end of the image")] {
        longer.extend_from_slice(more);
        let error = engine.moves().import_image(NOW, &reseal(&longer), Partitions::ALL).unwrap_err();
        assert_eq!(error, ImageError::Malformed(crate::WireError { reading }));
    }
    assert!(is_untouched(&engine));
}

#[test]
fn an_image_of_another_version_or_home_is_refused() {
    let (mut owing, partition) = owing();
    let image = export(&mut owing, partition);
    let place = ShardPosition { shard: ShardId((partition.0 + 1) % 2), shards: 2 };
    let mut engine = Engine::new(Arc::new(Settings::default()), place, 1, NOW);
    assert_eq!(engine.moves().import_image(NOW, &image, Partitions::ALL), Err(ImageError::NotAtHome(partition)));
    let beyond = PartitionId(PARTITIONS);
    let mut content = image[SEAL_LEN..].to_vec();
    content[..2].copy_from_slice(&PARTITIONS.to_le_bytes());
    assert_eq!(
        engine.moves().import_image(NOW, &reseal(&content), Partitions::ALL),
        Err(ImageError::NotAtHome(beyond))
    );
    assert!(is_untouched(&engine));
}

#[test]
fn a_present_or_repeated_session_refuses_the_image() {
    let mut alone = engine();
    let peer = Peer::connect(&mut alone, "subscriber", None);
    alone.handle_transport_closed(NOW, peer.key);
    drain(&mut alone);
    let image = export(&mut alone, home());
    // The partition, and numbers of exchanges and sessions before; behind: numbers of retained messages, of messages
    // that groups keep and were dealt, of outgoing messages, and of removed values.
    let session = &image[SEAL_LEN + 10..image.len() - 20];
    let twice = [&home().0.to_le_bytes()[..], &[0; 4], &2_u32.to_le_bytes(), session, session, &[0; 20]].concat();
    let mut engine = engine();
    let error = engine.moves().import_image(NOW, &reseal(&twice), Partitions::ALL).unwrap_err();
    assert_eq!(error, ImageError::Malformed(crate::WireError { reading: "a client id of this partition" }));
    assert!(is_untouched(&engine));
    engine.moves().import_image(NOW, &image, Partitions::ALL).unwrap();
    let owed = engine.questions().owed(home());
    assert_eq!(
        engine.moves().import_image(NOW, &image, Partitions::ALL),
        Err(ImageError::SessionExists("subscriber".into()))
    );
    assert_eq!(engine.questions().owed(home()), owed);
}

#[test]
fn a_name_is_in_one_image_for_all_partitions_of_a_move() {
    const NAMES: u64 = 1_000;
    let moved: Partitions = (0..128).map(PartitionId).collect();
    let by = Got { sessions: moved, groups: moved };
    let mut old = engine();
    for number in 0..NAMES {
        let Engine { state, place, .. } = &mut old;
        state.exchanges.put_mark(*place, &mut state.journal, ExchangeName { origin: 7, number }, by);
    }
    old.moves().hold_partitions(NOW, moved, None);
    let Ok(Snapshot::Taken(images)) = old.moves().snapshot_partitions(NOW, moved, u64::MAX) else { unreachable!() };
    let bytes = |images: &[PartitionImage]| images.iter().map(|image| image.image.len()).sum::<usize>();
    let mut none = engine();
    none.moves().hold_partitions(NOW, moved, None);
    let Ok(Snapshot::Taken(empty)) = none.moves().snapshot_partitions(NOW, moved, u64::MAX) else { unreachable!() };
    assert_eq!(bytes(&empty), 128 * 39);
    // Two sets of one series each, and a number of names.
    assert_eq!(bytes(&images) - bytes(&empty), 16 * NAMES as usize + 2 * 7 + 4);
    for shard in 0..2 {
        let place = ShardPosition { shard: ShardId(shard), shards: 2 };
        let mut new = Engine::new(Arc::new(Settings::default()), place, 1, NOW);
        new.moves().arrive(NOW, &images).unwrap();
        let own = by.among(place.own(moved));
        assert!(!own.is_empty());
        assert!((0..NAMES).all(|number| new.state.exchanges.marks.get(ExchangeName { origin: 7, number }) == own));
    }
}

#[test]
fn a_retained_message_that_came_since_is_newer() {
    let (mut owing, partition) = owing();
    let image = export(&mut owing, partition);
    let mut engine = engine();
    let publisher = Peer::connect(&mut engine, "someone", None);
    publisher.publish(&mut engine, &name("kept/"), 9, QoS::AtLeastOnce, true);
    let deadline = engine.retaining.store.values.next_expiry();
    engine.moves().import_image(NOW, &image, Partitions::ALL).unwrap();
    assert_eq!(
        (engine.questions().owed(partition).retained, engine.retaining.store.values.next_expiry()),
        (1, deadline)
    );
}

/// The images of a partition, which stays in its engine.
fn snapshot(engine: &mut Engine, partition: PartitionId) -> Vec<PartitionImage> {
    let partitions = [partition].into_iter().collect();
    engine.moves().hold_partitions(NOW, partitions, None);
    let Ok(Snapshot::Taken(images)) = engine.moves().snapshot_partitions(NOW, partitions, u64::MAX) else {
        panic!("all of it is in memory");
    };
    drain(engine);
    images
}

#[test]
fn a_copy_is_kept_until_it_is_forgotten_and_may_arrive_again() {
    let (mut old, partition) = owing();
    let images = snapshot(&mut old, partition);
    let owed = Owed { retained: 0, ..images[0].owed };
    assert_eq!(Owed { retained: 0, ..old.questions().owed(partition) }, owed, "nothing is forgotten");
    let mut new = engine();
    for given_up in [0, 2] {
        let (arrived, stale) = new.moves().arrive(NOW, &images).unwrap();
        assert_eq!((Owed { retained: 0, ..arrived[0].1 }, stale.sessions), (owed, given_up));
    }
    let partitions = [partition].into_iter().collect();
    assert_eq!(old.moves().forget_partitions(NOW, partitions), owed);
    assert_eq!(old.questions().owed(partition).sessions, 0);
    assert_eq!(old.questions().owed(partition).retained, 1, "retained messages are copied");
    let too_large = new.moves().snapshot_partitions(NOW, partitions, 0);
    assert!(matches!(too_large, Err(ImageError::TooLarge { .. })), "{too_large:?}");
}

#[test]
fn clients_of_a_held_partition_are_refused() {
    let (mut engine, partition) = owing();
    let _ = snapshot(&mut engine, partition);
    let refused =
        |engine: &Engine| engine.questions().counters().connects_refused[crate::Reason::NotServedHere.number()];
    Peer::connect(&mut engine, "subscriber", None);
    assert_eq!(refused(&engine), 1);
    engine.moves().release_partitions(NOW, [partition].into_iter().collect());
    Peer::connect(&mut engine, "subscriber", None);
    assert_eq!(refused(&engine), 1);
}

#[test]
fn an_arrived_partition_is_stored_completely() {
    let (mut old, partition) = owing();
    let images = snapshot(&mut old, partition);
    let settings = || Arc::new(Settings { durability: crate::Durability::Commit, ..Settings::default() });
    let mut new = Engine::new(settings(), ShardPosition::ALONE, 1, NOW);
    let (arrived, _) = new.moves().arrive(NOW, &images).unwrap();
    assert!(new.moves().written_batch().is_some());
    let mut pairs = std::collections::BTreeMap::new();
    let operations = new.store().take_journal().unwrap().operations;
    let mut rest = &operations[..];
    while let Some((kind, behind)) = rest.split_first() {
        let length = usize::from(u16::from_le_bytes([behind[0], behind[1]]));
        let (key, behind) = behind[2..].split_at(length);
        if *kind == 2 {
            pairs.remove(key);
            rest = behind;
            continue;
        }
        let length = u32::from_le_bytes(behind[..4].try_into().unwrap()) as usize;
        let (value, behind) = behind[4..].split_at(length);
        pairs.insert(key, value);
        rest = behind;
    }
    let mut restarted = Engine::new(settings(), ShardPosition::ALONE, 2, NOW);
    for (key, value) in pairs {
        restarted.store().restore(NOW, key, value).unwrap();
    }
    restarted.store().finish_restore(NOW).unwrap();
    assert_eq!(restarted.questions().owed(partition), arrived[0].1);
}

#[test]
fn a_client_at_home_elsewhere_leaves_with_all_that_it_has_sent() {
    let mut engine = engine();
    let homes = [crate::Home::At(0); PARTITIONS as usize];
    let table = crate::Homes {
        homes,
        references: vec![String::new()],
        redirect: false,
        lease_until: Millis::NEVER,
        patience_ms: 0,
    };
    engine.homes().set_homes(NOW, Some(table));
    let peer = Peer::connect(&mut engine, "subscriber", None);
    peer.publish(&mut engine, "t", 1, QoS::AtLeastOnce, false);
    let events: Vec<Event> = std::iter::from_fn(|| engine.poll_event()).collect();
    assert!(events.contains(&Event::Relay { key: peer.key, place: 0 }), "{events:?}");
    let bytes = engine.homes().leave_for_home(peer.key).unwrap();
    assert_eq!(bytes[0], 0x10);
    assert!(bytes.windows(7).any(|part| part == b"payload"), "bytes behind the CONNECT go along");
    assert_eq!((engine.questions().gauges(), engine.homes().leave_for_home(peer.key)), (Gauges::default(), None));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    /// The checksum hides the damage behind it, so this test computes a valid one.
    #[test]
    fn no_forged_image_makes_an_unsound_state(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in proptest::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        thread_local!(static IMAGE: Vec<u8> = { let (mut engine, partition) = owing(); export(&mut engine, partition) });
        let mut content = IMAGE.with(|image| image[SEAL_LEN..].to_vec());
        for (at, change) in changes {
            let at = at.index(content.len());
            content[at] ^= change;
        }
        if let Some(cut) = cut {
            content.truncate(cut.index(content.len()));
        }
        let mut engine = engine();
        let Ok(partition) = engine.moves().import_image(NOW, &reseal(&content), Partitions::ALL) else {
            prop_assert!(is_untouched(&engine));
            return Ok(());
        };
        let owed = engine.questions().owed(partition);
        let image = export(&mut engine, partition);
        prop_assert_eq!(engine.questions().gauges(), Gauges::default());
        let mut other = self::engine();
        prop_assert_eq!(other.moves().import_image(NOW, &image, Partitions::ALL), Ok(partition));
        let moved = other.questions().owed(partition);
        prop_assert_eq!(Owed { retained: 0, ..moved }, Owed { retained: 0, ..owed });
        // A value that has expired does not move.
        prop_assert!(moved.retained <= owed.retained);
        let key = other.open_connection(NOW, ListenerId(0)).unwrap();
        other.release_connection(key);
        let _ = Peer::connect(&mut other, "subscriber", None);
        let end = Now { monotonic: NOW.monotonic.plus(u64::MAX / 4), unix: NOW.unix + u64::MAX / 4 };
        while other.next_deadline() <= end.monotonic {
            other.handle_timers(end);
        }
    }
}
