//! One connection: bytes in, packets out, and the other way round. Never blocks once it is connected.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mio::net::TcpStream;
use tidegate_mqtt::{Frame, MAX_PACKET_SIZE, Packet, PacketId, QoS, ReasonCode, Version, split_frame};

use crate::failure::Failure;
use crate::ledger::ReceiptArrival;

/// How long the kernel may take to accept a connection on loopback.
const DIAL: Duration = Duration::from_secs(5);
/// Read at a time, in bytes.
const CHUNK: usize = 16 * 1024;

/// A packet from the broker, with the fields that the rig uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    ConnAck { present: bool, code: ReasonCode, receive_maximum: u16 },
    Publish(Delivery),
    PubAck { id: PacketId, code: ReasonCode },
    PubRec { id: PacketId, code: ReasonCode },
    PubRel { id: PacketId },
    PubComp { id: PacketId },
    SubAck { id: PacketId, codes: Vec<ReasonCode> },
    UnsubAck { id: PacketId },
    PingResp,
    Disconnect { code: ReasonCode },
}

/// A PUBLISH from the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: QoS,
    pub(crate) dup: bool,
    pub(crate) retain: bool,
    pub(crate) id: Option<PacketId>,
    /// The message that a receipt is about.
    pub(crate) correlation: Option<Vec<u8>>,
}

impl Delivery {
    pub(crate) fn receipt<'a>(&'a self, client: &'a str) -> ReceiptArrival<'a> {
        let Self { payload, dup, correlation, .. } = self;
        ReceiptArrival { correlation: correlation.as_deref(), payload, dup: *dup, client }
    }
}

/// A connection to the broker.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    version: Version,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes read and written in all.
    pub(crate) bytes: u64,
}

impl Wire {
    /// Connects to the broker on loopback.
    pub(crate) fn dial(port: u16, version: Version) -> io::Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = std::net::TcpStream::connect_timeout(&address, DIAL)?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: TcpStream::from_std(stream), version, input: Vec::new(), output: Vec::new(), bytes: 0 })
    }

    /// Begins to connect to the broker on loopback, without waiting for it.
    pub(crate) fn begin(port: u16, version: Version) -> io::Result<Self> {
        let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, version, input: Vec::new(), output: Vec::new(), bytes: 0 })
    }

    /// The socket, to be registered with a poll.
    pub(crate) fn source(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Puts a packet behind the waiting ones.
    pub(crate) fn push(&mut self, packet: &Packet<'_>) -> Result<(), Failure> {
        Ok(packet.encode(self.version, &mut self.output)?)
    }

    /// Writes what the socket takes. False when the connection is gone.
    pub(crate) fn flush(&mut self) -> bool {
        let mut written = 0;
        let alive = loop {
            let Some(rest) = self.output.get(written..).filter(|rest| !rest.is_empty()) else {
                break true;
            };
            match self.stream.write(rest) {
                Ok(0) => break false,
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break false,
            }
        };
        self.output.drain(..written);
        self.bytes += written as u64;
        alive
    }

    /// Reads the input. False when the connection is gone; earlier input is kept all the same.
    pub(crate) fn fill(&mut self) -> bool {
        let mut chunk = [0; CHUNK];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(count) => {
                    self.input.extend_from_slice(&chunk[..count]);
                    self.bytes += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Hands over the packets that are complete, undecoded, with the buffer for answers. True when there was one.
    pub(crate) fn each(
        &mut self,
        mut on: impl FnMut(&Frame<'_>, &mut Vec<u8>) -> Result<(), Failure>,
    ) -> Result<bool, Failure> {
        let mut used = 0;
        while let Ok(Some(frame)) = split_frame(&self.input[used..], MAX_PACKET_SIZE) {
            on(&frame, &mut self.output)?;
            used += frame.total_len;
        }
        self.input.drain(..used);
        Ok(used > 0)
    }

    /// The complete packets. The text describes input that is no MQTT.
    pub(crate) fn take(&mut self) -> (Vec<Incoming>, Option<String>) {
        let (mut packets, mut used, mut wrong) = (Vec::new(), 0, None);
        loop {
            match split_frame(&self.input[used..], MAX_PACKET_SIZE) {
                Ok(Some(frame)) => {
                    match Packet::decode(self.version, &frame) {
                        Ok(packet) => packets.extend(incoming(&packet)),
                        Err(error) => wrong = Some(error.to_string()),
                    }
                    used += frame.total_len;
                }
                Ok(None) => break,
                Err(error) => {
                    wrong = Some(error.to_string());
                    used = self.input.len();
                }
            }
        }
        self.input.drain(..used);
        (packets, wrong)
    }
}

/// The packet, if the rig uses it; `None` for packets that no server sends.
fn incoming(packet: &Packet<'_>) -> Option<Incoming> {
    Some(match packet {
        Packet::ConnAck(ack) => Incoming::ConnAck {
            present: ack.session_present,
            code: ack.reason_code,
            receive_maximum: ack.properties.receive_maximum.map_or(u16::MAX, std::num::NonZeroU16::get),
        },
        Packet::Publish(publish) => Incoming::Publish(Delivery {
            topic: publish.topic?.as_str().to_owned(),
            payload: publish.payload.to_vec(),
            qos: publish.qos,
            dup: publish.dup,
            retain: publish.retain,
            id: publish.packet_id,
            correlation: publish.properties.correlation_data.map(<[u8]>::to_vec),
        }),
        Packet::PubAck(ack) => Incoming::PubAck { id: ack.packet_id, code: ack.reason_code },
        Packet::PubRec(ack) => Incoming::PubRec { id: ack.packet_id, code: ack.reason_code },
        Packet::PubRel(ack) => Incoming::PubRel { id: ack.packet_id },
        Packet::PubComp(ack) => Incoming::PubComp { id: ack.packet_id },
        Packet::SubAck(ack) => Incoming::SubAck { id: ack.packet_id, codes: ack.reason_codes.iter().collect() },
        Packet::UnsubAck(ack) => Incoming::UnsubAck { id: ack.packet_id },
        Packet::PingResp(_) => Incoming::PingResp,
        Packet::Disconnect(disconnect) => Incoming::Disconnect { code: disconnect.reason_code },
        _ => return None,
    })
}
