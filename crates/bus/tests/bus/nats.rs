//! The bus on a real NATS server, which each test starts for itself.

use std::sync::Arc;
use std::sync::mpsc::channel;

use tidegate_bus::{Address, Bus, Observer, Settings};

use crate::client::PATIENCE;
use crate::{Deployment, Outages, settings};

#[path = "../nats/server.rs"]
mod server;

pub(crate) use server::Nats;

impl Nats {
    /// A bus with this user for the servers: `user:password@`, or nothing.
    fn bus_as(&self, user: &str, settings: Settings, observer: Observer) -> Bus {
        let address: Address = format!("nats://{user}127.0.0.1:{}", self.port).parse().unwrap();
        Bus::open(&address, settings, observer).unwrap()
    }
}

impl Deployment for Nats {
    const LIMITS_LOGS: bool = true;

    fn bus(&self) -> Bus {
        let (connected, wait) = channel();
        let bus = self.bus_with(
            settings(),
            Arc::new(move |connection| {
                let _ = connected.send(connection);
            }),
        );
        // Live messages do not wait for the servers.
        wait.recv_timeout(PATIENCE).expect("a connection");
        bus
    }
}

impl Outages for Nats {
    fn bus_with(&self, settings: Settings, observer: Observer) -> Bus {
        self.bus_as("", settings, observer)
    }

    fn kill(&mut self) {
        Self::kill(self);
    }

    fn resume(&mut self) {
        Self::resume(self);
    }
}

mod reading;
mod servers;
mod several;
mod silent;
mod strangers;
mod wiped;

mod promises {
    crate::suite!(a_test_each, super::Nats::start());
}

mod outages {
    crate::outages!(a_test_each, super::Nats::start());
}
