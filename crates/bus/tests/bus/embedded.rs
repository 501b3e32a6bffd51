//! The embedded bus in memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_bus::{Address, Append, Bus, BusError, GroupName, LogSpec, MemberName, NameUse, Settings};

use crate::client::{Client, log, place, until};
use crate::{Deployment, settings};

struct Embedded(Bus);

impl Deployment for Embedded {
    fn bus(&self) -> Bus {
        self.0.clone()
    }

    const LIMITS_LOGS: bool = true;
}

fn in_memory() -> Embedded {
    Embedded(Bus::open(&Address::Embedded, settings(), Arc::new(|_| {})).unwrap())
}

mod memory {
    crate::suite!(a_test_each, super::in_memory());
}

#[test]
fn a_silent_member_loses_its_name_after_a_lease() {
    // So long that the member does not count up during the test.
    let lease = Duration::from_secs(3_600);
    let client = Client(Bus::open(&Address::Embedded, Settings { lease, ..settings() }, Arc::new(|_| {})).unwrap());
    let (group, name) = (GroupName::new("homes").unwrap(), MemberName::new("a").unwrap());
    let (joined, bell) = client.join("homes", "a", 1);
    let mut watch = client.0.watch_name(&group, &name);
    let now = Instant::now();
    until(&bell, "the name", || (watch.look(now).unwrap() == NameUse::Taken).then_some(()));
    assert_eq!(watch.look(now + lease / 2).unwrap(), NameUse::Taken);
    assert_eq!(watch.look(now + lease).unwrap(), NameUse::Silent(joined.incarnation()));
}

#[test]
fn all_logs_together_keep_to_their_limit() {
    let settings = Settings { max_embedded_bytes: 2_000, ..settings() };
    let client = Client(Bus::open(&Address::Embedded, settings, Arc::new(|_| {})).unwrap());
    for name in ["a", "b"] {
        client.create(LogSpec::shared(log(name), 1)).unwrap();
        client.append(&place(name, 0), Append::new(vec![0; 900])).unwrap();
    }
    let full = client.append(&place("a", 0), Append::new(vec![0; 900]));
    assert!(matches!(full, Err(BusError::Full { limit, .. }) if limit == "max_embedded_bytes"));
    client.trim(&place("b", 0), client.bounds(&place("b", 0)).next);
    client.append(&place("a", 0), Append::new(vec![0; 900])).unwrap();
}
