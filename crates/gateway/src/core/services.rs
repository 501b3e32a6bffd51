//! The services of a process, as seen from outside: whether all of them work, and the obstacle.

use std::sync::Arc;

use tidegate_administration::Part;
use tidegate_bus::Bus;
use tidegate_console::Status;
use tidegate_context::service::{CoreCounters, Stage, Watch};

/// The services of a process, and their bus.
pub struct Services {
    bus: Bus,
    address: String,
    watches: Vec<Watch>,
    counters: Arc<CoreCounters>,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Services")
            .field("address", &self.address)
            .field("watches", &self.watches)
            .finish_non_exhaustive()
    }
}

/// The reason for which services do not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// In words for people.
    pub cause: String,
    /// Whether it may pass without anybody changing something.
    pub passes: bool,
}

impl Services {
    pub(super) fn new(bus: Bus, address: String, watches: Vec<Watch>, counters: Arc<CoreCounters>) -> Self {
        Self { bus, address, watches, counters }
    }

    /// Whether the bus can be reached.
    pub fn reach_bus(&self) -> bool {
        self.bus.connection().is_connected()
    }

    /// The names of the services.
    pub fn names(&self) -> String {
        self.watches.iter().map(Watch::service).collect::<Vec<_>>().join(",")
    }

    /// The reason for which some of them do not work; `None` when all work, or stand by for others.
    pub fn lack(&self) -> Option<Lack> {
        let mut waiting = Vec::new();
        for watch in &self.watches {
            if let Stage::Begins(block_reason) = watch.stage() {
                waiting.push((watch.service(), block_reason));
            }
        }
        let lasting = waiting
            .iter()
            .find_map(|(_, block_reason)| block_reason.as_ref().filter(|block_reason| !block_reason.passes));
        if let Some(block_reason) = lasting {
            let cause = format!("the bus {} cannot be used: {}", self.address, block_reason.why);
            return Some(Lack { cause, passes: false });
        }
        let names = waiting.iter().map(|(service, _)| *service).collect::<Vec<_>>().join(", ");
        let said = waiting.iter().find_map(|(_, block_reason)| block_reason.as_ref());
        let why = match (self.reach_bus(), self.bus.failure(), said) {
            _ if waiting.is_empty() => return None,
            (false, Some(failure), _) => format!(": {failure}"),
            (false, None, _) => String::new(),
            (true, _, Some(said)) => format!(", which is there: {}", said.why),
            (true, _, None) => {
                ", which is there: they have yet to find their logs and their share of the work".to_owned()
            }
        };
        Some(Lack { cause: format!("{names} wait for the bus {}{why}", self.address), passes: true })
    }
}

impl Part for Services {
    fn block_reason(&self) -> Option<String> {
        self.lack().map(|lack| lack.cause)
    }

    fn add_to(&self, status: &mut Status) {
        status.core = Some(self.counters.figures());
    }
}
