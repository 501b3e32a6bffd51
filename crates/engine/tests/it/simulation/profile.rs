//! What kind of clients and limits a run has.

use tidegate_engine::{Durability, OverflowPolicy, Settings, SharedStrategy};
use tidegate_mqtt::QoS;

use crate::harness::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Everything at once: what can be promised of it is that nothing is lost, invented or repeated.
    Mixed,
    /// QoS 2 only and subscriptions that stay, under tight limits: every single message can be accounted for.
    Exact,
    /// As [`Kind::Mixed`], with a store that promises, and processes that die.
    Crashing,
    /// As [`Kind::Exact`] with limits that drop nothing, a store that promises, and processes that die: every message
    /// has to be there.
    Lasting,
    /// As [`Kind::Exact`] with limits that drop nothing, in a cluster whose partitions move from node to node: every
    /// message has to be there, once.
    Moving,
    /// As [`Kind::Mixed`], in such a cluster.
    MovingMixed,
    /// As [`Kind::Exact`] with limits that drop nothing, in a cluster whose nodes die with a store that others go on
    /// with: every message has to be there, once.
    Falling,
    /// As [`Kind::Mixed`], in such a cluster.
    FallingMixed,
    /// As [`Kind::Falling`], while partitions move from node to node as well.
    MovingFalling,
    /// As [`Kind::Mixed`], in such a cluster.
    MovingFallingMixed,
    /// As [`Kind::Moving`], with messages of QoS 1 and 2 to shared groups that members join and leave: each group takes
    /// each of them, one of QoS 2 once.
    MovingGroups,
    /// The same in a cluster like that of [`Kind::Falling`].
    FallingGroups,
    /// The same in one like that of [`Kind::MovingFalling`].
    MovingFallingGroups,
}

impl Kind {
    /// True if all messages outside groups are QoS 2, and subscriptions of the first clients stay.
    pub(super) fn is_exact(self) -> bool {
        matches!(self, Self::Exact | Self::Lasting | Self::Moving | Self::Falling | Self::MovingFalling) || self.deals()
    }

    /// Whether it is about groups whose members come and go.
    pub(super) fn deals(self) -> bool {
        matches!(self, Self::MovingGroups | Self::FallingGroups | Self::MovingFallingGroups)
    }

    /// Whether partitions move.
    pub(super) fn moves(self) -> bool {
        let falls_too = matches!(self, Self::MovingFalling | Self::MovingFallingMixed | Self::MovingFallingGroups);
        falls_too || matches!(self, Self::Moving | Self::MovingMixed | Self::MovingGroups)
    }

    /// Whether nodes die and others take their place.
    pub(super) fn falls(self) -> bool {
        let moves_too = matches!(self, Self::MovingFalling | Self::MovingFallingMixed | Self::MovingFallingGroups);
        moves_too || matches!(self, Self::Falling | Self::FallingMixed | Self::FallingGroups)
    }

    /// Whether processes die.
    pub(super) fn crashes(self) -> bool {
        matches!(self, Self::Crashing | Self::Lasting)
    }
}

pub(super) struct Profile {
    pub kind: Kind,
    /// Nodes of the cluster, each with its number of shards; 1 for none.
    pub nodes: u16,
    pub shards: u16,
    pub causal: bool,
    pub devices: usize,
    pub settings: Settings,
    /// Whether limits are so tight that messages are dropped.
    pub tight: bool,
}

/// A message to be published.
pub(super) struct Draft {
    pub topic: &'static str,
    pub qos: QoS,
    pub retain: bool,
}

const TOPICS: [&str; 5] = ["t/1", "t/2", "t/2/x", "u", "$w/1"];
const SHARED_TOPICS: [&str; 2] = ["s/1", "s/2"];
const FILTERS: [&str; 8] = ["t/1", "t/2", "t/#", "t/+", "u", "+", "t/+/x", "$w/#"];
const SHARED_FILTERS: [&str; 3] = ["$share/g/s/#", "$share/h/s/+", "$share/h/s/1"];

impl Profile {
    pub(super) fn new(kind: Kind, random: &mut Random) -> Self {
        let mut settings = Settings::default();
        let tight =
            kind == Kind::Exact || (random.percent(50) && kind != Kind::Lasting && !kind.moves() && !kind.falls());
        let listener = &mut settings.listeners[0];
        listener.receive_maximum = random.pick(&[1, 3, 20, 1000]);
        listener.topic_alias_maximum_out = random.pick(&[0, 2, 16]);
        settings.limits.max_inflight = random.pick(&[1, 2, 10, 1000]);
        settings.limits.output_high_water = random.pick(&[100, 2000, 200_000]);
        settings.limits.shard_link_bytes = random.pick(&[200, 3000, 1_000_000]);
        settings.limits.parked_bytes = random.pick(&[1, 500, 100_000]);
        settings.limits.block_timeout_ms = random.pick(&[500, 5000, 30_000]);
        settings.limits.lag_exempt_bytes = random.pick(&[0, 1000, 16_384]);
        settings.retained.step = random.pick(&[1, 3, 500]);
        settings.shared.strategy = random.pick(&[
            SharedStrategy::RoundRobin,
            SharedStrategy::Sticky,
            SharedStrategy::HashClient,
            SharedStrategy::HashTopic,
        ]);
        settings.queue.keep_qos0_offline = random.percent(50);
        if tight {
            settings.queue.max_messages = random.pick(&[0, 1, 4, 20]);
            settings.queue.max_bytes = random.pick(&[1500, 20_000, 10_000_000]);
            settings.queue.overflow = random.pick(&[
                OverflowPolicy::DropNewest,
                OverflowPolicy::DropOldest,
                OverflowPolicy::Disconnect,
                OverflowPolicy::Block,
            ]);
        }
        if !kind.is_exact() && settings.queue.overflow == OverflowPolicy::Disconnect {
            // A client whose own QoS 1 messages fill its own queue is disconnected, sends them again, and so on for
            // ever.
            settings.queue.overflow = OverflowPolicy::DropOldest;
        }
        let shards = random.pick(&[1, 2, 3, 3, 4]);
        if kind.crashes() {
            settings.durability = Durability::Commit;
            if tight && random.percent(30) {
                settings.queue.overflow = OverflowPolicy::KeepLast;
            }
            settings.queue.memory_bytes = random.pick(&[0, 300, 1_000_000]);
        }
        if kind.falls() {
            settings.durability = Durability::Commit;
        }
        let causal = random.percent(50);
        let nodes = if kind.crashes() { 1 } else { random.pick(&[1, 1, 2, 3]) };
        let nodes = if kind.moves() { random.pick(&[2, 3]) } else { nodes };
        let nodes = if kind.falls() { 3 } else { nodes };
        let shards = if nodes > 1 { random.pick(&[1, 1, 2]) } else { shards };
        let devices = if kind.deals() { 8 } else { 6 };
        if kind.moves() {
            // Queues with an end in the store alone move as well.
            settings.durability =
                if kind.falls() { Durability::Commit } else { random.pick(&[Durability::Commit, settings.durability]) };
            settings.queue.memory_bytes = random.pick(&[0, 300, settings.queue.memory_bytes]);
        }
        Self { kind, nodes, shards, causal, devices, settings, tight }
    }

