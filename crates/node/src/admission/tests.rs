use super::*;

fn at(ms: u64) -> Now {
    Now { monotonic: Millis(ms), unix: 1_700_000_000_000 + ms }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

const TENANT: TenantId = TenantId::DEFAULT;
const LISTENER: Option<ListenerId> = Some(ListenerId(0));

fn admission(settings: AdmissionSettings) -> Admission {
    Admission::new(at(0), settings, 2)
}

#[test]
fn an_address_has_its_limit_and_the_seat_gives_it_back() {
    let admission = admission(AdmissionSettings { max_connections_per_address: 2, ..AdmissionSettings::default() });
    let (here, there) = (Some(ip("2001:db8::1")), Some(ip("2001:db8::2")));
    let first = admission.admit(at(1), LISTENER, here).unwrap();
    admission.admit(at(1), LISTENER, there).unwrap();
    assert_eq!(admission.admit(at(1), LISTENER, here), Err(Reason::TooManyFromAddress), "a /64 is one subscriber");
    assert!(admission.admit(at(1), LISTENER, Some(ip("2001:db8:0:1::1"))).is_ok());
    assert_eq!(admission.admit(at(1), LISTENER, None), Ok(Seat::NONE), "a Unix socket has no address");
    admission.release(first);
    admission.release(Seat::NONE);
    assert!(admission.admit(at(1), LISTENER, here).is_ok());
}

#[test]
fn exempt_networks_have_no_limit_and_no_automatic_ban() {
    let once = Threshold { count: 1, within_ms: 1000, ban_ms: 1000 };
    let admission = admission(AdmissionSettings {
        max_connections_per_address: 1,
        failed_logins_per_address: once,
        exempt: vec!["127.0.0.0/8".parse().unwrap()],
        ..AdmissionSettings::default()
    });
    let local = Some(ip("127.0.0.1"));
    assert!((0..10).all(|_| admission.admit(at(1), LISTENER, local).is_ok()));
    assert!(admission.note_failed_login(at(1), TENANT, None, local).is_empty());
    let target = BanTarget::Address("127.0.0.1".parse().unwrap());
    let ban = Ban { target, reason: "".into(), origin: BanOrigin::Operator, since: 0, until: Millis::NEVER };
    admission.ban(at(1), ban).unwrap();
    assert_eq!(admission.admit(at(1), LISTENER, local), Err(Reason::Banned), "an operator may ban anybody");
}

#[test]
fn a_refusal_by_address_takes_no_token_of_the_listener() {
    let admission = admission(AdmissionSettings {
        max_connections_per_address: 1,
        listener_rate: Rate { per_second: 2, burst: 2 },
        ..AdmissionSettings::default()
    });
    assert!(admission.admit(at(1000), LISTENER, Some(ip("192.0.2.1"))).is_ok());
    for _ in 0..10 {
        assert_eq!(admission.admit(at(1000), LISTENER, Some(ip("192.0.2.1"))), Err(Reason::TooManyFromAddress));
    }
    assert!(admission.admit(at(1000), LISTENER, Some(ip("192.0.2.2"))).is_ok());
    assert_eq!(admission.admit(at(1000), LISTENER, Some(ip("192.0.2.3"))), Err(Reason::ListenerRateExceeded));
    assert!(admission.admit(at(1000), Some(ListenerId(1)), Some(ip("192.0.2.3"))).is_ok());
    assert!(admission.admit(at(1500), LISTENER, Some(ip("192.0.2.4"))).is_ok());
    let refused = ip("192.0.2.5");
    assert_eq!(admission.admit(at(1500), LISTENER, Some(refused)), Err(Reason::ListenerRateExceeded));
    assert!(admission.admit(at(2000), LISTENER, Some(refused)).is_ok(), "the refused connection was not counted");
}

#[test]
fn a_proxied_connection_is_checked_twice_without_its_proxy() {
    let admission = admission(AdmissionSettings {
        max_connections_per_address: 1,
        listener_rate: Rate { per_second: 3, burst: 3 },
        ..AdmissionSettings::default()
    });
    for number in 1..=3 {
        assert_eq!(admission.admit(at(1000), LISTENER, None), Ok(Seat::NONE));
        let real = Some(ip(&format!("192.0.2.{number}")));
        assert_ne!(admission.admit(at(1000), None, real), Ok(Seat::NONE));
        assert_eq!(admission.admit(at(1000), None, real), Err(Reason::TooManyFromAddress));
    }
    assert_eq!(admission.admit(at(1000), LISTENER, None), Err(Reason::ListenerRateExceeded));
}

#[test]
fn failed_logins_ban_the_address_and_the_user_for_a_while() {
    let five = |count| Threshold { count, within_ms: 60_000, ban_ms: 300_000 };
    let admission = admission(AdmissionSettings {
        failed_logins_per_address: five(5),
        failed_logins_per_user: five(3),
        ..AdmissionSettings::default()
    });
    let address = ip("192.0.2.1");
    let bans: Vec<Vec<Ban>> =
        (1..=5).map(|n| admission.note_failed_login(at(n * 1000), TENANT, Some("root"), Some(address))).collect();
    let kinds: Vec<Vec<&str>> = bans.iter().map(|bans| bans.iter().map(|ban| ban.target.kind()).collect()).collect();
    assert_eq!(kinds, [vec![], vec![], vec!["user"], vec![], vec!["address"]]);
    assert_eq!(&*bans[4][0].reason, "5 failed logins within 60 s");
    assert_eq!(admission.check_client(at(302_999), TENANT, "c", Some("root"), None), Err(Reason::Banned));
    assert_eq!(admission.check_client(at(302_999), TENANT, "c", Some("other"), None), Ok(()));
    assert_eq!(admission.check_client(at(303_000), TENANT, "c", Some("root"), None), Ok(()));
    assert_eq!(admission.admit(at(304_999), LISTENER, Some(address)), Err(Reason::Banned));
    assert!(admission.admit(at(305_000), LISTENER, Some(address)).is_ok());
    assert_eq!(admission.report(at(305_000)).bans, 0);
    assert_eq!(admission.report(at(305_000)).bans_added, [0, 0, 2, 0]);
}

#[test]
fn a_flapping_client_is_banned_and_a_steady_one_is_not() {
    let flapping = Threshold { count: 4, within_ms: 10_000, ban_ms: 20_000 };
    let admission = admission(AdmissionSettings { flapping, ..AdmissionSettings::default() });
    let connects = |name: &str, step: u64| {
        let banned = |n: &u64| admission.note_connect(at(n * step), TENANT, name).is_some();
        (1..=20).find(banned)
    };
    assert_eq!(connects("steady", 4000), None);
    assert_eq!(connects("flapping", 100), Some(4));
    assert_eq!(admission.check_client(at(500), TENANT, "flapping", None, None), Err(Reason::Banned));
    assert_eq!(admission.check_client(at(20_400), TENANT, "flapping", None, None), Ok(()));
}

#[test]
fn overload_refuses_at_accept_only_and_passes() {
    let admission = admission(AdmissionSettings { loop_lag_mark_ms: 1000, ..AdmissionSettings::default() });
    admission.announce_overload(Millis(5000));
    assert_eq!(admission.admit(at(4999), LISTENER, None), Err(Reason::LoopLag));
    assert!(admission.report(at(4999)).overloaded);
    assert!(admission.admit(at(4999), None, Some(ip("192.0.2.1"))).is_ok(), "who was accepted before is let on");
    assert!(admission.admit(at(5000), LISTENER, None).is_ok());
}

#[test]
fn other_settings_hold_from_the_next_connection() {
    let admission = admission(AdmissionSettings::default());
    let address = Some(ip("192.0.2.1"));
    let before = admission.admit(at(1), LISTENER, address).unwrap();
    let banned = vec![BanTarget::Client(TENANT, "c".into())];
    let settings = AdmissionSettings { max_connections_per_address: 1, banned, ..AdmissionSettings::default() };
    admission.reconfigure(at(2), settings);
    assert!(admission.admit(at(2), LISTENER, address).is_ok());
    assert_eq!(admission.admit(at(2), LISTENER, address), Err(Reason::TooManyFromAddress));
    assert_eq!(admission.check_client(at(2), TENANT, "c", None, None), Err(Reason::Banned));
    admission.release(before);
    assert_eq!(admission.admit(at(2), LISTENER, address), Err(Reason::TooManyFromAddress), "it was never counted");
    admission.reconfigure(at(3), AdmissionSettings::default());
    assert_eq!(admission.check_client(at(3), TENANT, "c", None, None), Ok(()));
}

#[test]
fn bans_outlive_the_process_through_their_store() {
    let stored = Arc::new(Mutex::new(Vec::new()));
    let keeper = Arc::clone(&stored);
    let admission = admission(AdmissionSettings::default());
    admission.on_ban_change(move |change| keeper.lock().unwrap().push(change.clone()));
    let target = BanTarget::Address("192.0.2.0/24".parse().unwrap());
    let ban = Ban { target, reason: "why".into(), origin: BanOrigin::Operator, since: 7, until: Millis(90_000) };
    admission.ban(at(1), ban.clone()).unwrap();
    let changes = stored.lock().unwrap().clone();
    let [BanChange::Put { key, value }] = changes.as_slice() else { panic!("{changes:?}") };
    let again = Admission::new(at(1000), AdmissionSettings::default(), 1);
    again.restore_ban(at(1000), key, value).unwrap();
    assert_eq!(again.bans(at(1000)), [ban]);
    assert_eq!(again.admit(at(1000), LISTENER, Some(ip("192.0.2.9"))), Err(Reason::Banned));
}
