//! The image of a connection: the part that continues at another node. The session moves with its
//! partition; bytes that the client has sent and that begin a packet move beside the image.

use crate::connection::alias::InboundAliases;
use crate::connection::terms::PromisedTerms;
use crate::events::reason::Reason;
use crate::identity::Proof;
use crate::ids::{PartitionId, TenantId, partition_of};
use crate::session::packet_ids::State;
use crate::wire::{WireError, WireReader, WireWrite};
use std::num::NonZeroU16;
use tidegate_mqtt::{PacketId, Version};

/// The layout of the bytes.
const LAYOUT: u8 = 3;

/// The first byte of a frame between two nodes on the connection of a relayed client. No MQTT packet begins with it.
pub const RELAY_FRAME: u8 = 0;

/// The kind of the frame with the image of a connection, for the new home: the partition (2 bytes, little-endian), and
/// bytes that the shell can prove.
pub const CONTINUE: u8 = 1;

/// Longest frame, bytes: topic aliases are most of it. A connection that needs a longer one does not leave.
pub const RELAY_FRAME_MAX: usize = 1024 * 1024;

/// Longest certificates that go along with a connection, bytes, with 4 for each one. The client of longer ones connects
/// again.
pub const SHOWN_MAX: usize = 16 * 1024;

/// Longest user name, bytes (MQTT 5, 1.5.4).
const USER_MAX: usize = 64 * 1024;

/// Room in a frame beside the engine's part of an image, bytes: for the certificates and the user name, which the shell
/// adds, the frame's head, the partition, lengths, the name of a listener and the proof.
pub(crate) const RELAY_FRAME_ROOM: usize = SHOWN_MAX + USER_MAX + 1024;

/// The frame with which the new home says that it has the connection.
pub const CONTINUED: [u8; 3] = [RELAY_FRAME, 1, 2];

/// The last bytes for the home of a relayed client whose edge stops, between two packets of the client.
pub const EDGE_STOPS: [u8; 3] = [RELAY_FRAME, 1, 6];

/// The image of a connection that has left its home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionImage {
    /// The tenant of the client.
    pub tenant: TenantId,
    /// The client id.
    pub client_id: Box<str>,
    /// The user whose connections include this one, proven or not. The shell sets it.
    pub counted_user: Option<Box<str>>,
    /// The certificate that the client has shown. The shell sets it.
    pub shown: Option<ShownCertificate>,
    /// When the proof of the client's identity ends, milliseconds since the Unix epoch.
    pub(crate) proof_ends: Option<u64>,
    /// The proof of the client's identity.
    pub(crate) proof: Option<Proof>,
    /// The method of enhanced authentication.
    pub(crate) method: Option<Box<str>>,
    /// The terms of its CONNACK.
    pub(crate) terms: PromisedTerms,
    /// Until when its session expects it, milliseconds since the Unix epoch. A session that its client has taken up since
    /// expects another time, or none.
    pub(crate) expected_until: u64,
    /// How long the session outlives the connection, seconds.
    pub(crate) expiry_seconds: u32,
    pub(crate) receive_maximum: u16,
    pub(crate) keep_alive: u16,
    pub(crate) max_packet_out: u32,
    /// Topic aliases that may be set towards the client. It learns them again.
    pub(crate) aliases_out: u16,
    /// Received QoS 2 messages of earlier connections.
    pub(crate) received_before: u32,
    pub(crate) version: Version,
    pub(crate) problem_information: bool,
    pub(crate) bridge: bool,
    /// Topic aliases that the client has set.
    pub(crate) aliases_in: Vec<(NonZeroU16, Box<str>)>,
    /// Messages in flight that would not be sent again: the image of the session does not have them.
    pub(crate) unkept: Vec<(PacketId, State)>,
}

/// The certificate that a client has shown to a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownCertificate {
    /// The name of the listener.
    pub listener: Box<str>,
    /// The certificate and those between it and an authority, DER.
    pub chain: Vec<Box<[u8]>>,
}

