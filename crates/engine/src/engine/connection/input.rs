//! Frames are found in the input of a connection, and each goes to its handler.

use crate::connection::input::{Flow, len_to_complete};
use crate::connection::{Connection, Phase};
use crate::engine::Engine;
use crate::engine::connection::continuing::{begins_continuation, is_end_of_edge};
use crate::engine::facets::{HomeCalls, ShardQuestions, WaitingCalls};
use crate::event::Event;
use crate::events::reason::Reason;
use crate::events::refused::Refused;
use crate::flows::contexts::acknowledging;
use crate::flows::contexts::connecting;
use crate::flows::contexts::parking;
use crate::ids::BROKER_LINK_LISTENER;
use crate::ids::{ConnectionKey, PRINCIPAL_LISTENER, ShardId};
use crate::image::connection::{EDGE_STOPS, RELAY_FRAME};
use crate::link::record::Record;
use crate::memory::MemoryUse;
use crate::now::Now;
use crate::orchestrator::broker_link::BrokerLinks;
use crate::publish::pipeline::Progress;
use crate::session::BlockedPublisher;
use crate::settings::ListenerSettings;
use crate::state::pub_acks::{ACK_LEN, Gathered};
use crate::timers::Timer;
use tidegate_mqtt::{
    Disconnect, Frame, FrameError, PacketType, PingResp, QoS, RawPublish, ReasonCode, Version, split_frame,
};

/// Whether a connection begins like a CONNECT packet. The first byte decides: other input (usually another protocol on
/// this port) is not waited for.
fn check_first_byte(bytes: &[u8]) -> Result<(), Refused> {
    let Some(&first) = bytes.first() else { return Ok(()) };
    let reason = match PacketType::from_first_byte(first) {
        Some(PacketType::Connect) if first == 0x10 || may_be_mqtt_31(bytes) => return Ok(()),
        Some(PacketType::Connect) | None => Reason::MalformedPacket,
        Some(_) => Reason::ProtocolError,
    };
    let instead = another_protocol(bytes).map_or_else(String::new, |instead| format!(": {instead}"));
    Err(Refused::new(reason, format!("the first byte was {first:#04x}, not 0x10 as of a CONNECT{instead}")))
}

/// Whether the bytes so far can begin a CONNECT of MQTT 3.1, whose flags in the first byte are not used and may be set.
fn may_be_mqtt_31(bytes: &[u8]) -> bool {
    let (_, rest) = bytes.split_at(bytes.len().min(1));
    // The Remaining Length ends with its first byte that is below 0x80; its fourth byte is the last in any case.
    let length = rest.iter().take(4).position(|byte| byte & 0x80 == 0);
    let name = match length {
        Some(end) => rest.get(end + 1..).unwrap_or_default(),
        None if rest.len() >= 4 => return false,
        None => return true,
    };
    name.iter().zip(b"\0\x06MQIsdp").all(|(byte, expected)| byte == expected)
}

/// Recognises another protocol by its first bytes; returns advice for the operator.
fn another_protocol(bytes: &[u8]) -> Option<&'static str> {
    let begins = |with: &[&[u8]]| with.iter().any(|with| bytes.starts_with(with));
    if begins(&[b"\x16\x03"]) {
        return Some(
            "the client speaks TLS, and this listener does not; its address has to begin with mqtts:// or wss://",
        );
    }
    if begins(&[b"GET ", b"HEAD ", b"POST ", b"PUT ", b"OPTIONS ", b"CONNECT ", b"PRI * HTTP/2"]) {
        return Some(
            "the client speaks HTTP; MQTT over WebSocket needs a listener whose address begins with ws:// or wss://",
        );
    }
    begins(&[b"PROXY ", b"\r\n\r\n\0\r\nQUIT\n"]).then_some(
        "a proxy tells whose connection it is; `proxy_protocol` and `proxy_networks` of the listener take that",
    )
}

/// Bytes of the largest packet that a listener takes, or a connection to a broker.
#[inline]
fn max_packet_size(listener: Option<&ListenerSettings>, broker_links: &BrokerLinks) -> u32 {
    match listener {
        Some(listener) => listener.max_packet_size,
        None => broker_links.brokers.config.max_packet_size(),
    }
}

