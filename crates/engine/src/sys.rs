//! `$SYS`: the broker's statistics, in the dialect of Mosquitto, while a client subscribes to them.
//!
//! The first shard gathers the numbers of all shards each round and publishes them. Nothing runs without a subscription
//! below `$SYS`.

use crate::events::counters::{Counters, Gauges};
use crate::events::reason::{REASONS, Reason};
use crate::ids::{SessionKey, TenantId};
use crate::now::{Millis, Now};
use crate::state::ShardState;
use crate::timers::Timer;
use crate::wire::{WireReader, WireWrite};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use tidegate_mqtt::{PacketType, TopicName};

/// State of `$SYS` on a shard.
#[derive(Debug)]
pub(crate) struct Sys {
    pub(crate) started: Now,
    /// Filters below `$SYS` that shards are interested in, of the tenant that the values are for.
    pub(crate) watchers: u32,
    /// The same of all other tenants, which get events of their own clients only.
    pub(crate) tenant_watchers: u32,
    /// When the next round is due; also its key among the timers.
    pub(crate) next: Option<Millis>,
    /// Number of the present round: a report that comes too late belongs to no other.
    pub(crate) round: u32,
    /// What the shards have reported in this round.
    pub(crate) gathered: SysValues,
    /// Reports that this round still waits for.
    pub(crate) missing: u16,
    /// Most clients seen connected at once.
    pub(crate) clients_maximum: u64,
    /// Memory of the process in bytes, from the shell for this round, and the most of any round.
    pub(crate) process_memory: Option<(u64, u64)>,
    loads: Vec<Load>,
    pub(crate) last: Option<(Millis, SysValues)>,
    /// What subscribers can find as retained values, to be cleared when the last one leaves.
    pub(crate) published: BTreeSet<String>,
}

/// An average per minute over 1, 5 and 15 minutes.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    averages: [f64; 3],
}

/// A number of `$SYS`.
pub(crate) struct SysNumber {
    /// Its topics below `$SYS/broker/`.
    pub(crate) topics: &'static [&'static str],
    /// Its topic below `$SYS/broker/load/`, for a counter with a moving average.
    load: Option<&'static str>,
    /// Reads it on one shard.
    read: fn(&Counters, &Gauges) -> u64,
}

/// A number that is published unchanged.
const fn plain(topics: &'static [&'static str], read: fn(&Counters, &Gauges) -> u64) -> SysNumber {
    SysNumber { topics, load: None, read }
}

/// A counter that is published with its moving averages.
const fn loaded(topics: &'static [&'static str], load: &'static str, read: fn(&Counters, &Gauges) -> u64) -> SysNumber {
    SysNumber { topics, load: Some(load), read }
}

/// Every number of `$SYS` that is added up over shards.
pub(crate) const NUMBERS: [SysNumber; 19] = [
    plain(&["clients/connected", "clients/active"], |_, gauges| gauges.sessions_connected),
    plain(&["clients/disconnected", "clients/inactive"], |_, gauges| gauges.sessions_disconnected),
    plain(&["clients/expired"], |counters, _| counters.sessions_expired),
    loaded(&["messages/received"], "messages/received", |counters, _| counters.packets_in.iter().sum()),
    loaded(&["messages/sent"], "messages/sent", |counters, _| counters.packets_out.iter().sum()),
    loaded(&["publish/messages/received"], "publish/received", |counters, _| counters.messages_in.iter().sum()),
    loaded(&["publish/messages/sent"], "publish/sent", |counters, _| counters.messages_out.iter().sum()),
    loaded(&["publish/messages/dropped"], "publish/dropped", |counters, _| counters.dropped_total()),
    plain(&["publish/bytes/received"], |counters, _| counters.payload_bytes_in),
    plain(&["publish/bytes/sent"], |counters, _| counters.payload_bytes_out),
    loaded(&["bytes/received"], "bytes/received", |counters, _| counters.bytes_in),
    loaded(&["bytes/sent"], "bytes/sent", |counters, _| counters.bytes_out),
    plain(&["subscriptions/count"], |_, gauges| gauges.subscriptions),
    plain(&["shared_subscriptions/count"], |_, gauges| gauges.shared_subscriptions),
    plain(&["retained messages/count"], |_, gauges| gauges.retained_messages),
    plain(&["store/messages/count", "messages/stored"], |_, gauges| gauges.retained_messages + gauges.queued_messages),
    plain(&["store/messages/bytes"], |_, gauges| gauges.retained_bytes + gauges.queued_bytes),
    loaded(&["connections/socket/count"], "sockets", |counters, _| counters.sockets_opened),
    loaded(&[], "connections", |counters, _| counters.packets_in[PacketType::Connect as usize]),
];

/// The numbers of [`NUMBERS`], in their order, and the dropped messages by reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SysValues {
    pub(crate) numbers: [u64; NUMBERS.len()],
    pub(crate) dropped: [u64; REASONS],
}

