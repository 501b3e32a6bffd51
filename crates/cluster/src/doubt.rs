//! A node's doubt whether another one still runs.

use std::collections::BTreeMap;
use std::time::Duration;

/// For how long the address of a node has to refuse connections until the node counts as ended. One that is started
/// again at once needs about as long, and continues with its sessions.
pub const DOUBT_LIMIT: Duration = Duration::from_secs(1);

/// The state of another node, as seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// There is a session with it.
    Linked,
    /// There is no session, and the system at its address refuses connections: no process listens there.
    Refused,
    /// There is no session, and nothing is known: it accepts, or nothing answers.
    Silent,
}

/// The knowledge about one node.
#[derive(Clone, Copy, Debug)]
struct Known {
    incarnation: u64,
    /// Since when its address has refused each connection.
    refused_since: Option<Duration>,
}

/// Signs that nodes have ended. A node with which there was no session says nothing by a refusal: its
/// address may be wrong.
#[derive(Clone, Debug, Default)]
pub struct Doubts {
    known: BTreeMap<String, Known>,
}

impl Doubts {
    /// Whether there was a session with this process of a node, so that it is worth to ask at its address.
    pub fn was_linked(&self, name: &str, incarnation: u64) -> bool {
        self.known.get(name).is_some_and(|known| known.incarnation == incarnation)
    }

    /// Takes note of a sign of a process of a node. `now` is a monotonic time.
    pub fn look(&mut self, now: Duration, name: &str, incarnation: u64, sign: Sign) {
        if sign == Sign::Linked {
            self.known.insert(name.to_owned(), Known { incarnation, refused_since: None });
        } else if let Some(known) = self.known.get_mut(name).filter(|known| known.incarnation == incarnation) {
            known.refused_since = match sign {
                Sign::Refused => known.refused_since.or(Some(now)),
                Sign::Linked | Sign::Silent => None,
            };
        }
    }

    /// The processes that have ended, by the names of their nodes.
    pub fn ended(&self, now: Duration) -> BTreeMap<String, u64> {
        let has_ended =
            |known: &Known| known.refused_since.is_some_and(|since| now.saturating_sub(since) >= DOUBT_LIMIT);
        self.known.iter().filter(|(_, it)| has_ended(it)).map(|(name, it)| (name.clone(), it.incarnation)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tenths: u64) -> Duration {
        Duration::from_millis(tenths * 100)
    }

    #[test]
    fn a_node_has_ended_when_its_address_refuses_for_a_while() {
        let mut doubts = Doubts::default();
        doubts.look(at(0), "b", 7, Sign::Linked);
        doubts.look(at(1), "b", 7, Sign::Refused);
        doubts.look(at(10), "b", 7, Sign::Refused);
        assert_eq!(doubts.ended(at(10)), BTreeMap::new());
        assert_eq!(doubts.ended(at(11)), BTreeMap::from([("b".to_owned(), 7)]));
        doubts.look(at(12), "b", 7, Sign::Silent);
        assert_eq!(doubts.ended(at(30)), BTreeMap::new(), "the node answers");
    }

    #[test]
    fn who_was_never_linked_has_not_ended() {
        let mut doubts = Doubts::default();
        doubts.look(at(0), "b", 7, Sign::Refused);
        doubts.look(at(0), "c", 7, Sign::Linked);
        doubts.look(at(1), "c", 8, Sign::Refused);
        assert_eq!(doubts.ended(at(100)), BTreeMap::new());
        assert!(doubts.was_linked("c", 7) && !doubts.was_linked("c", 8) && !doubts.was_linked("b", 7));
    }
}