/// Adds bytes that arrived to the rest of the input before them.
fn append_to_tail(memory: &mut MemoryUse, phase: Phase, tail: &mut Vec<u8>, bytes: &[u8]) {
    memory.held += bytes.len() as u64;
    if phase == Phase::AwaitConnect {
        memory.connect_bytes -= tail.len() as u64;
    }
    memory.input_bytes += bytes.len() as u64;
    tail.extend_from_slice(bytes);
}

impl Engine {
    /// Takes bytes that arrived on a connection, split anywhere.
    pub fn handle_input(&mut self, now: Now, key: ConnectionKey, mut bytes: &[u8]) {
        self.state.counters.bytes_in += bytes.len() as u64;
        self.state.journal.now = now;
        self.state.tenants.look_at_rates();
        if self.state.connections.get(key).is_none() {
            return;
        }
        while let Some(connection) = self.state.connections.get_mut(key) {
            let phase = connection.phase;
            let Some(mut tail) = connection.tail.take() else {
                let taken = self.take_frames(now, key, bytes);
                let payer = self.state.connections.note_arrival(now, key, taken);
                self.state.meters.count_input(payer, taken);
                self.keep_tail(now, key, &bytes[taken..]);
                break;
            };
            let len = if phase == Phase::Open { len_to_complete(&tail, bytes) } else { bytes.len() };
            let (first, behind) = bytes.split_at(len);
            append_to_tail(&mut self.state.memory, phase, &mut tail, first);
            self.take_frames_of_tail(now, key, tail);
            if behind.is_empty() {
                break;
            }
            bytes = behind;
        }
        parking!(self).check_output(key);
        // A refused packet has ended its connection, and other publishers may continue.
        self.after_frame(now);
    }

    #[expect(clippy::box_collection, reason = "the connection owns it as one pointer")]
    fn take_frames_of_tail(&mut self, now: Now, key: ConnectionKey, mut tail: Box<Vec<u8>>) {
        let taken = self.take_frames(now, key, &tail);
        let payer = self.state.connections.note_arrival(now, key, taken);
        self.state.meters.count_input(payer, taken);
        self.state.memory.held -= taken as u64;
        self.state.memory.input_bytes -= taken as u64;
        let rest = tail.len() - taken;
        let Some(connection) = self.state.connections.get_mut(key) else {
            self.state.memory.held -= rest as u64;
            self.state.memory.input_bytes -= rest as u64;
            return;
        };
        if rest > 0 {
            tail.drain(..taken);
            if tail.capacity() > TAIL_KEEP_BYTES && tail.capacity() / 4 > tail.len() {
                // Only the waiting bytes are counted, so a large buffer must not be kept for a few bytes.
                tail.shrink_to_fit();
            }
            connection.tail = Some(tail);
            self.state.memory.connect_bytes += connection.unfinished_connect();
            self.check_tail(now, key);
        }
    }

    /// Keeps the rest of the input, an incomplete packet as a rule.
    fn keep_tail(&mut self, now: Now, key: ConnectionKey, rest: &[u8]) {
        if rest.is_empty() {
            return;
        }
        let Some(connection) = self.state.connections.get_mut(key) else { return };
        connection.tail = Some(Box::new(rest.to_vec()));
        self.state.memory.connect_bytes += connection.unfinished_connect();
        self.state.memory.held += rest.len() as u64;
        self.state.memory.input_bytes += rest.len() as u64;
        self.check_tail(now, key);
    }

