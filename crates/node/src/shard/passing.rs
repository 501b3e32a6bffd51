//! Clients pass to the nodes of their users.

use tidegate_engine::{Accepted, AuthOutcome, ConnectionKey};

use crate::orders::{Admitted, Adoption, Door, ToShard};
use crate::peer::Peer;
use crate::shard::facets::AcceptCalls;
use crate::shard::table::Flags;

impl AcceptCalls<'_> {
    /// A client was accepted: its connection goes to the node of its user.
    pub(crate) fn pass_through(&mut self, key: ConnectionKey, door: Door, accepted: Accepted) {
        self.shard.gate.forget_pending(key);
        let listener = self.shard.table.listener(key);
        let Some(bytes) = self.shard.engine.homes().leave_admitted(key) else { return };
        let peer = self.shard.table.peer(key).unwrap_or(Peer::Gone);
        let Some((flags, mut transport, seat)) = self.shard.table.remove(key) else { return };
        let deregistered =
            if flags.has(Flags::REGISTERED) { transport.deregister(self.shard.poll.registry()) } else { Ok(()) };
        if deregistered.is_err() {
            self.shard.admission().free_seat(seat);
            self.shard.shared.connections.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
            return;
        }
        self.shard.counters.handed_over += 1;
        let (inbox, pass) = door.into_parts();
        let admitted = Some(Admitted { accepted, pass });
        inbox.send(ToShard::Adopt(Box::new(Adoption {
            transport,
            listener,
            seat,
            peer,
            bytes,
            admitted,
            continued: None,
        })));
    }

    /// The outcome for the client whose CONNECT is being processed, from the node that accepted its connection.
    pub(crate) fn take_admitted(&mut self) -> Option<AuthOutcome> {
        self.shard.admitting.take().map(AuthOutcome::Accept)
    }
}