    /// Shards of the next process.
    pub(super) fn next_shards(&self, random: &mut Random) -> u16 {
        random.pick(&[1, 2, 3, self.shards])
    }

    /// True if a device always resumes its session. The others start a new one now and then, or let their sessions end.
    pub(super) fn is_steady(&self, device: usize) -> bool {
        (self.kind.is_exact() && !self.is_fleeting(device)) || device < 4
    }

    /// True if a device has a session that ends with each of its connections, while sessions of the others stay.
    pub(super) fn is_fleeting(&self, device: usize) -> bool {
        self.kind.deals() && device == 7
    }

    /// The subscription of a member that comes and goes. A QoS 2 message sent to an ended session is for no other
    /// client ([MQTT-4.8.2-5]), so a member with ending sessions asks for QoS 1.
    pub(super) fn visit(&self, device: usize) -> Option<(&'static str, QoS)> {
        match device {
            6 if self.kind.deals() => Some(("$share/g/s/#", QoS::ExactlyOnce)),
            7 if self.kind.deals() => Some(("$share/g/s/#", QoS::AtLeastOnce)),
            _ => None,
        }
    }

    pub(super) fn connecting(&self, device: usize, random: &mut Random) -> Connecting {
        let mut connecting = match device % 3 {
            0 => v5("").receive_maximum(random.pick(&[1, 2, 10, 60_000])).aliases(random.pick(&[0, 2, 50])),
            1 => v311(""),
            _ => v5(""),
        };
        let will = message(random.pick(&["t/1", "u", "s/1"]), "a will").qos(random.pick(&[
            QoS::AtMostOnce,
            QoS::AtLeastOnce,
            QoS::ExactlyOnce,
        ]));
        if !self.kind.is_exact() && random.percent(40) {
            connecting = connecting.will(if device % 3 == 1 { will } else { will.delay(random.below(4) as u32) });
        }
        if self.is_fleeting(device) {
            return connecting.clean(true);
        }
        if self.is_steady(device) {
            let lasting = connecting.clean(false);
            return if device % 3 == 1 { lasting } else { lasting.expiry(u32::MAX) };
        }
        let clean = random.percent(40);
        let connecting = connecting.clean(clean);
        if device % 3 == 1 { connecting } else { connecting.expiry(random.below(8) as u32) }
    }

    /// A message to be published.
    pub(super) fn draft(&self, random: &mut Random) -> Draft {
        if self.kind.deals() && random.percent(60) {
            let (topic, qos) = (random.pick(&SHARED_TOPICS), random.pick(&[QoS::AtLeastOnce, QoS::ExactlyOnce]));
            return Draft { topic, qos, retain: false };
        }
        let shared = !self.kind.deals() && !matches!(self.kind, Kind::Falling | Kind::MovingFalling);
        let topic = if shared && random.percent(30) { random.pick(&SHARED_TOPICS) } else { random.pick(&TOPICS) };
        if self.kind.is_exact() {
            return Draft { topic, qos: QoS::ExactlyOnce, retain: false };
        }
        let qos = random.pick(&[QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce, QoS::ExactlyOnce]);
        // The outcome of a retained message that may be lost is unknown.
        let retain = qos != QoS::AtMostOnce && random.percent(25);
        Draft { topic, qos, retain }
    }

    pub(super) fn filter(random: &mut Random) -> &'static str {
        if random.percent(35) { random.pick(&SHARED_FILTERS) } else { random.pick(&FILTERS) }
    }

    /// Subscriptions of a run in which they stay.
    pub(super) fn filters_for_good(&self, device: usize) -> &'static [&'static str] {
        match device {
            // No client is in two groups, so that the group of each message is known.
            3 if self.kind.deals() => &["t/1", "t/2/x", "$share/g/s/#"],
            5 if self.kind.deals() => &["$share/h/s/+"],
            0 => &["t/#", "$share/g/s/#"],
            1 => &["t/+", "u", "$share/g/s/#"],
            2 => &["+", "$w/#", "$share/h/s/+"],
            3 => &["t/1", "t/2/x", "$share/h/s/+", "$share/g/s/#"],
            _ => &[],
        }
    }
}
