//! The embedded bus in memory.

use std::sync::Arc;

use tidegate_bus::{Address, Append, Bus, BusError, LogSpec, Settings};

use crate::client::{Client, log, place};
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
