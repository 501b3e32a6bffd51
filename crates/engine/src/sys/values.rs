//! The numbers of `$SYS` of a shard, a node or a cluster.

use crate::events::counters::{Counters, Gauges};
use crate::events::reason::REASONS;
use crate::wire::{WireReader, WireWrite};
use tidegate_mqtt::PacketType;

/// A number of `$SYS`.
pub(crate) struct SysNumber {
    /// Its topics below `$SYS/broker/`.
    pub(crate) topics: &'static [&'static str],
    /// Its topic below `$SYS/broker/load/`, for a counter with a moving average.
    pub(crate) load: Option<&'static str>,
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
            *mine = mine.saturating_add(*theirs);
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for value in self.numbers.iter().chain(&self.dropped) {
            out.put_u64(*value);
        }
    }

    pub(crate) fn read(reader: &mut WireReader<'_>) -> Self {
        let mut values = Self::default();
        for value in values.numbers.iter_mut().chain(&mut values.dropped) {
            *value = reader.u64("a number of $SYS").unwrap_or(0);
        }
        values
    }
}