impl ShownCertificate {
    fn write(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.listener.as_bytes());
        out.put_u32(self.chain.len() as u32);
        for certificate in &self.chain {
            out.put_bytes(certificate);
        }
    }

    fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let mut shown = Self { listener: reader.text("a listener")?.into(), chain: Vec::new() };
        for _ in 0..reader.u32("a number of certificates")? {
            shown.chain.push(reader.bytes("a certificate")?.into());
        }
        Ok(shown)
    }
}

/// Appends a part that there may be.
fn put_part<T>(out: &mut Vec<u8>, part: Option<&T>, write: impl FnOnce(&T, &mut Vec<u8>)) {
    out.put_u8(u8::from(part.is_some()));
    if let Some(part) = part {
        write(part, out);
    }
}

/// Reads the form of [`put_part`].
fn read_part<'a, T>(
    reader: &mut WireReader<'a>,
    read: impl FnOnce(&mut WireReader<'a>) -> Result<T, WireError>,
) -> Result<Option<T>, WireError> {
    if reader.flag("whether there is a part")? { read(reader).map(Some) } else { Ok(None) }
}

impl ConnectionImage {
    /// The partition of the client.
    pub fn partition(&self) -> PartitionId {
        partition_of(self.tenant, &self.client_id)
    }

    /// The version of the protocol that the client speaks.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The size of the largest packet that the client takes, bytes.
    pub fn max_packet(&self) -> u32 {
        self.max_packet_out
    }

    /// The image as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u8(LAYOUT);
        out.put_u16(self.tenant.0);
        out.put_bytes(self.client_id.as_bytes());
        out.put_bytes(self.counted_user.as_deref().unwrap_or_default().as_bytes());
        put_part(&mut out, self.shown.as_ref(), ShownCertificate::write);
        put_part(&mut out, self.proof_ends.as_ref(), |ends, out| out.put_u64(*ends));
        put_part(&mut out, self.proof.as_ref(), Proof::write);
        put_part(&mut out, self.method.as_ref(), |method, out| out.put_bytes(method.as_bytes()));
        self.terms.write(&mut out);
        out.put_u64(self.expected_until);
        out.put_u32(self.expiry_seconds);
        out.put_u16(self.receive_maximum);
        out.put_u16(self.keep_alive);
        out.put_u32(self.max_packet_out);
        out.put_u16(self.aliases_out);
        out.put_u32(self.received_before);
        out.put_u8(match self.version {
            Version::V31 => 3,
            Version::V311 => 4,
            Version::V5 => 5,
        });
        out.put_u8(u8::from(self.problem_information));
        out.put_u8(u8::from(self.bridge));
        out.put_u32(self.aliases_in.len() as u32);
        for (alias, topic) in &self.aliases_in {
            out.put_u16(alias.get());
            out.put_bytes(topic.as_bytes());
        }
        out.put_u32(self.unkept.len() as u32);
        for (id, state) in &self.unkept {
            out.put_u16(id.get());
            out.put_u8(u8::from(*state == State::AwaitPubRec));
        }
        out
    }

    /// Reads an image.
    ///
    /// # Errors
    /// When the bytes are no image of this layout.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = WireReader::new(bytes);
        if reader.u8("a layout")? != LAYOUT {
            return Err(WireError { reading: "a known layout" });
        }
        let mut image = Self {
            tenant: TenantId(reader.u16("a tenant")?),
            client_id: reader.text("a client id")?.into(),
            counted_user: Some(reader.text("a user")?).filter(|user| !user.is_empty()).map(Into::into),
            shown: read_part(&mut reader, ShownCertificate::read)?,
            proof_ends: read_part(&mut reader, |reader| reader.u64("the end of a proof"))?,
            proof: read_part(&mut reader, Proof::read)?,
            method: read_part(&mut reader, |reader| Ok(reader.text("a method of authentication")?.into()))?,
            terms: PromisedTerms::read(&mut reader)?,
            expected_until: reader.u64("until when a client is expected")?,
            expiry_seconds: reader.u32("a session expiry")?,
            receive_maximum: reader.u16("a receive maximum")?,
            keep_alive: reader.u16("a keep-alive")?,
            max_packet_out: reader.u32("a maximum packet size")?,
            aliases_out: reader.u16("a topic alias maximum")?,
            received_before: reader.u32("a number of received messages")?,
            version: match reader.u8("a version")? {
                3 => Version::V31,
                4 => Version::V311,
                5 => Version::V5,
                _ => return Err(WireError { reading: "a version" }),
            },
            problem_information: reader.flag("a flag")?,
            bridge: reader.flag("a flag")?,
            aliases_in: Vec::new(),
            unkept: Vec::new(),
        };
        for _ in 0..reader.u32("a number of topic aliases")? {
            let alias = NonZeroU16::new(reader.u16("a topic alias")?).ok_or(WireError { reading: "a topic alias" })?;
            image.aliases_in.push((alias, reader.text("a topic")?.into()));
        }
        for _ in 0..reader.u32("a number of messages in flight")? {
            let id = PacketId::new(reader.u16("a packet id")?).ok_or(WireError { reading: "a packet id" })?;
            let state = if reader.flag("a state")? { State::AwaitPubRec } else { State::AwaitPubAck };
            image.unkept.push((id, state));
        }
        if image.client_id.is_empty() || !reader.is_empty() {
            return Err(WireError { reading: "the image of a connection" });
        }
        Ok(image)
    }

    /// The topic aliases that the client has set.
    pub(crate) fn inbound_aliases(&self) -> InboundAliases {
        let mut aliases = InboundAliases::default();
        for (alias, topic) in &self.aliases_in {
            aliases.set(*alias, topic, u16::MAX);
        }
        aliases
    }
}

