//! The embedded bus, in memory and in a directory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_bus::{Address, Append, Bus, BusError, Keep, LogSpec, Settings, Writers};

use crate::client::{Client, log, place, text};
use crate::{Deployment, settings};

struct Embedded {
    bus: Bus,
    directory: Option<PathBuf>,
}

impl Deployment for Embedded {
    fn bus(&self) -> Bus {
        self.bus.clone()
    }

    const LIMITS_LOGS: bool = true;
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

fn new_directory() -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("tidegate-bus-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    directory
}

fn open(directory: Option<PathBuf>) -> Result<Bus, BusError> {
    Bus::open(&Address::Embedded, Settings { directory, ..settings() }, Arc::new(|_| {}))
}

fn in_memory() -> Embedded {
    Embedded { bus: open(None).unwrap(), directory: None }
}

fn durable() -> Embedded {
    let directory = Some(new_directory());
    Embedded { bus: open(directory.clone()).unwrap(), directory }
}

mod memory {
    crate::suite!(a_test_each, super::in_memory());
}

mod directory {
    crate::suite!(a_test_each, super::durable());
}

#[test]
fn what_was_confirmed_is_there_when_the_directory_is_opened_again() {
    let mut deployment = durable();
    let (state, keyed) = (place("state", 1), place("keyed", 0));
    let replaced = {
        let client = Client(deployment.bus.clone());
        client.create(LogSpec::fenced(log("state"), 2)).unwrap();
        client.create(LogSpec::shared(log("keyed"), 1).latest_of_key()).unwrap();
        let replaced = client.own(&state);
        let owner = client.own(&state);
        for number in 0..10 {
            client.append(&state, Append::new(number.to_string()).by(owner)).unwrap();
            client.append(&keyed, Append::new(number.to_string()).with_key("k")).unwrap();
        }
        let below = client.all(&state)[5].position;
        client.trim(&state, below);
        replaced
    };
    assert!(
        matches!(open(deployment.directory.clone()), Err(BusError::Directory(reason)) if reason.contains("another"))
    );
    deployment.bus = open(None).unwrap();
    deployment.bus = open(deployment.directory.clone()).unwrap();
    let client = Client(deployment.bus.clone());
    client.create(LogSpec::fenced(log("state"), 2)).unwrap();
    client.create(LogSpec::shared(log("keyed"), 1).latest_of_key()).unwrap();
    assert_eq!(client.payloads(&state), ["5", "6", "7", "8", "9"]);
    assert_eq!(client.payloads(&keyed), ["9"]);
    let refused = client.append(&state, Append::new("late").by(replaced));
    assert!(matches!(refused, Err(BusError::Fenced { .. })), "{refused:?}");
    let spec = LogSpec { writers: Writers::Many, keep: Keep::All, ..LogSpec::fenced(log("state"), 2) };
    deployment.bus = open(None).unwrap();
    drop(client);
    deployment.bus = open(deployment.directory.clone()).unwrap();
    let other = Client(deployment.bus.clone()).create(spec);
    assert!(matches!(other, Err(BusError::Mismatch { .. })), "{other:?}");
}

#[test]
fn a_file_is_written_anew_when_little_of_it_is_kept() {
    let mut deployment = durable();
    let (keyed, payload) = (place("keyed", 0), "x".repeat(100_000));
    let client = Client(deployment.bus.clone());
    client.create(LogSpec::shared(log("keyed"), 1).latest_of_key()).unwrap();
    for number in 0..100 {
        client.append(&keyed, Append::new(format!("{number}{payload}")).with_key("k")).unwrap();
    }
    let file = deployment.directory.as_ref().unwrap().join("keyed.log");
    let length = std::fs::metadata(&file).unwrap().len();
    assert!(length < 6 << 20, "{length} bytes of 10,000,000");
    drop(client);
    deployment.bus = open(None).unwrap();
    deployment.bus = open(deployment.directory.clone()).unwrap();
    let client = Client(deployment.bus.clone());
    client.create(LogSpec::shared(log("keyed"), 1).latest_of_key()).unwrap();
    let all = client.all(&keyed);
    assert_eq!((all.len(), text(&all[0]) == format!("99{payload}")), (1, true));
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