    fn check_tail(&mut self, now: Now, key: ConnectionKey) {
        self.state.memory.lower_excess();
        let over_ceiling = self.state.memory.is_far_over_ceiling();
        let limit = self.state.settings.limits.pipelined_bytes as usize;
        let Some(connection) = self.state.connections.get(key) else { return };
        let tail = connection.tail.as_ref().map_or(&[][..], |tail| tail);
        let is_long_connect = connection.phase == Phase::AwaitConnect
            && tail.len() > CONNECT_KEEP_BYTES
            && !begins_continuation(&self.state.settings, connection, tail);
        if connection.phase == Phase::Authenticating && tail.len() > limit {
            self.close_connection(now, key, Reason::PipelinedTooMuch, None);
        } else if (is_long_connect && self.state.memory.are_connects_beyond_part())
            || (over_ceiling && connection.phase != Phase::Closing)
        {
            self.close_connection(now, key, Reason::MemoryCeiling, None);
        }
    }

    /// Takes as many whole frames as there are and may be taken; returns how many bytes they were.
    fn take_frames(&mut self, now: Now, key: ConnectionKey, bytes: &[u8]) -> usize {
        let before = self.state.to_write.begin_input();
        let outer = Gathered(&mut self.state).begin(key);
        let taken = self.take_each_frame(now, key, bytes);
        Gathered(&mut self.state).end(outer);
        self.state.to_write.end_input(before);
        taken
    }

    fn take_each_frame(&mut self, now: Now, key: ConnectionKey, bytes: &[u8]) -> usize {
        let mut taken = 0;
        let Some(connection) = self.state.connections.get(key) else { return bytes.len() };
        let mut max = max_packet_size(self.state.settings.listener(connection.listener), &self.broker_links);
        loop {
            let Some(connection) = self.state.connections.get(key) else { return bytes.len() };
            if !self.state.to_close.is_empty() && self.state.to_close.iter().any(|(other, ..)| *other == key) {
                // It may have been resumed before the close is worked off. The client sends these packets again.
                return bytes.len();
            }
            match connection.phase {
                Phase::Closing => return bytes.len(),
                Phase::Authenticating | Phase::AwaitHome => return taken,
                Phase::AwaitConnect | Phase::AwaitConnAck | Phase::AwaitAuth | Phase::Open => {}
            }
            let rest = &bytes[taken..];
            if rest.is_empty() {
                return taken;
            }
            // The frame is used where it is found: a copy of it would wait for the stores of its single bytes.
            let result = match split_frame(rest, max) {
                Ok(None) if connection.phase == Phase::AwaitConnect => match check_first_byte(rest) {
                    Ok(()) => return taken,
                    Err(refused) => Err(refused),
                },
                Ok(None) => return taken,
                Ok(Some(frame)) => {
                    let len = frame.total_len;
                    self.take_frame(now, key, &frame, rest).map(|flow| (flow, len))
                }
                Err(FrameError::TooLarge { .. }) if connection.promised_size() > max => {
                    max = connection.promised_size();
                    continue;
                }
                Err(_) if begins_continuation(&self.state.settings, connection, rest) => {
                    self.homes().take_continuation(key, rest)
                }
                Err(_) if is_end_of_edge(&self.state.settings, connection, rest) => {
                    if rest.len() < EDGE_STOPS.len() {
                        return taken;
                    }
                    self.homes().end_of_edge(now, key);
                    return bytes.len();
                }
                Err(error) => Err(Refused { reason: Reason::of_code(error.reason_code()), detail: error.to_string() }),
            };
            match result {
                Ok((Flow::Next, len)) => taken += len,
                Ok((Flow::NextBehind(behind), len)) => taken += len + behind,
                Ok((Flow::Hold, _)) => return taken,
                Ok((Flow::HandOver(home), _)) => {
                    self.homes().hand_over(key, home, rest.to_vec());
                    return bytes.len();
                }
                Err(refused) => {
                    self.refuse(now, key, refused);
                    return bytes.len();
                }
            }
            self.after_frame(now);
        }
    }

