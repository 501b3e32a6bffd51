use tidegate_engine::TenantId;
use tidegate_store::{Running, Settings, SimulatedDisk, Store, keep_all, open};

use super::*;
use crate::admission::{AdmissionSettings, Ban, BanOrigin, BanTarget};

/// Time after which an answer counts as missing; longer than any healthy machine needs.
const PATIENCE: Duration = Duration::from_secs(120);

fn now(seconds: u64) -> Now {
    Now { monotonic: Millis(seconds * 1000), unix: 1_700_000_000_000 + seconds * 1000 }
}

fn client(name: &str) -> BanTarget {
    BanTarget::Client(TenantId::DEFAULT, name.into())
}

fn ban(name: &str, until: Millis) -> Ban {
    Ban { target: client(name), reason: "test".into(), origin: BanOrigin::Operator, since: now(0).unix, until }
}

fn opened(disk: &SimulatedDisk) -> Store {
    let settings = Settings { min_free_bytes: 0, ..Settings::default() };
    open(Arc::new(disk.clone()), settings, keep_all()).unwrap().store
}

/// A list of bans with the content of a store, which follows its changes from now on.
fn followed(disk: &SimulatedDisk, at: u64) -> (Admission, Arc<StoredBans>, Running) {
    let store = opened(disk);
    let (admission, bans) = (Admission::new(now(at), AdmissionSettings::default(), 1), Arc::new(StoredBans::default()));
    bans.follow(&admission);
    store.for_each(&mut |key, value| assert!(restore(&admission, now(at), key, value).unwrap())).unwrap();
    let committed = Arc::clone(&bans);
    let running = store.start(Box::new(move |_: u16, sequence: u64| committed.on_committed(sequence))).unwrap();
    bans.serve(running.writer(7));
    (admission, bans, running)
}

#[test]
fn stored_bans_survive_power_loss_and_ended_ones_are_deleted() {
    let disk = SimulatedDisk::new(1);
    let (admission, bans, running) = followed(&disk, 1);
    for (name, until) in [("a", Millis::NEVER), ("b", Millis(9_000)), ("c", Millis::NEVER)] {
        admission.ban(now(1), ban(name, until)).unwrap();
    }
    admission.unban(now(2), &client("c")).unwrap();
    assert!(bans.wait(PATIENCE));
    disk.lose_power();
    drop(running);
    disk.restart();
    let (admission, bans, running) = followed(&disk, 5);
    let names = |admission: &Admission, at| {
        admission.bans(now(at)).iter().map(|ban| ban.target.name()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&admission, 5), "a b");
    drop((bans, running));
    let (admission, bans, running) = followed(&disk, 60);
    assert_eq!(names(&admission, 60), "a");
    assert!(bans.wait(PATIENCE), "the end of the other one is written");
    drop(running);
    let mut stored = Vec::new();
    opened(&disk).for_each(&mut |key, value| stored.push(describe_stored(key, value))).unwrap();
    let end = "the end of a ban, remembered for other nodes of the cluster";
    assert_eq!(
        stored,
        [Some("ban of client \"a\" for ever, by operator: test"), Some(end)].map(|it| it.map(str::to_owned))
    );
}

#[test]
fn unstored_bans_are_not_confirmed_and_memory_is_bounded() {
    let admission = Admission::new(now(1), AdmissionSettings { max_bans: 1_000_000, ..Default::default() }, 1);
    let bans = Arc::new(StoredBans::default());
    assert!(bans.wait(Duration::ZERO), "nothing has changed");
    bans.follow(&admission);
    let long = "x".repeat(60_000);
    for number in 0..400 {
        admission.ban(now(1), ban(&format!("{long}{number}"), Millis::NEVER)).unwrap();
        admission.ban(now(1), ban("again and again", Millis(10_000 + number))).unwrap();
    }
    assert!(!bans.wait(Duration::ZERO));
    let state = bans.state();
    assert!(state.waiting_bytes <= UNKEPT_BAN_BYTES && state.waiting_bytes > UNKEPT_BAN_BYTES / 2);
    let exact: usize = state.waiting.iter().map(|(key, value)| weight(key, value.as_ref())).sum();
    assert_eq!(state.waiting_bytes, exact);
    assert!(state.lost > 0 && state.waiting.len() < 400);
}

#[test]
fn a_ban_with_the_longest_name_fits_into_the_store() {
    let disk = SimulatedDisk::new(2);
    let (admission, bans, running) = followed(&disk, 1);
    let longest = "x".repeat(crate::MAX_BAN_TEXT);
    admission.ban(now(1), ban(&longest, Millis::NEVER)).unwrap();
    assert!(bans.wait(PATIENCE));
    drop(running);
    let (admission, _, _running) = followed(&disk, 2);
    assert_eq!(admission.bans(now(2)).len(), 1);
}

#[test]
fn an_unreadable_ban_is_an_error_and_other_records_are_kept() {
    let admission = Admission::new(now(1), AdmissionSettings::default(), 1);
    assert_eq!(restore(&admission, now(1), b"\x10session", b""), Ok(false));
    assert_eq!(restore(&admission, now(1), b"", b""), Ok(false));
    assert_eq!(restore(&admission, now(1), b"\x80c\0\0name", b"\x01"), Err(RecordError::Value));
    assert_eq!(restore(&admission, now(1), b"\x80c\0\0name", b"\x02"), Err(RecordError::Version(2)));
    assert_eq!(describe_stored(b"\x80c\0\0name", b"\x02"), None);
    assert_eq!(describe_stored(b"\x10session", b""), None);
}
