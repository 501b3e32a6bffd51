//! The announcement of a node to the others of its cluster: the connections of user names.

use super::key::{KEY_BYTES, UserKey};

/// The first byte of an announcement, and of the answer to one. No other question between nodes has it.
pub const USERS_ANNOUNCEMENT: u8 = 9;
/// The version of the layout, the second byte of both.
const VERSION: u8 = 1;
/// Bytes of one count: its key and the number of connections.
const COUNT_BYTES: usize = KEY_BYTES + 4;

/// Counts of user names at one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UserCounts {
    /// Whether it begins a list of all names: earlier counts of the node hold no longer.
    pub(super) is_first: bool,
    /// Connections of names here; 0 ends a name.
    pub(super) counts: Vec<(UserKey, u32)>,
}

impl UserCounts {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(3 + self.counts.len() * COUNT_BYTES);
        out.extend([USERS_ANNOUNCEMENT, VERSION, u8::from(self.is_first)]);
        for (user, count) in &self.counts {
            out.extend(user.0);
            out.extend(count.to_le_bytes());
        }
        out
    }

    /// `None` if the bytes are no announcement of this version.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [USERS_ANNOUNCEMENT, VERSION, is_first, counts @ ..] = bytes else { return None };
        let (counts, []) = counts.as_chunks::<COUNT_BYTES>() else { return None };
        let counts = counts.iter().map(read_count).collect::<Option<_>>()?;
        Some(Self { is_first: *is_first != 0, counts })
    }
}

fn read_count(bytes: &[u8; COUNT_BYTES]) -> Option<(UserKey, u32)> {
    let (user, count) = bytes.split_first_chunk()?;
    Some((UserKey(*user), u32::from_le_bytes(*count.first_chunk()?)))
}

/// The reaction of a node to an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// It has taken the counts.
    Taken,
    /// It does not know the beginning, and needs all names.
    WantsAll,
    /// It does not understand this version, or no announcement at all.
    NotUnderstood,
}

/// The answer to an announcement that was understood.
pub(super) fn answer(is_taken: bool) -> Vec<u8> {
    vec![USERS_ANNOUNCEMENT, VERSION, u8::from(is_taken)]
}

/// The answer to an announcement of another version: the own version, without more.
pub(super) fn refusal(bytes: &[u8]) -> Option<Vec<u8>> {
    (bytes.first() == Some(&USERS_ANNOUNCEMENT)).then(|| vec![USERS_ANNOUNCEMENT, VERSION])
}

/// Reads an answer. A node of an earlier release answers any unknown question with a text.
pub(super) fn reaction(answer: &[u8]) -> Reaction {
    match answer {
        [USERS_ANNOUNCEMENT, VERSION, 1] => Reaction::Taken,
        [USERS_ANNOUNCEMENT, VERSION, 0] => Reaction::WantsAll,
        _ => Reaction::NotUnderstood,
    }
}