    /// Takes the first packet of `rest`.
    #[inline]
    fn take_frame(&mut self, now: Now, key: ConnectionKey, frame: &Frame<'_>, rest: &[u8]) -> Result<Flow, Refused> {
        let Some(connection) = self.state.connections.get(key) else { return Ok(Flow::Hold) };
        if connection.listener == BROKER_LINK_LISTENER {
            return self.fleet().take_broker_link_frame(now, key, frame, rest);
        }
        let (version, listener) = (connection.version, connection.listener);
        let packet_type = frame.packet_type();
        if connection.phase == Phase::AwaitConnect {
            self.state.counters.packets_in[packet_type as usize] += 1;
            check_first_byte(rest)?;
            return Ok(self.entry().handle_connect(now, key, frame));
        }
        if connection.phase == Phase::AwaitAuth && !matches!(packet_type, PacketType::Auth | PacketType::Disconnect) {
            return Err(Refused::new(Reason::ProtocolError, "AUTH is awaited"));
        }
        if connection.is_parked() && !passes_parked(packet_type) && !self.questions().is_repetition(key, version, frame)
        {
            return Ok(parking!(self).park_frame(key, &rest[..frame.total_len]));
        }
        self.state.counters.packets_in[packet_type as usize] += 1;
        Gathered(&mut self.state).write_before(packet_type);
        match packet_type {
            PacketType::Publish => {
                let listener = self.state.settings.listener(listener);
                let limits_rate =
                    listener.is_some_and(ListenerSettings::limits_rate) || self.state.tenants.limit_rates();
                if self.pipeline().handle_publish(now, key, version, frame)? == Progress::Deferred {
                    self.state.counters.packets_in[packet_type as usize] -= 1;
                    return Ok(parking!(self).park_frame(key, &rest[..frame.total_len]));
                }
                if limits_rate {
                    parking!(self).charge_rate(now, key, frame.total_len);
                } else if self.broker_links.brokers.config.is_on() {
                    let behind = &rest[frame.total_len..];
                    return Ok(Flow::next_behind(
                        self.pipeline().publish_run_to_fleet(now, key, version, frame, behind),
                    ));
                }
            }
            PacketType::PubAck => {
                let behind = &rest[frame.total_len..];
                let further = acknowledging!(self).handle_pub_acks(now, key, version, frame, behind)?;
                return Ok(Flow::next_behind(further * ACK_LEN));
            }
            PacketType::PubRec => acknowledging!(self).handle_pub_rec(now, key, version, frame)?,
            PacketType::PubRel => acknowledging!(self).handle_pub_rel(key, version, frame)?,
            PacketType::PubComp => acknowledging!(self).handle_pub_comp(now, key, version, frame)?,
            PacketType::Subscribe => self.steps().handle_subscribe(now, key, version, frame)?,
            PacketType::Unsubscribe => self.steps().handle_unsubscribe(now, key, version, frame)?,
            PacketType::PingReq => {
                tidegate_mqtt::PingReq::decode(version, frame.first_byte, frame.body)?;
                let mut answer = Vec::new();
                PingResp.encode(&mut answer);
                self.state.send_ahead(key, PacketType::PingResp, &answer);
            }
            PacketType::Disconnect => self.handle_disconnect(now, key, version, frame)?,
            PacketType::Auth => connecting!(self).handle_auth(now, key, version, frame)?,
            PacketType::Connect => return Err(Refused::new(Reason::ProtocolError, "a second CONNECT")),
            PacketType::ConnAck | PacketType::SubAck | PacketType::UnsubAck | PacketType::PingResp => {
                return Err(Refused::new(Reason::ProtocolError, format!("{packet_type} is sent by servers only")));
            }
        }
        Ok(Flow::Next)
    }

    pub(crate) fn handle_disconnect(
        &mut self,
        now: Now,
        key: ConnectionKey,
        version: Version,
        frame: &Frame<'_>,
    ) -> Result<(), Refused> {
        let disconnect = Disconnect::decode(version, frame.first_byte, frame.body)?;
        let session = self.state.connections.session_of(key).and_then(|session| self.state.sessions.get_mut(session.0));
        if let Some(seconds) = disconnect.session_expiry_interval
            && let Some(session) = session
        {
            if session.expiry_seconds == 0 && seconds != 0 {
                return Err(Refused::new(
                    Reason::ProtocolError,
                    "DISCONNECT gives a session expiry although CONNECT gave none",
                ));
            }
            session.expiry_seconds = seconds.min(self.state.settings.limits.max_session_expiry_seconds);
        }
        let reason = match disconnect.reason_code {
            ReasonCode::Success => Reason::NormalDisconnect,
            _ => Reason::DisconnectWithWill,
        };
        self.end_connection(now, key, reason, None);
        Ok(())
    }
}

