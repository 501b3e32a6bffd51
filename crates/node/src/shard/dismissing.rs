//! Clients of relays are dismissed: the node stops, a drain sends them away, or their new home refuses them.

use tidegate_engine::{ConnectionImage, ConnectionKey, Evicted, Reason};
use tidegate_mqtt::ReasonCode;

use crate::admission::Seat;
use crate::relay::departed::Departed;
use crate::relay::end::End;
use crate::relay::goodbye::Goodbye;
use crate::relay::slots::Stage;
use crate::relay::{CLIENT, HomelessClient, Pair, Relay, RelayKey};
use crate::shard::facets::{RelayCalls, SocketCalls};

/// Why the connection of a client from another node is refused.
const REFUSED: &str = "its credential is not accepted or has ended, it is banned, or its terms cannot be kept here";

impl RelayCalls<'_> {
    /// Ends at most `limit` relays, and asks MQTT 5 clients to use another server; returns their number.
    pub(crate) fn send_relayed_away(&mut self, limit: usize, clients: Evicted) -> usize {
        let reference = self.shard.engine.questions().drain_reference().map(str::to_owned);
        let everyone = clients == Evicted::Everyone;
        let keys = self.shard.relays.staying(limit, |goodbye| everyone || goodbye.is_possible());
        for key in &keys {
            let now = self.shard.now.monotonic;
            match self.shard.relays.get(*key) {
                Some(Relay::Open(pair)) => {
                    if !pair.goodbye.begin(reference.as_deref()) {
                        self.end_relay(*key);
                        continue;
                    }
                    pair.ending = true;
                    self.shard.relays.set_deadline(now, *key, Stage::Ending);
                    self.pump_relay(*key);
                }
                Some(Relay::Moving(departed)) => {
                    departed.goodbye.begin(reference.as_deref());
                    self.shard.relays.set_deadline(now, *key, Stage::Ending);
                    self.begin_farewell(*key);
                }
                Some(Relay::Connecting { .. } | Relay::Farewell(_)) | None => {}
            }
        }
        keys.len()
    }

    /// The new home does not continue the connection of a client. An MQTT 5 client gets the reason, if the home gives one.
    pub(super) fn dismiss_refused(&mut self, key: RelayKey, code: Option<ReasonCode>) {
        let Some(Relay::Open(pair)) = self.shard.relays.remove_for_now(key) else { return };
        let Pair { ends: [client, _], seat, mut goodbye, .. } = *pair;
        // Its old home has sent whole packets.
        let last = code.and_then(|code| goodbye.take_refusal(code));
        self.bid_farewell(key, client, seat, last);
        self.shard.relays.set_deadline(self.shard.now.monotonic, key, Stage::Ending);
    }

    /// This node stops: the client is asked to use another server.
    pub(super) fn begin_farewell(&mut self, key: RelayKey) {
        let Some(Relay::Moving(departed)) = self.shard.relays.remove_for_now(key) else { return };
        let Departed { client, seat, mut goodbye, .. } = *departed;
        // Its old home has sent whole packets.
        let last = goodbye.take_last();
        self.bid_farewell(key, client, seat, last);
    }

    /// Writes the last bytes of a client without a home, until it has closed its side.
    pub(super) fn end_farewell(&mut self, key: RelayKey) {
        let Some(Relay::Farewell(last)) = self.shard.relays.get(key) else { return };
        let more = last.client.finish_and_discard(&mut self.shard.buffer);
        last.client.show_blocked(self.shard.poll.registry(), key.token(CLIENT));
        if last.client.is_over() {
            self.end_relay(key);
        } else if more {
            self.shard.relays.ring.push_back(key);
        }
    }

    fn bid_farewell(&mut self, key: RelayKey, mut client: End, seat: Seat, last: Option<Vec<u8>>) {
        if let Some(last) = last {
            client.append(&last);
        }
        self.shard.relays.put(key, Relay::Farewell(Box::new(HomelessClient { client, seat })));
        self.end_farewell(key);
    }
}

impl SocketCalls<'_> {
    /// The client of a connection that has come home to this node is not accepted here.
    pub(super) fn dismiss_client(&mut self, key: ConnectionKey, image: &ConnectionImage, reason: Reason) {
        let mut goodbye = Goodbye::for_version(image.version(), image.max_packet());
        if let Some(last) = goodbye.take_refusal(reason.code_of_disconnect()) {
            self.shard.engine.outputs().append_frame(key, &last);
        }
        self.refuse_continued(key, reason);
        self.register(key);
    }

    /// Ends a connection from another node, behind its last bytes.
    pub(super) fn refuse_continued(&mut self, key: ConnectionKey, reason: Reason) {
        // The cause of a credential that is not accepted was logged.
        let detail = if reason == Reason::NotAuthorized { "" } else { REFUSED };
        self.shard.engine.handle_transport_failed(self.shard.now, key, reason, detail);
    }
}
