//! Clients of other nodes whose connection to the home is cut: this node carries the bytes between both.

use std::net::SocketAddr;

use mio::Interest;
use mio::event::Source as _;
use mio::net::TcpStream;
use tidegate_engine::{ConnectionKey, Reason};

use crate::relay::end::End;
use crate::relay::follower::Follower;
use crate::relay::goodbye::Goodbye;
use crate::relay::introduction::Introduction;
use crate::relay::pair::MoveStage;
use crate::relay::sieve::Sieve;
use crate::relay::slots::Stage;
use crate::relay::{CLIENT, ClientOrigin, HOME, Pair, Relay, RelayKey};
use crate::shard::facets::RelayCalls;
use crate::shard::table::Flags;
use crate::transport::Transport;

impl RelayCalls<'_> {
    /// Another node asks to carry one of its clients to a home.
    pub(crate) fn begin_to_carry(&mut self, key: ConnectionKey, home: SocketAddr) {
        // Only nodes of the table are homes: nothing else is reached through this listener.
        let dialed = if self.shard.ways.has_home(home) { TcpStream::connect(home).ok() } else { None };
        let Some(mut dialed) = dialed else {
            self.note_not_carried(home);
            let (now, reason) = (self.shard.now, Reason::HomeUnreachable);
            return self.shard.engine.handle_transport_failed(now, key, reason, "this node does not reach the home");
        };
        let listener = self.shard.table.listener(key);
        self.shard.engine.release_connection(key);
        let Some((flags, mut transport, seat)) = self.shard.table.remove(key) else { return };
        let registry = self.shard.poll.registry();
        let freed = if flags.has(Flags::REGISTERED) { transport.deregister(registry) } else { Ok(()) };
        // Small messages are sent at once; a failure to set the option is harmless.
        let _ = dialed.set_nodelay(true);
        let relay = self.shard.relays.reserve();
        let registered = freed
            .and_then(|()| transport.register(registry, relay.token(CLIENT)))
            .and_then(|()| dialed.register(registry, relay.token(HOME), Interest::READABLE | Interest::WRITABLE));
        let mut ends = [End::of(transport), End::connecting(Transport::Tcp(dialed))];
        if registered.is_err() {
            ends.iter_mut().for_each(End::fail);
        }
        let pair = Pair {
            ends,
            seat,
            ending: false,
            goodbye: Goodbye::Never,
            sieve: Sieve::default(),
            sent: Follower::default(),
            stage: MoveStage::Carried { home, introduction: Introduction::Partial(Vec::new()) },
            origin: ClientOrigin { listener, tenant: None },
        };
        self.shard.counters.relayed += 1;
        self.shard.relays.put(relay, Relay::Open(Box::new(pair)));
        self.shard.relays.set_deadline(self.shard.now.monotonic, relay, Stage::Connecting);
        self.pump_relay(relay);
    }

    /// The home of a client that is carried refuses the connection, or does not answer. The end of the connection informs
    /// the client's node.
    pub(super) fn give_up_carrying(&mut self, key: RelayKey) {
        if let Some(Relay::Open(pair)) = self.shard.relays.get(key)
            && let MoveStage::Carried { home, .. } = pair.stage
        {
            self.note_not_carried(home);
        }
        self.end_relay(key);
    }

    fn note_not_carried(&mut self, home: SocketAddr) {
        self.shard.counters.relays_failed += 1;
        if let Some(times) = self.shard.relays.unreachable.note(self.shard.now.monotonic) {
            tracing::warn!(times, %home, "cannot carry a client of another node to its home");
        }
    }
}