impl HomeCalls<'_> {
    /// Gives a connection to the shard that its client lives on.
    fn hand_over(&mut self, key: ConnectionKey, home: ShardId, bytes: Vec<u8>) {
        let Some(connection) = self.engine.state.connections.get(key) else { return };
        let listener = connection.listener;
        self.engine.release_connection(key);
        // The connection and its bytes are counted at their new home.
        self.engine.state.counters.sockets_opened -= 1;
        if bytes.first() != Some(&RELAY_FRAME) {
            self.engine.state.counters.packets_in[PacketType::Connect as usize] -= 1;
        }
        self.engine.state.counters.bytes_in -= bytes.len() as u64;
        self.engine.state.events.push_back(Event::HandOver { key, home, listener, bytes });
    }
}

impl ShardQuestions<'_> {
    /// Whether a packet repeats a QoS 2 PUBLISH that was taken already. It is only answered, and so does not wait:
    /// behind the PUBREL of the first one, which does not wait either, it would look like a new message.
    #[cold]
    fn is_repetition(self, key: ConnectionKey, version: Version, frame: &Frame<'_>) -> bool {
        if !may_repeat(frame.first_byte) {
            return false;
        }
        let Ok(raw) = RawPublish::decode(version, frame.first_byte, frame.body) else { return false };
        let session =
            self.engine.state.connections.session_of(key).and_then(|session| self.engine.state.sessions.get(session.0));
        let received = session.and_then(|session| session.flow.as_ref()).map(|flow| &flow.received);
        frame.packet_type() == PacketType::Publish
            && raw.qos == QoS::ExactlyOnce
            && received.is_some_and(|received| raw.packet_id.is_some_and(|id| received.contains(id)))
    }
}

impl WaitingCalls<'_> {
    /// A queue has room again for a publisher, here or on its own shard.
    pub(crate) fn unpark_publisher(&mut self, now: Now, publisher: BlockedPublisher) {
        if publisher.shard == self.engine.place.shard {
            self.unpark(now, publisher.connection);
        } else {
            self.engine.links.send(publisher.shard, Record::Unpark { connection: publisher.connection });
        }
    }

    /// One queue or link less to wait for; the last one lets the publisher go on.
    pub(crate) fn unpark(&mut self, now: Now, key: ConnectionKey) {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        let Some(parked) = connection.extra.as_mut().and_then(|extra| extra.parked.as_mut()) else { return };
        parked.waits = parked.waits.saturating_sub(1);
        if parked.waits == 0 {
            self.resume_parked(now, key);
        }
    }

    /// A publisher has waited as long as it may. Queues that still block it drop its messages until they have room.
    pub(crate) fn give_up_parking(&mut self, now: Now, key: ConnectionKey) {
        if self.end_withheld(now, key) || self.keeps_waiting(now, key) {
            return;
        }
        if parking!(self.engine).waits_for_turn_alone(now, key) {
            return;
        }
        self.engine.services.observers.give_up(key);
        let shard = self.engine.place.shard;
        self.engine.cluster().give_up_blocking(BlockedPublisher { shard, connection: key });
        self.engine.links.forget_waiting(key);
        for shard in self.engine.links.roster.others() {
            self.engine.links.send(shard, Record::GiveUp { connection: key });
        }
        if !parking!(self.engine).waits_for_step(now, key) && !parking!(self.engine).waits_for_rate(key) {
            self.resume_parked(now, key);
        }
    }

    /// A parked publisher is gone. The packets that it had sent before are handled, its DISCONNECT above all.
    pub(crate) fn take_parked(&mut self, now: Now, key: ConnectionKey) {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        if connection.is_suspended() {
            self.take_goodbye(now, key);
        } else if connection.is_parked() {
            connection.leaving = true;
            self.engine.links.forget_waiting(key);
            self.resume_parked(now, key);
            self.engine.after_frame(now);
        }
    }

    /// Handles the parked packets, then the unread input.
    fn resume_parked(&mut self, now: Now, key: ConnectionKey) {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        let connection_listener = connection.listener;
        let Some(parked) = connection.extra.as_mut().and_then(|extra| extra.parked.take()) else { return };
        self.engine.groups.dealers.waiting.remove(&key);
        self.engine.state.timers.cancel(parked.until, Timer::Parked(key));
        self.engine.state.memory.held -= parked.bytes.len() as u64;
        self.engine.state.memory.input_bytes -= parked.bytes.len() as u64;
        if connection_listener == PRINCIPAL_LISTENER {
            return self.engine.insiders().resume_principal(now, key);
        }
        // If a packet among these fills a queue again, the rest is parked again by the same way.
        let mut taken = self.engine.services.observers.len_of_given_up(key, &parked.bytes);
        if taken > 0 {
            taken = self.engine.take_frames(now, key, &parked.bytes[..taken]);
            let waits_again = self.engine.state.connections.get(key).is_some_and(Connection::is_parked);
            if !waits_again {
                self.engine.services.observers.end_giving_up(key);
            }
        }
        taken += self.engine.take_frames(now, key, &parked.bytes[taken..]);
        debug_assert!(taken == parked.bytes.len() || self.engine.state.connections.get(key).is_none_or(|c| c.paused));
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        if connection.is_parked() {
            return;
        }
        if connection.paused {
            connection.paused = false;
            self.engine.state.events.push_back(Event::ResumeReading { key });
        }
        if let Some(tail) = connection.tail.take() {
            self.engine.take_frames_of_tail(now, key, tail);
        }
    }
}

