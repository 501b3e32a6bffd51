//! Frames between nodes on the connection of a relayed client whose home moves. Their first byte begins no MQTT packet.
//! They lie between two packets of the home, and in front of all bytes of the client.

use tidegate_engine::{CONTINUE, CONTINUED, ConnectionImage, LeftConnection, PartitionId, RELAY_FRAME};
use tidegate_mqtt::{PacketType, ReasonCode, varint};

use crate::secret::{CONNECTION_PROOF_BYTES, Secret};

/// The home asks the edge to send no more of the client's bytes, and to end its side.
pub(crate) const LEAVE: [u8; 3] = [RELAY_FRAME, 1, LEAVING];
const LEAVING: u8 = 3;
/// The kind of the frame with the image of the connection, for the edge.
const LEFT: u8 = 4;
/// The kind of the frame by which the new home refuses the connection: the reason code of the DISCONNECT, or 0 for none.
const REFUSING: u8 = 5;

/// The frame by which the new home refuses a connection, with the code of the DISCONNECT for its client.
pub(crate) fn refused(code: Option<ReasonCode>) -> [u8; 4] {
    [RELAY_FRAME, 2, REFUSING, code.map_or(0, ReasonCode::byte)]
}

/// A frame of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RelayFrame {
    /// [`LEAVE`].
    Leave,
    /// The connection has left.
    Left(Parcel),
    /// The connection continues at the new home.
    Continued,
    /// [`refused`].
    Refused(Option<ReasonCode>),
}

/// A connection on its way to its new home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parcel {
    /// The partition of the client.
    pub(crate) partition: PartitionId,
    /// The image of the connection, with the proof that a node of the cluster has made it.
    pub(crate) proven: Vec<u8>,
    /// Bytes of the client that begin a packet.
    pub(crate) tail: Vec<u8>,
}

impl Parcel {
    /// For a connection that has left.
    pub(crate) fn of(left: LeftConnection, secret: &Secret) -> Self {
        let mut proven = left.image.to_bytes();
        proven.extend(secret.prove_connection(&proven));
        Self { partition: left.image.partition(), proven, tail: left.tail }
    }

    /// The frame for the edge.
    pub(crate) fn to_edge(&self) -> Vec<u8> {
        let length = (self.proven.len() as u32).to_le_bytes();
        frame(&[&[LEFT], &self.partition.0.to_le_bytes(), &length, &self.proven, &self.tail])
    }

    /// The frame that precedes further bytes of the client to the new home.
    pub(crate) fn to_home(&self) -> Vec<u8> {
        let mut bytes = frame(&[&[CONTINUE], &self.partition.0.to_le_bytes(), &self.proven]);
        bytes.extend_from_slice(&self.tail);
        bytes
    }

    fn read(body: &[u8]) -> Option<Self> {
        let (&[low, high], body) = body.split_first_chunk()?;
        let (length, body) = body.split_first_chunk()?;
        let (proven, tail) = body.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let partition = PartitionId(u16::from_le_bytes([low, high]));
        Some(Self { partition, proven: proven.to_vec(), tail: tail.to_vec() })
    }
}

/// The image of a connection, if a node of the cluster has made it.
pub(crate) fn image_of(proven: &[u8], secret: Option<&Secret>) -> Option<ConnectionImage> {
    let (image, proof) = proven.split_at_checked(proven.len().checked_sub(CONNECTION_PROOF_BYTES)?)?;
    let image = secret?.proves_connection(image, proof).then_some(image)?;
    ConnectionImage::from_bytes(image).ok()
}

impl RelayFrame {
    /// Reads a whole frame.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        if bytes == LEAVE {
            return Some(Self::Leave);
        }
        if bytes == CONTINUED {
            return Some(Self::Continued);
        }
        if let [RELAY_FRAME, 2, REFUSING, code] = bytes {
            let code =
                ReasonCode::from_byte(*code).filter(|code| code.is_error() && code.allowed_in(PacketType::Disconnect));
            return Some(Self::Refused(code));
        }
        let (length, behind) = varint::decode(bytes.get(1..)?).ok().flatten()?;
        let body = bytes.get(1 + behind..).filter(|body| body.len() == length as usize)?;
        let (&kind, body) = body.split_first()?;
        (kind == LEFT).then(|| Parcel::read(body).map(Self::Left))?
    }
}

/// A frame of these parts. They are bounded by the engine's output, far below the longest varint.
fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut frame = vec![RELAY_FRAME];
    let length = u32::try_from(body.len()).ok().and_then(varint::encode);
    frame.extend_from_slice(length.as_ref().map_or(&[], varint::Varint::as_bytes));
    frame.extend_from_slice(&body);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written_or_not_at_all() {
        let parcel = Parcel { partition: PartitionId(1_000), proven: vec![7; 300], tail: b"half".to_vec() };
        let frame = parcel.to_edge();
        assert_eq!(RelayFrame::read(&frame), Some(RelayFrame::Left(parcel)));
        for cut in 0..frame.len() {
            assert_eq!(RelayFrame::read(&frame[..cut]), None, "{cut}");
        }
        assert_eq!(
            (RelayFrame::read(&LEAVE), RelayFrame::read(&CONTINUED)),
            (Some(RelayFrame::Leave), Some(RelayFrame::Continued))
        );
        for code in [None, Some(ReasonCode::NotAuthorized)] {
            assert_eq!(RelayFrame::read(&refused(code)), Some(RelayFrame::Refused(code)));
        }
        assert_eq!(RelayFrame::read(&[RELAY_FRAME, 1, 9]), None);
    }

    #[test]
    fn an_image_without_the_proof_of_the_cluster_is_refused() {
        let (ours, other) = (Secret::new(&[1; 16]).unwrap(), Secret::new(&[2; 16]).unwrap());
        let mut proven = b"not an image".to_vec();
        proven.extend(other.prove_connection(&proven));
        assert_eq!(image_of(&proven, Some(&ours)), None, "another secret");
        assert_eq!(image_of(&proven, None), None, "no cluster");
        assert_eq!(image_of(&[], Some(&ours)), None);
    }
}
