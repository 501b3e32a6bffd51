//! Counters of the services of this process, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use super::LeftOut;

/// A number that any thread may change.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn sub(&self, less: u64) {
        self.0.fetch_sub(less, Ordering::Relaxed);
    }

    /// This, from now on.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of the services.
        #[derive(Debug, Default)]
        pub struct CoreCounters { $($(#[$doc])* pub(crate) $name: Count,)* }

        /// The values of the counters at a moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CoreFigures { $($(#[$doc])* pub $name: u64,)* }

        impl CoreCounters {
            /// Their present values.
            pub fn figures(&self) -> CoreFigures {
                CoreFigures { $($name: self.$name.get(),)* }
            }
        }
    };
}

figures! {
    /// Active gateways in the last list.
    gateways,
    /// Load reports sent.
    load_reports,
    /// Connection reports sent.
    connection_reports,
    /// Contexts sent.
    context_reports,
    /// Nodes that were pinged.
    pings,
    /// Pongs within their window.
    pongs,
    /// Pongs after it.
    late_pongs,
    /// Nodes that were sent elsewhere by this gateway.
    handovers,
    /// Handovers that the manager in this process has decided.
    handovers_decided,
    /// Changes of the groups of nodes at this gateway.
    group_changes,
    /// Contexts that definers in this process have looked at.
    contexts_evaluated,
    /// Advertisements that they have sent.
    advertisements,
    /// Messages of nodes for applications that are on the bus.
    records_out,
    /// Messages that it did not take.
    records_refused,
    /// Appends of them that were tried once more.
    records_retried,
    /// Records of applications that were delivered to nodes, or kept for them.
    records_in,
    /// Records that were no messages.
    records_rejected,
    /// Records that had expired when they were read.
    records_expired,
    /// Messages for applications that wait for the bus now.
    records_waiting,
    /// Contexts that were left out, being too long.
    left_out_too_long,
    /// Contexts that were no JSON objects.
    left_out_not_json,
    /// Reports of nodes with a name that cannot be a key on the bus.
    left_out_name,
    /// Advertisements that were none.
    left_out_advertisement,
    /// Those in another definer's name.
    left_out_definer,
    /// Advertisements beyond the limit of a gateway.
    left_out_limit,
    /// Changes of groups that the broker refused.
    left_out_groups,
    /// Records between services that were none.
    left_out_records,
    /// Contexts and advertisements that the bus has not stored.
    left_out_not_stored,
}

impl CoreFigures {
    /// The unusable data of clients, definers and others on the bus, by cause.
    pub fn left_out(&self) -> [(&'static str, u64); LeftOut::ALL.len()] {
        LeftOut::ALL.map(|why| {
            let count = match why {
                LeftOut::TooLong => self.left_out_too_long,
                LeftOut::NotJson => self.left_out_not_json,
                LeftOut::Name => self.left_out_name,
                LeftOut::Advertisement => self.left_out_advertisement,
                LeftOut::Definer => self.left_out_definer,
                LeftOut::Limit => self.left_out_limit,
                LeftOut::Groups => self.left_out_groups,
                LeftOut::Record => self.left_out_records,
                LeftOut::NotStored => self.left_out_not_stored,
            };
            (why.label(), count)
        })
    }
}
