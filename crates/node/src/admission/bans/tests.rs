use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use tidegate_engine::Now;

use super::*;

fn now(seconds: u64) -> Now {
    Now { monotonic: Millis(seconds * 1000), unix: 1_700_000_000_000 + seconds * 1000 }
}

fn address(network: &str) -> BanTarget {
    BanTarget::Address(network.parse().unwrap())
}

fn client(name: &str) -> BanTarget {
    BanTarget::Client(TenantId::DEFAULT, name.into())
}

fn ban(target: BanTarget, origin: BanOrigin, until: Millis) -> Ban {
    Ban { target, reason: "test".into(), origin, since: now(0).unix, until }
}

fn banned(bans: &mut Bans, at: u64, address: &str) -> bool {
    bans.of_address(now(at), address.parse().unwrap()).is_some()
}

#[test]
fn networks_clients_and_users_are_found_until_the_ban_ends() {
    let mut bans = Bans::new(10);
    bans.add(now(1), ban(address("192.0.2.0/24"), BanOrigin::Operator, Millis(10_000))).unwrap();
    bans.add(now(1), ban(address("2001:db8::/32"), BanOrigin::Operator, Millis::NEVER)).unwrap();
    bans.add(now(1), ban(client("c"), BanOrigin::Flapping, Millis(5_000))).unwrap();
    bans.add(now(1), ban(BanTarget::User(TenantId(3), "u".into()), BanOrigin::FailedLogins, Millis(5_000))).unwrap();
    assert!(banned(&mut bans, 9, "192.0.2.200") && banned(&mut bans, 9, "::ffff:192.0.2.1"));
    assert!(!banned(&mut bans, 9, "192.0.3.1"));
    assert!(!banned(&mut bans, 10, "192.0.2.200"), "the end is no part of it");
    assert!(banned(&mut bans, 1_000_000, "2001:db8:ffff::1") && !banned(&mut bans, 9, "2001:db9::1"));
    let mut bans_again = Bans::new(10);
    bans_again.add(now(1), ban(client("c"), BanOrigin::Flapping, Millis(5_000))).unwrap();
    assert!(bans_again.of_client(now(4), TenantId::DEFAULT, "c").is_some());
    assert!(bans_again.of_client(now(4), TenantId(1), "c").is_none(), "another tenant's client is another");
    assert!(bans_again.of_user(now(4), TenantId::DEFAULT, "c").is_none(), "a client id is no user name");
    assert!(bans_again.of_client(now(5), TenantId::DEFAULT, "c").is_none());
    assert_eq!(bans_again.len(), 0);
}

#[test]
fn only_bans_of_the_broker_itself_make_room() {
    let mut bans = Bans::new(2);
    bans.add(now(1), ban(client("long"), BanOrigin::Flapping, Millis(90_000))).unwrap();
    bans.add(now(1), ban(client("short"), BanOrigin::FailedLogins, Millis(50_000))).unwrap();
    bans.add(now(1), ban(client("a"), BanOrigin::Operator, Millis(60_000))).unwrap();
    let names: Vec<String> = bans.list(now(1)).iter().map(|ban| ban.target.name()).collect();
    assert_eq!(names, ["a", "long"]);
    bans.add(now(1), ban(client("b"), BanOrigin::Operator, Millis::NEVER)).unwrap();
    let full = bans.add(now(1), ban(client("c"), BanOrigin::Operator, Millis::NEVER));
    assert_eq!(full, Err(BanError::Full(2)));
    assert_eq!(bans.add(now(1), ban(client("b"), BanOrigin::Flapping, Millis(2_000))), Ok(()));
    assert!(bans.of_client(now(3), TenantId::DEFAULT, "b").is_some(), "an operator's ban is not made shorter");
}

#[test]
fn bans_of_the_configuration_follow_it_and_nothing_else() {
    let mut bans = Bans::new(1);
    bans.configure(now(1), vec![client("a"), address("192.0.2.0/24")]);
    assert_eq!(bans.remove(now(1), &client("a")), Err(BanError::Configured));
    let again = bans.add(now(1), ban(client("a"), BanOrigin::Operator, Millis::NEVER));
    assert_eq!(again, Err(BanError::Configured));
    bans.configure(now(2), vec![client("b")]);
    assert!(bans.of_client(now(2), TenantId::DEFAULT, "a").is_none() && !banned(&mut bans, 2, "192.0.2.1"));
    assert!(bans.of_client(now(2), TenantId::DEFAULT, "b").is_some());
}