const MINUTES: [f64; 3] = [1.0, 5.0, 15.0];

impl Default for SysValues {
    fn default() -> Self {
        Self { numbers: [0; NUMBERS.len()], dropped: [0; REASONS] }
    }
}

impl SysValues {
    /// The values of one shard.
    pub(crate) fn of(counters: &Counters, gauges: &Gauges) -> Self {
        let numbers = std::array::from_fn(|number| (NUMBERS[number].read)(counters, gauges));
        Self { numbers, dropped: counters.dropped }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let mine = self.numbers.iter_mut().chain(&mut self.dropped);
        for (mine, theirs) in mine.zip(other.numbers.iter().chain(&other.dropped)) {
            *mine += theirs;
        }
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for value in self.numbers.iter().chain(&self.dropped) {
            out.put_u64(*value);
        }
        out
    }

    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut values = Self::default();
        let mut reader = WireReader::new(bytes);
        for value in values.numbers.iter_mut().chain(&mut values.dropped) {
            *value = reader.u64("a number of $SYS").unwrap_or(0);
        }
        values
    }
}

impl Sys {
    pub(crate) fn new(now: Now) -> Self {
        Self {
            started: now,
            watchers: 0,
            tenant_watchers: 0,
            next: None,
            round: 0,
            gathered: SysValues::default(),
            missing: 0,
            clients_maximum: 0,
            process_memory: None,
            loads: vec![Load::default(); NUMBERS.len()],
            last: None,
            published: BTreeSet::new(),
        }
    }

    /// When the next round is due.
    pub(crate) fn next(&self) -> Option<Millis> {
        self.next
    }

    /// Whether a round is due at some time.
    pub(crate) fn has_timer(&self) -> bool {
        self.next.is_some()
    }
}

impl Sys {
    pub(crate) fn set_sys_timer(&mut self, state: &mut ShardState, at: Millis) {
        self.next = Some(at);
        state.timers.set(at, Timer::Sys);
    }

    /// Moves the averages on by the counts since the last round.
    #[expect(clippy::cast_precision_loss, reason = "averages are shown with two places")]
    pub(crate) fn add_loads(&mut self, now: Now, values: &SysValues, texts: &mut Vec<(String, String)>) {
        let start = (self.started.monotonic, SysValues::default());
        let (then, last) = self.last.as_ref().unwrap_or(&start);
        let minutes = now.monotonic.since(*then) as f64 / 60_000.0;
        let counts = values.numbers.iter().zip(&last.numbers);
        for ((number, load), (now, then)) in NUMBERS.iter().zip(&mut self.loads).zip(counts) {
            let Some(topic) = number.load else { continue };
            let counted = now.saturating_sub(*then) as f64;
            for (average, window) in load.averages.iter_mut().zip(MINUTES) {
                if minutes > 0.0 {
                    let (per_minute, weight) = (counted / minutes, (-minutes / window).exp());
                    *average = per_minute + (*average - per_minute) * weight;
                }
                texts.push((format!("load/{topic}/{window}min"), format!("{average:.2}")));
            }
        }
    }

    /// The event for watchers of the client's tenant when the client has come (no reason) or gone (its reason), if
    /// there are any.
    pub(crate) fn client_event(
        &self,
        now: Now,
        state: &mut ShardState,
        key: SessionKey,
        news: ClientNews,
    ) -> Option<ClientEvent> {
        if self.watchers + self.tenant_watchers == 0 || !state.settings.sys_events {
            return None;
        }
        let session = state.sessions.get(key.0)?;
        let what = news.level();
        // A client id may hold characters that a topic level may not.
        let level = session.client_id.replace(['+', '#', '/'], "_");
        let topic = format!("$SYS/brokers/{}/clients/{level}/{what}", state.settings.node_name);
        let mut text = String::from("{\"clientid\":");
        put_json_string(&mut text, &session.client_id);
        let _ = write!(text, ",\"ts\":{}", now.unix);
        if let ClientNews::Ended(reason) = news {
            let _ = write!(text, ",\"reason\":\"{}\",\"reason_code\":{}", reason.label(), reason.code().byte());
        }
        text.push('}');
        TopicName::new(&topic).is_ok().then_some(ClientEvent { tenant: session.tenant, topic, text })
    }
}

/// An event of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientNews {
    /// Its CONNECT was accepted.
    Connected,
    /// Its connection has come from another node.
    Continued,
    /// Its connection has ended, or has left for another node.
    Ended(Reason),
}

impl ClientNews {
    /// The last level of the topic.
    fn level(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::Continued => "continued",
            Self::Ended(Reason::Moved) => "moved",
            Self::Ended(_) => "disconnected",
        }
    }
}

/// That a client has come or gone, in words.
pub(crate) struct ClientEvent {
    pub(crate) tenant: TenantId,
    pub(crate) topic: String,
    pub(crate) text: String,
}

/// Appends a JSON string with everything escaped that has to be.
fn put_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
