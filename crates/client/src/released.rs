//! Messages of QoS 2 that the server has released, and may send once more.
//!
//! A server continues with a PUBREL on a new connection where a PUBCOMP did not arrive. Mosquitto (2.0.11) sends the
//! PUBLISH again, as a new message but for its DUP flag and its content. Behind newer messages it would bring back an
//! older value. Such a message is recognised until an answer of the server shows that it has the PUBCOMP.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

use tidegate_mqtt::{PacketId, Publish};

/// Messages that are recognised, at most; the oldest are forgotten.
const RELEASED_MAX: usize = 1_024;

/// The content of a message as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn of(message: &Publish<'_>, topic: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (topic, message.payload, message.retain).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// A packet for the server, by its number among all PUBREC and PUBCOMP packets of the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place(u64);

/// A message whose PUBCOMP was sent.
#[derive(Clone, Copy, Debug)]
struct Completed {
    packet_id: PacketId,
    digest: Digest,
    at: Place,
}

/// The messages whose PUBCOMP the server may not have.
#[derive(Debug, Default)]
pub(crate) struct Released {
    last: Place,
    /// On the present connection, in their order.
    recent: VecDeque<Completed>,
    /// On earlier connections.
    doubtful: BTreeMap<PacketId, Completed>,
}

impl Released {
    /// A PUBREC or a PUBCOMP is sent.
    pub(crate) fn next_place(&mut self) -> Place {
        self.last.0 += 1;
        self.last
    }

    /// The server answers the PUBREC at a place: it has each PUBCOMP before it.
    pub(crate) fn answered(&mut self, place: Place) {
        while self.recent.front().is_some_and(|completed| completed.at < place) {
            self.recent.pop_front();
        }
        self.doubtful.retain(|_, completed| completed.at > place);
    }

    /// The PUBCOMP of a message is sent.
    pub(crate) fn complete(&mut self, packet_id: PacketId, digest: Digest) {
        let at = self.next_place();
        self.doubtful.remove(&packet_id);
        self.recent.push_back(Completed { packet_id, digest, at });
        if self.recent.len() > RELEASED_MAX {
            self.recent.pop_front();
        }
    }

    /// A new connection resumes the session.
    pub(crate) fn resume(&mut self) {
        let recent = self.recent.drain(..).map(|completed| (completed.packet_id, completed));
        self.doubtful.extend(recent);
        while self.doubtful.len() > RELEASED_MAX {
            let oldest = self.doubtful.values().min_by_key(|completed| completed.at).map(|oldest| oldest.packet_id);
            oldest.map(|oldest| self.doubtful.remove(&oldest));
        }
    }

    /// Whether a message that has arrived is one that was released on an earlier connection. If not, its Packet Identifier
    /// is in use for a new one.
    pub(crate) fn is_repeated(&mut self, packet_id: PacketId, dup: bool, digest: Digest) -> bool {
        let is_it = self.doubtful.get(&packet_id).is_some_and(|completed| dup && completed.digest == digest);
        if !is_it {
            self.doubtful.remove(&packet_id);
        }
        is_it
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGESTS: [Digest; 2] = [Digest(1), Digest(2)];

    fn id(number: u16) -> PacketId {
        PacketId::new(number).unwrap()
    }

    /// Messages of these packet ids were released, and the connection was lost.
    fn released(ids: impl IntoIterator<Item = u16>) -> Released {
        let mut released = Released::default();
        ids.into_iter().for_each(|number| released.complete(id(number), DIGESTS[0]));
        assert!(!released.is_repeated(id(1), true, DIGESTS[0]), "the connection is the same");
        released.resume();
        released
    }

    #[test]
    fn a_repetition_is_known_by_all_that_it_has() {
        assert!(!released([1]).is_repeated(id(1), false, DIGESTS[0]), "a new message");
        assert!(!released([1]).is_repeated(id(1), true, DIGESTS[1]));
        assert!(!released([1]).is_repeated(id(2), true, DIGESTS[0]));
        let mut one = released([1]);
        assert!((0..2).all(|_| one.is_repeated(id(1), true, DIGESTS[0])));
        assert!(!one.is_repeated(id(1), false, DIGESTS[1]) && !one.is_repeated(id(1), true, DIGESTS[0]));
    }

    #[test]
    fn an_answer_shows_what_the_server_has() {
        let mut released = Released::default();
        let before = released.next_place();
        released.complete(id(1), DIGESTS[0]);
        let behind = released.next_place();
        released.complete(id(2), DIGESTS[0]);
        released.answered(before);
        released.resume();
        released.answered(behind);
        assert!(!released.is_repeated(id(1), true, DIGESTS[0]), "its PUBCOMP was before the PUBREC");
        assert!(released.is_repeated(id(2), true, DIGESTS[0]));
    }

    #[test]
    fn released_messages_have_a_limit() {
        let all = 1..=RELEASED_MAX as u16;
        let mut many = released(all.clone());
        all.for_each(|number| many.complete(id(number + RELEASED_MAX as u16), DIGESTS[0]));
        many.resume();
        assert_eq!(many.doubtful.len(), RELEASED_MAX);
        assert!(!many.is_repeated(id(RELEASED_MAX as u16), true, DIGESTS[0]), "older ones are forgotten");
        assert!(many.is_repeated(id(RELEASED_MAX as u16 + 1), true, DIGESTS[0]));
    }
}
