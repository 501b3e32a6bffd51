//! Counters of a server; they only grow.

use std::sync::atomic::{AtomicU64, Ordering};

/// Declares an enum whose variants have a label each, and the list of all of them.
macro_rules! labelled {
    ($(#[$about:meta])* $name:ident { $($(#[$text:meta])* $variant:ident = $label:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$text])* $variant,)*
        }

        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name in metrics.
            pub fn label(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)*
                }
            }
        }
    };
}

labelled! {
    /// The kinds of queries.
    QueryKind {
        /// A: an address of IPv4.
        A = "a",
        /// AAAA: an address of IPv6.
        Aaaa = "aaaa",
        /// SRV: host and port of a service.
        Srv = "srv",
        /// NS: the servers of the zone.
        Ns = "ns",
        /// SOA: the zone itself.
        Soa = "soa",
        /// ANY: whatever there is (RFC 8482).
        Any = "any",
        /// Some other type.
        Other = "other",
    }
}

labelled! {
    /// The kinds of answers.
    AnswerKind {
        /// At least one record.
        Records = "records",
        /// The name exists, the type does not (RFC 2308).
        NoData = "nodata",
        /// The name does not exist.
        NoName = "nxdomain",
        /// Not our zone, class or kind of query.
        Refused = "refused",
        /// The packet is no query that can be understood.
        FormatError = "formerr",
        /// There is no endpoint that could be named.
        ServerFailure = "servfail",
        /// An operation other than a query.
        NotImplemented = "notimp",
        /// A version of EDNS that is not known (RFC 6891).
        BadVersion = "badvers",
        /// Only the invitation to ask over TCP, since the answer did not fit.
        Truncated = "truncated",
        /// Only the invitation to ask over TCP, since the network asks too much.
        Slipped = "slipped",
    }
}

labelled! {
    /// Why a packet was not answered.
    DropReason {
        /// Too short to have a header, or from port 0.
        Malformed = "malformed",
        /// It is itself an answer; answering it could go on for ever.
        Response = "response",
        /// Longer than any query.
        Oversize = "oversize",
        /// Its network asks too much.
        RateLimited = "rate_limited",
        /// The system took no more packets.
        SendFailed = "send_failed",
    }
}

labelled! {
    /// Other events.
    Event {
        /// A connection was taken.
        TcpAccepted = "tcp_accepted",
        /// A connection was closed at once, since there were too many.
        TcpRefused = "tcp_refused",
        /// A connection was closed, since its next query or the taking of an answer took too long, or it had lived long
        /// enough.
        TcpTimedOut = "tcp_timed_out",
        /// No endpoint was healthy, and an unhealthy one was named.
        LeastBad = "least_bad",
        /// The location of the asker was unknown, so the endpoints took turns.
        PlaceUnknown = "place_unknown",
    }
}

/// The counters of a server since it started. Reading is cheap and never waits.
#[derive(Debug, Default)]
pub struct Counters {
    queries: [AtomicU64; QueryKind::ALL.len()],
    answers: [AtomicU64; AnswerKind::ALL.len()],
    drops: [AtomicU64; DropReason::ALL.len()],
    events: [AtomicU64; Event::ALL.len()],
}

impl Counters {
    /// Queries that were understood, by type.
    pub fn queries(&self, kind: QueryKind) -> u64 {
        read(&self.queries, kind as usize)
    }

    /// Answers, by kind.
    pub fn answers(&self, kind: AnswerKind) -> u64 {
        read(&self.answers, kind as usize)
    }

    /// Packets that got no answer, by reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        read(&self.drops, reason as usize)
    }

    /// Other things that happened.
    pub fn events(&self, event: Event) -> u64 {
        read(&self.events, event as usize)
    }

    pub(crate) fn query(&self, kind: QueryKind) {
        add(&self.queries, kind as usize);
    }

    pub(crate) fn answer(&self, kind: AnswerKind) {
        add(&self.answers, kind as usize);
    }

    pub(crate) fn drop_packet(&self, reason: DropReason) {
        add(&self.drops, reason as usize);
    }

    pub(crate) fn event(&self, event: Event) {
        add(&self.events, event as usize);
    }
}

fn read(numbers: &[AtomicU64], place: usize) -> u64 {
    numbers.get(place).map_or(0, |number| number.load(Ordering::Relaxed))
}

fn add(numbers: &[AtomicU64], place: usize) {
    if let Some(number) = numbers.get(place) {
        number.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_counter_of_its_own() {
        let counters = Counters::default();
        for &kind in AnswerKind::ALL {
            assert_eq!(counters.answers(kind), 0, "{}", kind.label());
            counters.answer(kind);
        }
        assert!(AnswerKind::ALL.iter().all(|&kind| counters.answers(kind) == 1));
        counters.drop_packet(DropReason::Response);
        assert_eq!(counters.dropped(DropReason::Response), 1);
        assert_eq!(counters.dropped(DropReason::Malformed), 0);
    }
}