/// Why a connection does not go on here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotContinued {
    /// The partition is not served here at the moment.
    NotHere,
    /// The session does not expect this connection: it has ended, or its client has connected again.
    NotExpected,
    /// The client cannot stay: its credential is not accepted here, or its terms cannot be kept. It learns the reason.
    Refused(Reason),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ListenerSettings, Settings};

    fn image() -> ConnectionImage {
        ConnectionImage {
            tenant: TenantId(7),
            client_id: "a client".into(),
            counted_user: Some("a user".into()),
            shown: Some(ShownCertificate { listener: "tls".into(), chain: vec![[1, 2, 3].into(), [4].into()] }),
            proof_ends: Some(1_700_000_009_000),
            proof: Some(Proof { provider: "users".into(), mark: [3; Proof::MARK_BYTES] }),
            method: Some("SCRAM-SHA-256".into()),
            terms: PromisedTerms::of(&Settings::default(), &ListenerSettings::default()),
            expected_until: 1_700_000_000_000,
            expiry_seconds: 0,
            receive_maximum: 20,
            keep_alive: 60,
            max_packet_out: u32::MAX,
            aliases_out: 10,
            received_before: 2,
            version: Version::V5,
            problem_information: true,
            bridge: false,
            aliases_in: vec![(NonZeroU16::MIN, "a/topic".into())],
            unkept: vec![(PacketId::MIN, State::AwaitPubRec)],
        }
    }

    #[test]
    fn a_frame_has_room_for_certificates_and_a_user_name() {
        let of_engine = ConnectionImage { counted_user: None, shown: None, ..image() };
        let certificate = |bytes: usize| vec![0; bytes - 4].into_boxed_slice();
        let chain = vec![certificate(SHOWN_MAX / 2), certificate(SHOWN_MAX / 2)];
        let shown = Some(ShownCertificate { listener: "a listener with quite a long name".into(), chain });
        let user = "u".repeat(usize::from(u16::MAX)).into();
        let whole = ConnectionImage { counted_user: Some(user), shown, ..of_engine.clone() };
        let added = whole.to_bytes().len() - of_engine.to_bytes().len();
        assert!(added + 256 <= RELAY_FRAME_ROOM, "{added} bytes");
    }

    #[test]
    fn an_image_of_a_connection_is_read_as_written_or_refused() {
        let bytes = image().to_bytes();
        assert_eq!(ConnectionImage::from_bytes(&bytes), Ok(image()));
        for cut in 0..bytes.len() {
            assert!(ConnectionImage::from_bytes(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(ConnectionImage::from_bytes(&[&bytes[..], &[0]].concat()).is_err(), "more than an image");
        for changed in 0..bytes.len() {
            let mut other = bytes.clone();
            other[changed] = 0xff;
            // No bytes may panic; most are refused or another image.
            let _ = ConnectionImage::from_bytes(&other);
        }
    }
}
