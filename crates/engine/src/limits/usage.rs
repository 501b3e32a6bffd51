//! The usage of each tenant on a shard: plain integers by tenant number, counted where the engine counts messages and
//! bytes anyway.

use crate::ids::TenantId;
use crate::now::Millis;
use crate::telling::sums::summed;

summed! {
    /// The usage of a tenant on one shard. The counters only grow; `sessions`, `connections`, `retained_bytes` and
    /// `stored_bytes` say what there is at this moment.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Usage {
        /// Application messages received from the tenant's clients.
        pub messages_in: u64,
        /// Application messages sent to the tenant's clients.
        pub messages_out: u64,
        /// Bytes of the whole packets that the tenant's clients have sent.
        pub bytes_in: u64,
        /// Bytes handed to the transports of the tenant's clients.
        pub bytes_out: u64,
        /// Time for which clients were connected, milliseconds, added up over connections.
        pub connection_ms: u64,
        /// Connected clients.
        pub connections: u64,
        /// Sessions, connected or not.
        pub sessions: u64,
        /// Bytes of the retained messages whose home this shard is.
        pub retained_bytes: u64,
        /// Bytes of the messages that wait for sessions, in memory or in the store.
        pub stored_bytes: u64,
    }
}

/// The counters of one tenant, and since when its connection time is counted up.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    usage: Usage,
    counted_until: Millis,
}

impl Meter {
    /// Counts connection time up to now. Called before the number of connections changes.
    fn count_time(&mut self, now: Millis) {
        self.usage.connection_ms += self.usage.connections * now.since(self.counted_until);
        self.counted_until = now;
    }
}

/// The meters of a shard, by tenant number.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    of: Vec<Meter>,
    /// Connections that no tenant pays for: uplinks to brokers, pipelines of the hub, and refused clients.
    own: Meter,
}

impl Meters {
    /// The counters of a tenant; [`TenantId::UPLINK`] has the counters that no tenant pays for.
    #[inline]
    pub(crate) fn of(&mut self, payer: TenantId) -> &mut Usage {
        &mut self.meter(payer).usage
    }

    #[inline]
    fn meter(&mut self, payer: TenantId) -> &mut Meter {
        let place = usize::from(payer.0);
        if place >= self.of.len() {
            self.grow(payer);
        }
        match self.of.get_mut(place) {
            Some(meter) => meter,
            None => &mut self.own,
        }
    }

    #[cold]
    fn grow(&mut self, payer: TenantId) {
        if payer != TenantId::UPLINK {
            self.of.resize(usize::from(payer.0) + 1, Meter::default());
        }
    }

    /// Counts packets that have arrived for the tenant that pays for them.
    #[inline]
    pub(crate) fn count_input(&mut self, payer: Option<TenantId>, bytes: usize) {
        if let Some(payer) = payer {
            self.of(payer).bytes_in += bytes as u64;
        }
    }

    /// A client of the tenant has connected.
    pub(crate) fn connect(&mut self, payer: TenantId, now: Millis) {
        let meter = self.meter(payer);
        meter.count_time(now);
        meter.usage.connections += 1;
    }

    /// A client of the tenant is not connected any more.
    pub(crate) fn disconnect(&mut self, payer: TenantId, now: Millis) {
        let meter = self.meter(payer);
        meter.count_time(now);
        meter.usage.connections = meter.usage.connections.saturating_sub(1);
    }

    /// The counters with connection time up to now.
    pub(crate) fn read(&self, now: Millis) -> Vec<Usage> {
        let read = |meter: &Meter| {
            let mut meter = *meter;
            meter.count_time(now);
            meter.usage
        };
        self.of.iter().map(read).collect()
    }
}
