//! Waiting for exactly one thing, and for the absence of everything.

use super::{Arrival, Client, Connack, describe};
use crate::outcome::{Outcome, ensure, failed, skipped};
use crate::version::Version;
use crate::wire::{Acknowledgement, Packet, PacketType, Publish};
use std::time::{Duration, Instant};

impl Client {
    /// The next packet of this type. Others that come before it are kept for later, in their order.
    pub(crate) fn expect(&mut self, kind: PacketType) -> Outcome<Packet> {
        let kept = self.stash.iter().position(|packet| packet.packet_type() == kind);
        if let Some(packet) = kept.and_then(|index| self.stash.remove(index)) {
            return Ok(packet);
        }
        loop {
            match self.arrival()? {
                Arrival::Packet(packet) if packet.packet_type() == kind => return Ok(packet),
                Arrival::Packet(packet @ Packet::Disconnect { .. }) => {
                    return failed(format!("{}: expected {kind}, got {}", self.name, describe(&packet)));
                }
                Arrival::Packet(packet) => self.stash.push_back(packet),
                Arrival::Closed => {
                    return failed(format!("{}: expected {kind}, the broker closed the connection", self.name));
                }
                Arrival::Silence => {
                    return failed(format!(
                        "{}: expected {kind}, nothing came for {} s",
                        self.name,
                        self.patience.as_secs_f32()
                    ));
                }
            }
        }
    }

    /// A CONNACK that accepts.
    pub(crate) fn expect_connack(&mut self) -> Outcome<Connack> {
        let packet = self.expect(PacketType::Connack)?;
        let Packet::Connack { session_present, code, properties } = packet else {
            return failed(format!("{}: expected CONNACK", self.name));
        };
        ensure!(code == 0, "{}: the broker refused the connection with 0x{code:02x}", self.name);
        Ok(Connack { session_present, properties })
    }

    /// An acknowledgement of this type for this packet identifier.
    pub(crate) fn expect_acknowledgement(&mut self, kind: PacketType, packet_id: u16) -> Outcome<Acknowledgement> {
        let Packet::Acknowledgement(_, acknowledgement) = self.expect(kind)? else {
            return failed(format!("{}: expected {kind}", self.name));
        };
        ensure!(
            acknowledgement.packet_id == packet_id,
            "{}: {kind} carries packet identifier {} instead of {packet_id}",
            self.name,
            acknowledgement.packet_id
        );
        Ok(acknowledgement)
    }

    /// The same, which must tell success: a reason code below 0x80.
    pub(crate) fn expect_success(&mut self, kind: PacketType, packet_id: u16) -> Outcome<Acknowledgement> {
        let acknowledgement = self.expect_acknowledgement(kind, packet_id)?;
        let code = acknowledgement.code();
        ensure!(code < 0x80, "{}: {kind} of packet {packet_id} tells error 0x{code:02x}", self.name);
        Ok(acknowledgement)
    }

    /// The next message, not acknowledged.
    pub(crate) fn message(&mut self) -> Outcome<Publish> {
        match self.expect(PacketType::Publish)? {
            Packet::Publish(publish) => Ok(publish),
            other => failed(format!("{}: expected PUBLISH, got {}", self.name, describe(&other))),
        }
    }

    /// The next message, not acknowledged, which must have this payload.
    pub(crate) fn message_with(&mut self, payload: impl AsRef<[u8]>) -> Outcome<Publish> {
        let publish = self.message()?;
        let expected = payload.as_ref();
        ensure!(
            publish.payload == expected,
            "{}: expected the message `{:.40}`, got {}",
            self.name,
            String::from_utf8_lossy(expected),
            describe(&Packet::Publish(publish))
        );
        Ok(publish)
    }

    /// Nothing is under way to this client: PINGRESP is the next packet, and nothing was left unread before.
    pub(crate) fn expect_nothing(&mut self) -> Outcome {
        self.ping()?;
        if let Some(packet) = self.stash.front() {
            return failed(format!("{}: {} came, nothing was expected", self.name, describe(packet)));
        }
        Ok(())
    }

    /// Nothing at all arrives for this long. Only for statements on the passage of time; it also lets that time pass.
    pub(crate) fn expect_quiet_for(&mut self, time: Duration) -> Outcome {
        match self.arrival_within(time)? {
            Arrival::Silence => Ok(()),
            Arrival::Closed => failed(format!("{}: the broker closed the connection", self.name)),
            Arrival::Packet(packet) => failed(format!("{}: {} came unasked", self.name, describe(&packet))),
        }
    }

