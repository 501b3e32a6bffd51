//! The kind of fleet of a run.

use tidegate_engine::{BrokerLinkOptions, Durability, RoutingPolicy, Settings};
use tidegate_mqtt::Version;

use crate::harness::fleet::lasting;
use crate::harness::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Brokers are slow, and never lost.
    Slow,
    /// As [`Kind::Slow`], and brokers are drained and set again, so that topics move. No time passes while brokers are
    /// slow, since order waits for a limited time only.
    Moving,
    /// Brokers die, hang, forget and return.
    Stormy,
    /// The same, and the orchestrator dies too.
    Crashing,
    /// As [`Kind::Crashing`] with brokers of MQTT 3.1.1, whose disks keep acknowledged messages.
    Old,
}

impl Kind {
    /// Whether a topic's messages come in their order.
    pub(super) fn keeps_order(self) -> bool {
        matches!(self, Self::Slow | Self::Moving)
    }

    pub(super) fn loses_brokers(self) -> bool {
        !self.keeps_order()
    }

    pub(super) fn crashes(self) -> bool {
        matches!(self, Self::Crashing | Self::Old)
    }

    /// True if brokers bring ids back, so that lost messages are noticed.
    pub(super) fn brings_back(self) -> bool {
        self != Self::Old
    }
}

pub(super) struct Profile {
    pub kind: Kind,
    pub shards: u16,
    pub brokers: usize,
    pub settings: Settings,
    pub policy: RoutingPolicy,
}

impl Profile {
    pub(super) fn new(kind: Kind, random: &mut Random) -> Self {
        let mut settings = Settings::default();
        let policies = [RoutingPolicy::TopicHash, RoutingPolicy::RoundRobin, RoutingPolicy::LeastLoaded];
        let policy = if kind.keeps_order() { RoutingPolicy::TopicHash } else { random.pick(&policies) };
        fleet_settings(&mut settings, policy);
        let listener = &mut settings.listeners[0];
        listener.receive_maximum = random.pick(&[1, 3, 20, 1000]);
        settings.limits.max_inflight = random.pick(&[2, 10, 1000]);
        settings.limits.output_high_water = random.pick(&[500, 200_000]);
        settings.limits.shard_link_bytes = random.pick(&[300, 3000, 1_000_000]);
        settings.limits.parked_bytes = random.pick(&[1, 500, 100_000]);
        if let Some(broker_links) = &mut settings.broker_links {
            broker_links.window = random.pick(&[Some(1), Some(2), Some(5), None]);
            broker_links.max_owed_messages = random.pick(&[40, 100_000]);
            // A message that returns too late is sent again, and its order is lost.
            let patient = kind.keeps_order();
            broker_links.return_timeout_ms = if patient { minutes(60) } else { random.pick(&[2_000, 10_000]) };
            broker_links.probe_timeout_ms = if patient { minutes(60) } else { 5_000 };
            broker_links.reassign_after_ms = random.pick(&[0, 500, 2_000]);
        }
        if kind.crashes() || random.percent(30) {
            settings.durability = Durability::Commit;
        }
        Self { kind, shards: random.pick(&[1, 2, 3]), brokers: 2 + random.below(3), settings, policy }
    }

    /// How a broker behaves when nothing is wrong with it.
    pub(super) fn ways(&self, random: &mut Random) -> Ways {
        let v5 = self.kind.brings_back();
        Ways {
            copies: v5 && random.percent(40),
            identifies: random.percent(70),
            delivers_first: random.percent(50),
            receive_maximum: random.pick(&[None, Some(1), Some(4)]),
            ..Ways::default()
        }
    }

    pub(super) fn options(&self) -> BrokerLinkOptions {
        let version = if self.kind.brings_back() { Version::V5 } else { Version::V311 };
        BrokerLinkOptions { version: Some(version), ..lasting() }
    }

    /// A broker that has died does not know everything any more.
    pub(super) fn lose_memory(&self, broker: &Broker, random: &mut Random) {
        if !self.kind.brings_back() {
            return;
        }
        let forgets = random.percent(60);
        broker.with(|broker| if forgets { broker.forget_sessions() } else { broker.roll_back() });
    }

    pub(super) fn connecting(device: usize, random: &mut Random) -> Connecting {
        let connecting = match device % 3 {
            0 => v5("").receive_maximum(random.pick(&[1, 2, 10, 60_000])),
            1 => v311(""),
            _ => v5(""),
        };
        let lasting = connecting.clean(false);
        if device % 3 == 1 { lasting } else { lasting.expiry(u32::MAX) }
    }
}
