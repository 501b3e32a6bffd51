//! The functions of a shard by subject. Each facet borrows the shard for one call.

use crate::shard::Shard;

/// Connections and clients are admitted, or refused by addresses, users and bans.
pub(crate) struct AdmissionCalls<'s> {
    pub(crate) shard: &'s mut Shard,
}

/// Datagrams and connections of QUIC.
pub(crate) struct QuicCalls<'s> {
    #[cfg_attr(not(feature = "quic"), expect(dead_code, reason = "without QUIC there is nothing to do"))]
    pub(crate) shard: &'s mut Shard,
}

/// Calls about relays of clients whose home is another orchestrator.
pub(crate) struct RelayCalls<'s> {
    pub(crate) shard: &'s mut Shard,
}

/// Batches, rosters and moves between nodes of a cluster.
pub(crate) struct PeerCalls<'s> {
    pub(crate) shard: &'s mut Shard,
}

/// The journal is submitted, and ends of queues are read.
pub(crate) struct StoreCalls<'s> {
    pub(crate) shard: &'s mut Shard,
}

/// Sockets are accepted.
pub(crate) struct AcceptCalls<'s> {
    pub(crate) shard: &'s mut Shard,
}

/// Orders of the process are carried out.
pub(crate) struct OrderCalls<'s> {
    pub(crate) shard: &'s mut Shard,
}

/// Connections are opened, read, written and closed.
pub(crate) struct SocketCalls<'s> {
    pub(crate) shard: &'s mut Shard,
}

impl Shard {
    /// Connections and clients are admitted, or refused by addresses, users and bans.
    #[inline]
    pub(crate) fn admission(&mut self) -> AdmissionCalls<'_> {
        AdmissionCalls { shard: self }
    }

    /// Datagrams and connections of QUIC.
    #[inline]
    pub(crate) fn datagrams(&mut self) -> QuicCalls<'_> {
        QuicCalls { shard: self }
    }

    /// Calls about relays of clients whose home is another orchestrator.
    #[inline]
    pub(crate) fn relaying(&mut self) -> RelayCalls<'_> {
        RelayCalls { shard: self }
    }

    /// Batches, rosters and moves between nodes of a cluster.
    #[inline]
    pub(crate) fn peering(&mut self) -> PeerCalls<'_> {
        PeerCalls { shard: self }
    }

    /// The journal is submitted, and ends of queues are read.
    #[inline]
    pub(crate) fn storing(&mut self) -> StoreCalls<'_> {
        StoreCalls { shard: self }
    }

    /// Sockets are accepted.
    #[inline]
    pub(crate) fn accepting(&mut self) -> AcceptCalls<'_> {
        AcceptCalls { shard: self }
    }

    /// Orders of the process are carried out.
    #[inline]
    pub(crate) fn orders(&mut self) -> OrderCalls<'_> {
        OrderCalls { shard: self }
    }

    /// Connections are opened, read, written and closed.
    #[inline]
    pub(crate) fn sockets(&mut self) -> SocketCalls<'_> {
        SocketCalls { shard: self }
    }
}
