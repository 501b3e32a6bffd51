//! Clients of a leaving partition stay connected: their connections leave this node between two packets.
//!
//! A client with its socket here is not read until then; bytes that it sends wait in its socket. The node of a relayed
//! client is asked to send no more and to end its side, so that all that it has sent is read here.

use tidegate_engine::{ConnectionKey, Partitions};

use crate::left_out::LeftOut;
use crate::proxy_protocol::RelayedConnection;
use crate::relay::ClientOrigin;
use crate::relay::frame::{LEAVE, Parcel};
use crate::shard::facets::PeerCalls;
use crate::shard::table::Flags;

impl PeerCalls<'_> {
    /// The clients of partitions that can leave are to do so.
    pub(crate) fn begin_to_leave(&mut self, partitions: Partitions, left_out: LeftOut) {
        if left_out.local && !std::mem::replace(&mut self.shard.hands_over, true) {
            self.shard.accepting().close_to_clients();
        }
        if self.shard.shared.cluster_secret.is_some() {
            let leaving = self.shard.engine.moves().begin_to_leave(partitions, left_out.v5);
            self.shard.leaving.extend(leaving);
        }
    }

    /// Lets clients at rest leave. Returns the number of the remaining ones: it is called again until there are none,
    /// or time is up.
    pub(crate) fn let_clients_leave(&mut self) -> usize {
        let mut leaving = std::mem::take(&mut self.shard.leaving);
        leaving.retain(|key| !self.let_leave(*key));
        self.shard.leaving = leaving;
        self.shard.leaving.len()
    }

    /// Returns whether the connection needs no more waiting.
    fn let_leave(&mut self, key: ConnectionKey) -> bool {
        let Some((flags, transport)) = self.shard.table.get(key) else { return true };
        if flags.has(Flags::CLOSING | Flags::BROKEN) {
            return true;
        }
        let relayed = match transport.relayed() {
            RelayedConnection::Not => false,
            RelayedConnection::Continues => true,
            // Its node is of another version, or a proxy.
            RelayedConnection::Ends => return true,
        };
        if relayed && !flags.has(Flags::ASKED) {
            flags.set(Flags::ASKED);
            self.shard.engine.outputs().append_frame(key, &LEAVE);
            return false;
        }
        if !relayed && flags.has(Flags::PEER_CLOSED) {
            // The client has ended its connection: the rest of its bytes is read here, with its DISCONNECT if there is one.
            flags.clear(Flags::HELD);
            return false;
        }
        if !relayed {
            flags.set(Flags::HELD);
        }
        let is_read = !relayed || flags.has(Flags::READ_TO_END);
        if !is_read || flags.has(Flags::BLOCKED) || transport.is_waiting() || transport.is_handshaking() {
            return false;
        }
        // A client that waits is asked often: its certificates are copied once.
        if !transport.has_identity_inside() && !self.shard.engine.moves().may_leave_now(key) {
            return false;
        }
        let Ok(shown) = self.shard.sockets().shown_certificate(key) else { return true };
        let Some(mut left) = self.shard.engine.moves().leave(self.shard.now, key) else { return false };
        left.image.counted_user = self.shard.admission().counted_user(key);
        left.image.shown = shown;
        self.shard.counters.moved += 1;
        let Some(secret) = &self.shard.shared.cluster_secret else { return true };
        let parcel = Parcel::of(left, secret);
        if relayed {
            self.shard.engine.outputs().append_frame(key, &parcel.to_edge());
        } else {
            self.keep(key, parcel);
        }
        true
    }

    /// A client with its socket here becomes a relayed one.
    fn keep(&mut self, key: ConnectionKey, parcel: Parcel) {
        let tenant = self.shard.accepting().tenant_to_relay(key);
        let origin = ClientOrigin { listener: self.shard.table.listener(key), tenant };
        // The engine's order to close the connection finds none.
        self.shard.engine.release_connection(key);
        let Some((flags, transport, seat)) = self.shard.table.remove(key) else { return };
        let is_registered = flags.has(Flags::REGISTERED);
        self.shard.relaying().keep_departed(transport, is_registered, (seat, origin), (parcel, None));
    }
}
