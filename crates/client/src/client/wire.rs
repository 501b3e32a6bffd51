//! The connection to the server: its phase, its limits, and the packets that are sent on it.

use std::collections::VecDeque;
use std::time::Instant;

use tidegate_mqtt::{EncodeError, Packet, PacketType, PingReq, Version};

use super::Phase;
use crate::keep_alive::KeepAlive;
use crate::output::Output;
use crate::spares::Spares;
use crate::{Direction, Event, Options, ServerLimits, Trace, trace};

/// Owns the connection and the events, which all parts of a client add to.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) options: Options,
    pub(super) phase: Phase,
    /// The server's limits, by the CONNACK of the present connection.
    pub(super) server: ServerLimits,
    pub(super) keep_alive: KeepAlive,
    pub(super) output: Output,
    pub(super) events: VecDeque<Event>,
    pub(super) spares: Spares,
}

impl Wire {
    pub(super) fn new(options: Options, now: Instant) -> Self {
        Self {
            options,
            phase: Phase::Closed,
            server: ServerLimits::NONE,
            keep_alive: KeepAlive::new(0, now),
            output: Output::default(),
            events: VecDeque::new(),
            spares: Spares::default(),
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.phase == Phase::Connected
    }

    /// True while packets of the server are handled.
    pub(super) fn reads(&self) -> bool {
        matches!(self.phase, Phase::Connecting { .. } | Phase::Connected)
    }

    /// The version, and the limit of the server on a packet.
    pub(super) fn encoding(&self) -> (Version, u32) {
        (self.options.version, self.server.maximum_packet_size)
    }

    pub(super) fn push(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Appends a packet to the output.
    pub(super) fn send<E>(
        &mut self,
        now: Instant,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let len = self.output.buffer().len();
        encode(self.output.buffer())?;
        self.keep_alive.sent(now);
        if self.options.trace {
            let sent = self.output.since(len);
            if let Some((packet, detail)) = trace::describe_bytes(self.options.version, sent) {
                let packet = packet.packet_type();
                self.push_trace(Direction::Sent, packet, detail);
            }
        }
        Ok(())
    }

    pub(super) fn trace(&mut self, direction: Direction, packet: &Packet<'_>) {
        self.push_trace(direction, packet.packet_type(), trace::describe(packet));
    }

    fn push_trace(&mut self, direction: Direction, packet: PacketType, detail: String) {
        self.events.push_back(Event::Trace(Box::new(Trace { direction, packet, detail })));
    }

    pub(super) fn ping(&mut self, now: Instant) {
        // A PINGREQ always has an encoding.
        let _ = self.send(now, |out| {
            PingReq.encode(out);
            Ok::<(), EncodeError>(())
        });
        self.keep_alive.ping_sent(now);
    }
}