/// A buffer for unfinished packets that is larger than this is made smaller when little is left in it.
const TAIL_KEEP_BYTES: usize = 128 * 1024;

/// Bytes of an unfinished CONNECT that are kept although such packets take their part of the ceiling: most are shorter.
const CONNECT_KEEP_BYTES: usize = 4 * 1024;

/// Whether the packet with this first byte may be a QoS 2 PUBLISH, which alone repeats another one.
#[inline]
fn may_repeat(first_byte: u8) -> bool {
    const QOS_BITS: u8 = 0b0110;
    const EXACTLY_ONCE: u8 = 0b0100;
    first_byte & QOS_BITS == EXACTLY_ONCE
}

/// Packets that a parked publisher may still send: packets that free waiting messages, and packets that keep it alive.
fn passes_parked(packet_type: PacketType) -> bool {
    matches!(
        packet_type,
        PacketType::PubAck
            | PacketType::PubRec
            | PacketType::PubRel
            | PacketType::PubComp
            | PacketType::PingReq
            | PacketType::Auth
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_protocols_are_recognised() {
        let detail = |bytes: &[u8]| check_first_byte(bytes).unwrap_err().detail;
        for (bytes, word) in [
            (&b"\x16\x03\x01\x02\x00\x01"[..], "speaks TLS"),
            (b"GET / HTTP/1.1\r\n", "speaks HTTP"),
            (b"PROXY TCP4 192.0.2.1", "`proxy_protocol`"),
            (b"\r\n\r\n\0\r\nQUIT\n\x21", "`proxy_protocol`"),
        ] {
            assert!(detail(bytes).contains(word), "{}", detail(bytes));
        }
        for bytes in [&b"\x1f\x80\x80\x80\x80"[..], b"GETTING", b"\r\n", b"SSH-2.0", b"\x14\x0e\0\x04MQTT"] {
            assert!(detail(bytes).ends_with("as of a CONNECT"), "{}", detail(bytes));
        }
    }

    #[test]
    fn flags_of_a_connect_of_mqtt_31_are_not_looked_at() {
        for whole in [&b"\x14\x0e\0\x06MQIsdp\x03"[..], b"\x1f\x81\x01\0\x06MQIsdp\x03"] {
            for len in 0..=whole.len() {
                assert!(check_first_byte(&whole[..len]).is_ok(), "{len} bytes");
            }
        }
    }
}
