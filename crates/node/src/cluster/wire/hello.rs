//! The first frame of each side of a connection, in which the node describes itself.

use super::error::FrameError;
use super::version::LINK_VERSION;
use crate::cluster::NodeName;

/// Length of a nonce, so that no proof is used twice, bytes.
pub const NONCE_BYTES: usize = 32;

/// The first bytes of every hello.
const MAGIC: [u8; 8] = *b"tidelink";

/// The introduction of a node on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Made up for this connection.
    pub nonce: [u8; NONCE_BYTES],
    /// The speaker.
    pub name: NodeName,
    /// The node that the sender wants to reach.
    pub to: NodeName,
    /// The life of the speaker.
    pub incarnation: u64,
    /// Number of its shards.
    pub shards: u16,
    /// Its monotonic clock, microseconds.
    pub monotonic: u64,
    /// Its wall clock, milliseconds since 1970.
    pub unix: u64,
    /// The number of the indirect session that this connection continues; 0 for its own session.
    pub continues: u64,
}

impl Hello {
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&LINK_VERSION.to_le_bytes());
        out.extend_from_slice(&self.nonce);
        put_name(&self.name, out);
        put_name(&self.to, out);
        out.extend_from_slice(&self.incarnation.to_le_bytes());
        out.extend_from_slice(&self.shards.to_le_bytes());
        out.extend_from_slice(&self.monotonic.to_le_bytes());
        out.extend_from_slice(&self.unix.to_le_bytes());
        out.extend_from_slice(&self.continues.to_le_bytes());
    }

    pub(super) fn read(body: &[u8]) -> Result<Self, FrameError> {
        let mut rest = body;
        if take::<8>(&mut rest).is_none_or(|magic| magic != MAGIC) {
            return Err(FrameError::NoNode);
        }
        // Whatever follows is another version's to say.
        let version = u16::from_le_bytes(take(&mut rest).ok_or(FrameError::NoNode)?);
        if version != LINK_VERSION {
            return Err(FrameError::Version(version));
        }
        let short = |part| move || FrameError::Body(part);
        let hello = Self {
            nonce: take(&mut rest).ok_or_else(short("a nonce"))?,
            name: take_name(&mut rest)?,
            to: take_name(&mut rest)?,
            incarnation: u64::from_le_bytes(take(&mut rest).ok_or_else(short("an incarnation"))?),
            shards: u16::from_le_bytes(take(&mut rest).ok_or_else(short("a number of shards"))?),
            monotonic: u64::from_le_bytes(take(&mut rest).ok_or_else(short("a time"))?),
            unix: u64::from_le_bytes(take(&mut rest).ok_or_else(short("a time"))?),
            continues: u64::from_le_bytes(take(&mut rest).ok_or_else(short("the number of a session"))?),
        };
        if rest.is_empty() { Ok(hello) } else { Err(FrameError::Body("the end of a hello")) }
    }
}

pub(super) fn put_name(name: &NodeName, out: &mut Vec<u8>) {
    // A name is at most 64 bytes long.
    out.push(name.as_str().len() as u8);
    out.extend_from_slice(name.as_str().as_bytes());
}

pub(super) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

pub(super) fn take_name(rest: &mut &[u8]) -> Result<NodeName, FrameError> {
    let wrong = FrameError::Body("the name of a node");
    let [length] = take::<1>(rest).ok_or(wrong)?;
    let (name, behind) = rest.split_at_checked(usize::from(length)).ok_or(wrong)?;
    *rest = behind;
    std::str::from_utf8(name).ok().and_then(|name| NodeName::new(name).ok()).ok_or(wrong)
}

/// The reason of a refused session, as sent to the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It does not speak this version.
    Version,
    /// The secrets differ.
    Secret,
    /// The speaker is not in its view of the cluster, or not yet.
    Unknown,
    /// The speaker is in its view in another life.
    Incarnation,
    /// Another node was meant.
    NotMeant,
    /// It is not the speaker who has to connect: the smaller name does.
    OutOfTurn,
    /// The speaker has more shards than there are numbers left for.
    Shards,
    /// Another error in the frames.
    Protocol,
}

impl Refusal {
    const ALL: [Self; 8] = [
        Self::Version,
        Self::Secret,
        Self::Unknown,
        Self::Incarnation,
        Self::NotMeant,
        Self::OutOfTurn,
        Self::Shards,
        Self::Protocol,
    ];

    pub(super) fn code(self) -> u8 {
        Self::ALL.iter().position(|it| *it == self).unwrap_or_default() as u8 + 1
    }

    pub(super) fn read(body: &[u8]) -> Result<Self, FrameError> {
        let [code] = body else { return Err(FrameError::Body("a refusal")) };
        let at = code.checked_sub(1).ok_or(FrameError::Body("a refusal"))?;
        // A later version may have more to say.
        Ok(Self::ALL.get(usize::from(at)).copied().unwrap_or(Self::Protocol))
    }

    /// Its meaning, for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Version => "it speaks another version of the link; use releases that go together",
            Self::Secret => "it has another secret; all nodes of a cluster need the same",
            Self::Unknown => "it does not know this node yet",
            Self::Incarnation => "it knows another process of this node",
            Self::NotMeant => "another node answers at that address",
            Self::OutOfTurn => "it connects itself, as the node with the smaller name",
            Self::Shards => "all nodes together may have 64 shards, and it has no numbers for the shards of this node",
            Self::Protocol => "it does not understand what this node says",
        }
    }
}
