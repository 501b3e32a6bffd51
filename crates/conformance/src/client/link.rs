//! The connection of a client: its bytes, their journal and the checks of every packet.

use std::rc::Rc;
use std::time::{Duration, Instant};

use super::{Arrival, name_of};
use crate::journal::Journal;
use crate::monitor::Monitor;
use crate::outcome::{Outcome, Stop, ensure, failed};
use crate::tcp::Reading;
use crate::transport::Transport;
use crate::version::Version;
use crate::wire::packet::{Frame, frame};
use crate::wire::reader::Fault;
use crate::wire::{Connect, Packet};

/// A connection that records its bytes and checks each packet that arrives.
#[derive(Debug)]
pub(crate) struct Link {
    /// The client's name, for the journal and for failures.
    name: String,
    version: Version,
    transport: Transport,
    inbound: Vec<u8>,
    monitor: Monitor,
    journal: Rc<Journal>,
}

impl Link {
    pub(super) fn new(name: &str, version: Version, transport: Transport, journal: Rc<Journal>) -> Self {
        let monitor = Monitor::new(version);
        Self { name: name.to_owned(), version, transport, inbound: Vec::new(), monitor, journal }
    }

    /// Sends bytes as they are.
    pub(super) fn send(&mut self, bytes: &[u8], patience: Duration) -> Outcome {
        let name = bytes.first().map_or_else(String::new, |first| name_of(*first));
        self.journal.bytes(&self.name, "->", &name, bytes);
        let open = self.transport.write(bytes, patience)?;
        ensure!(open, "{}: the broker has closed the connection before {name} was sent", self.name);
        Ok(())
    }

    /// Takes the limits and the session of a CONNECT into account that the case sends by other means.
    pub(crate) fn note_connect(&mut self, connect: &Connect) {
        self.monitor.announce(connect);
        if connect.is_persistent() && !connect.client_id.is_empty() {
            self.journal.leaves_session(&connect.client_id, connect.version);
        }
    }

    /// Records that a topic has a retained message now.
    pub(super) fn note_retained(&self, topic: &str) {
        self.journal.leaves_retained(topic);
    }

    /// Records that the case has acknowledged a message for good.
    pub(crate) fn note_acknowledged(&mut self, packet_id: u16) {
        self.monitor.acknowledged(packet_id);
    }

    /// The arrival until the deadline.
    pub(super) fn arrival_until(&mut self, deadline: Instant) -> Outcome<Arrival> {
        loop {
            if let Some(packet) = self.split_packet()? {
                return Ok(Arrival::Packet(packet));
            }
            match self.transport.read(&mut self.inbound, deadline)? {
                Reading::Bytes => {}
                Reading::Closed => {
                    self.journal.note(&self.name, "<- closed by the broker");
                    return Ok(Arrival::Closed);
                }
                Reading::TimedOut => {
                    self.journal.note(&self.name, "<- nothing");
                    return Ok(Arrival::Silence);
                }
            }
        }
    }

    fn split_packet(&mut self) -> Outcome<Option<Packet>> {
        let failed = |fault: Fault, name: &str| Stop::Failed(format!("{name}: {fault}"));
        let found = frame(&self.inbound).map_err(|fault| failed(fault, &self.name))?;
        let Some(Frame { first_byte, body, length }) = found else {
            return Ok(None);
        };
        let decoded = Packet::decode(first_byte, body, self.version);
        let bytes: Vec<u8> = self.inbound.drain(..length).collect();
        self.journal.bytes(&self.name, "<-", &name_of(first_byte), &bytes);
        let packet = decoded.map_err(|fault| failed(fault, &self.name))?;
        self.monitor.check(&packet, length).map_err(|stop| prefix(stop, &self.name))?;
        Ok(Some(packet))
    }

    /// Ends the stream, and returns when the broker has closed its side.
    pub(super) fn finish(mut self, patience: Duration) -> Outcome {
        self.transport.finish_sending();
        let deadline = Instant::now() + patience;
        // Earlier packets may still arrive; only the end of the stream matters here.
        loop {
            self.inbound.clear();
            match self.transport.read(&mut self.inbound, deadline)? {
                Reading::Bytes => {}
                Reading::Closed => return Ok(()),
                Reading::TimedOut => return failed(format!("{}: the broker does not close its side", self.name)),
            }
        }
    }

    /// Records in the journal that the stream ends without DISCONNECT.
    pub(super) fn note_drop(&self) {
        self.journal.note(&self.name, "-> end of the stream, no DISCONNECT");
    }
}

fn prefix(stop: Stop, name: &str) -> Stop {
    match stop {
        Stop::Failed(fault) => Stop::Failed(format!("{name}: {fault}")),
        Stop::Skipped(why) => Stop::Skipped(why),
    }
}