    /// The broker ends this connection because of an error of the client: in MQTT 5 perhaps after a DISCONNECT with one
    /// of these reason codes, before MQTT 5 without a word.
    pub(crate) fn expect_error_close(&mut self, codes: &[u8]) -> Outcome {
        let told = self.expect_close()?;
        match told {
            Some(code) => {
                let known = codes.is_empty() || codes.contains(&code);
                ensure!(
                    code >= 0x80 && (known || !self.strict),
                    "{}: DISCONNECT with 0x{code:02x}, expected one of {codes:02x?}",
                    self.name
                );
            }
            None => ensure!(
                !self.strict || self.version != Version::V5,
                "{}: closed without a DISCONNECT, expected one of {codes:02x?} (strict)",
                self.name
            ),
        }
        Ok(())
    }

    /// The broker ends this connection; the reason code of its DISCONNECT, if it sent one. Other packets that were
    /// under way are kept for later.
    pub(crate) fn expect_close(&mut self) -> Outcome<Option<u8>> {
        let deadline = Instant::now() + self.patience;
        let mut told = None;
        loop {
            match self.arrival_within(deadline.saturating_duration_since(Instant::now()))? {
                Arrival::Closed => return Ok(told),
                Arrival::Packet(Packet::Disconnect { code, .. }) => told = Some(code),
                Arrival::Packet(packet) => self.stash.push_back(packet),
                Arrival::Silence => {
                    return failed(format!("{}: the broker did not close the connection", self.name));
                }
            }
        }
    }

    /// The broker refuses the CONNECT: perhaps with CONNACK, whose code is one of these when the list is not empty,
    /// then by closing. Returns the code if it sent one.
    pub(crate) fn expect_refusal(&mut self, codes: &[u8]) -> Outcome<Option<u8>> {
        let told = match self.arrival()? {
            Arrival::Closed => return Ok(None),
            Arrival::Packet(Packet::Connack { code, .. }) => code,
            Arrival::Packet(packet) => {
                return failed(format!("{}: expected a refusal, got {}", self.name, describe(&packet)));
            }
            Arrival::Silence => return failed(format!("{}: expected a refusal, nothing came", self.name)),
        };
        ensure!(told != 0, "{}: the broker accepts a CONNECT that it has to refuse", self.name);
        ensure!(
            codes.is_empty() || codes.contains(&told),
            "{}: CONNACK with 0x{told:02x}, expected one of {codes:02x?}",
            self.name
        );
        match self.arrival()? {
            Arrival::Closed => Ok(Some(told)),
            Arrival::Packet(packet) => failed(format!("{}: {} after a refusal", self.name, describe(&packet))),
            Arrival::Silence => failed(format!(
                "MQTT-3.2.2-7 (3.1.1: MQTT-3.2.2-5): {}: the connection stays open after CONNACK 0x{told:02x}",
                self.name
            )),
        }
    }

    /// A malformed CONNECT: refused in MQTT 5 perhaps with one of these codes, before MQTT 5 closed without CONNACK
    /// [MQTT-3.1.4-1].
    pub(crate) fn expect_malformed_connect(&mut self, codes: &[u8]) -> Outcome {
        let told = self.expect_refusal(if self.strict { codes } else { &[] })?;
        ensure!(
            told.is_none() || self.version == Version::V5,
            "MQTT-3.1.4-1: {}: CONNACK in answer to a malformed CONNECT of MQTT {}",
            self.name,
            self.version
        );
        Ok(())
    }

    /// A broker that says no where it may: the case cannot go on.
    pub(crate) fn accepted_or_skip(&mut self, feature: &str) -> Outcome<Connack> {
        match self.arrival()? {
            Arrival::Packet(Packet::Connack { session_present, code: 0, properties }) => {
                Ok(Connack { session_present, properties })
            }
            Arrival::Packet(Packet::Connack { code, .. }) => {
                skipped(format!("the broker refuses {feature} with 0x{code:02x}"))
            }
            Arrival::Closed => skipped(format!("the broker refuses {feature}")),
            Arrival::Packet(packet) => failed(format!("{}: expected CONNACK, got {}", self.name, describe(&packet))),
            Arrival::Silence => failed(format!("{}: expected CONNACK, nothing came", self.name)),
        }
    }
}
