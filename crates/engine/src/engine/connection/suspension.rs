//! Connections that wait continue.

use crate::engine::facets::WaitingCalls;
use crate::events::reason::Reason;
use crate::flows::contexts::parking;
use crate::ids::{ConnectionKey, Partitions};
use crate::now::Now;
use crate::orchestrator::homes::Home;
use crate::timers::Timer;
use tidegate_mqtt::{PacketType, split_frame};

impl WaitingCalls<'_> {
    /// A table is in force: each suspended client is served, keeps waiting, or is refused here.
    pub(crate) fn end_suspension(&mut self, now: Now) {
        for (key, partition) in parking!(self.engine).suspended() {
            match (self.engine.homes.home_of(&self.engine.state, partition), self.engine.homes.meant(partition)) {
                (Home::Here, _) => self.go_on(now, key),
                (Home::Nowhere, Home::Here) if self.engine.homes.is_patient(now) => {}
                (home, _) => self.send_on(now, key, home),
            }
        }
    }

    fn go_on(&mut self, now: Now, key: ConnectionKey) {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        connection.extra_mut().suspended = false;
        if connection.output.as_mut().is_some_and(|output| output.go_on()) {
            self.engine.state.to_write.note(connection, key);
        }
        connection.last_seen = now.monotonic;
        parking!(self.engine).go_on_with_steps(key);
        self.unpark(now, key);
        self.engine.after_frame(now);
    }

    fn send_on(&mut self, now: Now, key: ConnectionKey, home: Home) {
        let elsewhere = matches!(home, Home::At(_));
        // A will that is another's to publish is not published here.
        self.engine.handover.exporting = elsewhere;
        self.end_waiting(now, key, if elsewhere { Reason::UseAnotherServer } else { Reason::NotServedHere });
        self.engine.handover.exporting = false;
    }

    /// Sends clients on whose partitions another place serves.
    pub(crate) fn send_on_all_of(&mut self, now: Now, partitions: Partitions) {
        for (key, partition) in parking!(self.engine).suspended() {
            if partitions.has(partition) {
                self.engine.handover.exporting = true;
                self.end_waiting(now, key, Reason::NotServedHere);
                self.engine.handover.exporting = false;
            }
        }
    }

    /// Ends a connection, which may be of a client that waits. Withheld answers are not sent: another server gives them.
    /// A client without withheld answers receives the reason.
    pub(crate) fn end_waiting(&mut self, now: Now, key: ConnectionKey, reason: Reason) {
        let Some(connection) = self.engine.state.connections.get_mut(key) else { return };
        if connection.is_suspended() && connection.output.as_ref().is_none_or(|output| output.is_empty()) {
            connection.extra_mut().suspended = false;
            if let Some(output) = connection.output.as_mut() {
                output.go_on();
            }
        }
        self.engine.close_connection(now, key, reason, None);
    }

    /// A waiting client has closed its connection. None of its packets was acknowledged, so it may send them elsewhere.
    /// Only its DISCONNECT counts.
    pub(crate) fn take_goodbye(&mut self, now: Now, key: ConnectionKey) {
        let Some(connection) = self.engine.state.connections.get(key) else { return };
        let version = connection.version;
        let parked = connection.extra.as_ref().and_then(|extra| extra.parked.as_ref());
        let kept = parked.map(|parked| parked.bytes.clone()).unwrap_or_default();
        let mut rest = &kept[..];
        while let Ok(Some(frame)) = split_frame(rest, u32::MAX) {
            if frame.packet_type() == PacketType::Disconnect {
                // A malformed packet has no effect, and the client is gone in any case.
                let _ = self.engine.handle_disconnect(now, key, version, &frame);
                return;
            }
            rest = &rest[frame.total_len..];
        }
    }

    /// True if a client keeps waiting beyond its timeout because its node has no lease. In the end a client that has
    /// sent something is refused.
    pub(crate) fn keeps_waiting(&mut self, now: Now, key: ConnectionKey) -> bool {
        let is_patient = self.engine.homes.is_patient(now);
        let limit = now.monotonic.plus(self.engine.state.settings.limits.block_timeout_ms);
        let Some(connection) = self.engine.state.connections.get_mut(key).filter(|it| it.is_suspended()) else {
            return false;
        };
        let Some(parked) = connection.extra.as_mut().and_then(|extra| extra.parked.as_mut()) else { return false };
        if is_patient || parked.bytes.is_empty() {
            parked.until = limit;
            self.engine.state.timers.set(limit, Timer::Parked(key));
            return true;
        }
        self.end_waiting(now, key, Reason::NotServedHere);
        true
    }
}
