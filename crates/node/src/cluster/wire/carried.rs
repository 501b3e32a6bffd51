//! Parts of the bytes of a session that a node carries between two others.

use super::error::FrameError;
use super::hello::{put_name, take, take_name};
use crate::cluster::NodeName;

/// A part of an indirect session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The session begins.
    Begin,
    /// Its next bytes.
    Data,
    /// No more bytes come by this way: the speaker has a direct connection, and continues there.
    Last,
    /// The session is over.
    End,
    /// The carrying node has no link to the node: all sessions with it by this way are over.
    Unreachable,
    /// Too many carried bytes wait for the other end: the session is over.
    NoRoom,
}

impl Part {
    const ALL: [Self; 6] = [Self::Begin, Self::Data, Self::Last, Self::End, Self::Unreachable, Self::NoRoom];

    fn code(self) -> u8 {
        Self::ALL.iter().position(|it| *it == self).unwrap_or_default() as u8 + 1
    }

    fn of(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code.checked_sub(1)?)).copied()
    }
}

/// A part of a session, with the node at its other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portion<'a> {
    /// On its way to the carrying node, the node that it is for; from there on, the node that it comes from.
    pub node: NodeName,
    /// The number of the session, given by the node that dialed.
    pub number: u64,
    /// The kind of the part.
    pub part: Part,
    /// The bytes of [`Part::Data`].
    pub body: &'a [u8],
}

impl<'a> Portion<'a> {
    /// One without bytes.
    pub fn empty(node: NodeName, number: u64, part: Part) -> Self {
        Self { node, number, part, body: &[] }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_name(&self.node, out);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.push(self.part.code());
        out.extend_from_slice(self.body);
    }

    pub(super) fn read(body: &'a [u8]) -> Result<Self, FrameError> {
        let mut rest = body;
        let node = take_name(&mut rest)?;
        let number = take(&mut rest).ok_or(FrameError::Body("the number of a session"))?;
        let part = take::<1>(&mut rest).and_then(|[code]| Part::of(code)).ok_or(FrameError::Body("a part"))?;
        Ok(Self { node, number: u64::from_le_bytes(number), part, body: rest })
    }
}