/// A store that follows the changes of a list.
fn stored(bans: &mut Bans) -> Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>> {
    let store = Arc::new(Mutex::new(HashMap::new()));
    let followed = Arc::clone(&store);
    bans.on_change(Box::new(move |change| {
        let mut store = followed.lock().unwrap();
        match change.clone() {
            BanChange::Put { key, value } => drop(store.insert(key, value)),
            BanChange::Delete { key } => assert!(store.remove(&key).is_some(), "only stored bans are deleted"),
        }
    }));
    store
}

fn targets() -> impl Strategy<Value = BanTarget> {
    prop_oneof![
        (any::<u32>(), 30_u8..=32).prop_map(|(bits, prefix)| BanTarget::Address(Network::new(
            std::net::IpAddr::V4((bits % 4).into()),
            prefix
        ))),
        (any::<u128>(), 0_u8..=128)
            .prop_map(|(bits, prefix)| BanTarget::Address(Network::new(std::net::IpAddr::V6(bits.into()), prefix))),
        (0_u16..2, "[ab]{0,2}").prop_map(|(tenant, name)| BanTarget::Client(TenantId(tenant), name.into())),
        (0_u16..2, "[ab]{0,2}").prop_map(|(tenant, name)| BanTarget::User(TenantId(tenant), name.into())),
    ]
}

proptest! {
    /// A broker that restarts with its store has the same bans, in any order of changes.
    #[test]
    fn the_store_equals_the_list(
        steps in prop::collection::vec((targets(), 0_usize..5, 0_u64..20), 1..60), limit in 1_usize..6,
    ) {
        let mut bans = Bans::new(limit);
        let store = stored(&mut bans);
        let mut at = 0;
        for (target, action, length) in steps {
            at += 1;
            let until = if length == 0 { Millis::NEVER } else { now(at + length).monotonic };
            match action {
                0 => drop(bans.remove(now(at), &target)),
                number => drop(bans.add(now(at), ban(target, BanOrigin::ALL[number.min(3)], until))),
            }
            prop_assert!(bans.len() <= limit);
            prop_assert_eq!(bans.prefixes_are_exact(), true);
        }
        let list = bans.list(now(at));
        let mut again = Bans::new(limit);
        for (key, value) in &*store.lock().unwrap() {
            match decode_end(key, value) {
                Some((target, end)) => again.restore_end(key, target, end),
                None => again.restore(now(at), decode(now(at), key, value).unwrap()).unwrap(),
            }
        }
        prop_assert_eq!(again.list(now(at)), list);
        prop_assert_eq!(again.records(now(at)), bans.records(now(at)));
    }

    #[test]
    fn arbitrary_bytes_are_not_read_as_another_record(key in prop::collection::vec(any::<u8>(), 0..24), value in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(ban) = decode(now(5), &key, &value) {
            let (key_again, value_again) = encode(now(5), &ban);
            let again = decode(now(5), &key_again, &value_again).unwrap();
            prop_assert_eq!(again, ban);
        }
    }
}

#[test]
fn a_ban_that_ended_while_the_broker_was_away_is_deleted() {
    let (key, value) = encode(now(1), &ban(client("a"), BanOrigin::Operator, Millis(5_000)));
    let mut bans = Bans::new(4);
    let store = stored(&mut bans);
    store.lock().unwrap().insert(key.clone(), value.clone());
    // The monotonic clock restarts with the process; the wall clock continues.
    let later = Now { monotonic: Millis(1000), unix: now(60).unix };
    bans.restore(later, decode(later, &key, &value).unwrap()).unwrap();
    assert_eq!(bans.len(), 0);
    let kept: Vec<_> = store.lock().unwrap().iter().filter_map(|(key, value)| decode_end(key, value)).collect();
    assert_eq!((store.lock().unwrap().len(), &kept[0].0), (1, &client("a")), "its end holds against older bans");
    assert_eq!(decode(later, &key, &value[..9]), Err(RecordError::Value));
    assert_eq!(decode(later, b"x", &value), Err(RecordError::Key));
    assert_eq!(decode(later, &key, &[3, 0]), Err(RecordError::Version(3)));
}

#[test]
fn a_clock_that_was_set_back_makes_no_ban_longer() {
    let before = ban(client("c"), BanOrigin::Operator, Millis(100_000));
    let (key, value) = record::encode(now(10), &before);
    let set_back = Now { monotonic: Millis(5_000), unix: now(10).unix - 86_400_000 };
    assert_eq!(record::decode(set_back, &key, &value).unwrap().until, Millis(5_000 + 100_000));
    let for_ever = ban(client("c"), BanOrigin::Operator, Millis::NEVER);
    let (key, value) = record::encode(now(10), &for_ever);
    assert_eq!(record::decode(set_back, &key, &value).unwrap().until, Millis::NEVER);
}
