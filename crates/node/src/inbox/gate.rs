//! Waking a shard only when it sleeps.
//!
//! An eventfd write per message would cost more than the message. So each shard has a [`Gate`] with three positions,
//! which every sender of its inbox turns:
//!
//! ```text
//!              receiver about to drain
//!   AWAKE  <-----------------------------  NOTIFIED, ASLEEP
//!     |  receiver about to sleep                ^
//!     '--------------------> ASLEEP             |
//!   any position  -------- sender has put ------'   (and writes the eventfd if it found ASLEEP)
//! ```
//!
//! Why no wake-up is lost. Everything happens on one atomic, by read-modify-write operations, so all turns of the gate
//! have one order that every thread agrees on; no fence between two locations is needed. A sender puts its message,
//! then turns the gate (release). Look at the first turn of the receiver that follows:
//!
//! - it is the turn to AWAKE (acquire): the put happens before it, and the drain behind it finds the message;
//! - it is the turn to ASLEEP: it only succeeds from AWAKE, the sender left NOTIFIED, so it fails and the receiver
//!   drains instead of sleeping.
//!
//! And if the receiver's turn to ASLEEP came first, the sender finds ASLEEP and writes the eventfd, whose readiness
//! stays until the receiver polls. Of several senders only the first finds ASLEEP, and one write is enough.

use std::sync::atomic::{AtomicU8, Ordering};

/// The receiver runs and will turn the gate before it sleeps.
const AWAKE: u8 = 0;
/// The receiver sleeps, or is so close to it that only the eventfd reaches it.
const ASLEEP: u8 = 1;
/// A message was sent since the receiver last turned the gate.
const NOTIFIED: u8 = 2;

/// The state that decides whether a sender must wake the receiver.
#[derive(Debug, Default)]
pub(crate) struct Gate(AtomicU8);

impl Gate {
    /// For a sender, after it has sent a message: whether it must wake the receiver.
    #[must_use]
    pub(crate) fn notify(&self) -> bool {
        self.0.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP
    }

    /// For the receiver, before it drains: whether messages were sent since the last time. Later messages turn the gate
    /// again.
    pub(crate) fn wake_up(&self) -> bool {
        self.0.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }

    /// For the receiver, before it sleeps: whether it may. If not, messages were sent and must be drained first.
    #[must_use]
    pub(crate) fn fall_asleep(&self) -> bool {
        self.0.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next step of a sender or the receiver in the model below.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    enum Sender {
        Put,
        Turn,
        Wake,
        Done,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    enum Receiver {
        WakeUp,
        Drain,
        FallAsleep,
        /// Blocked in poll until the eventfd is written.
        Poll,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    struct World {
        gate: u8,
        queued: u8,
        written: bool,
        senders: [Sender; 3],
        receiver: Receiver,
    }

    /// Runs one step of the real gate from a position and returns its result and the new position.
    fn turned<T>(position: &mut u8, turn: impl FnOnce(&Gate) -> T) -> T {
        let gate = Gate(AtomicU8::new(*position));
        let result = turn(&gate);
        *position = gate.0.into_inner();
        result
    }

    fn sender_step(mut world: World, index: usize) -> Option<World> {
        world.senders[index] = match world.senders[index] {
            Sender::Put => {
                world.queued += 1;
                Sender::Turn
            }
            Sender::Turn if turned(&mut world.gate, Gate::notify) => Sender::Wake,
            Sender::Turn => Sender::Done,
            Sender::Wake => {
                world.written = true;
                Sender::Done
            }
            Sender::Done => return None,
        };
        Some(world)
    }

    fn receiver_step(mut world: World) -> Option<World> {
        world.receiver = match world.receiver {
            Receiver::WakeUp => {
                let _ = turned(&mut world.gate, Gate::wake_up);
                Receiver::Drain
            }
            Receiver::Drain => {
                world.queued = 0;
                Receiver::FallAsleep
            }
            Receiver::FallAsleep if turned(&mut world.gate, Gate::fall_asleep) => Receiver::Poll,
            Receiver::FallAsleep => Receiver::WakeUp,
            Receiver::Poll if world.written => {
                world.written = false;
                Receiver::WakeUp
            }
            Receiver::Poll => return None,
        };
        Some(world)
    }

    #[test]
    fn no_interleaving_leaves_a_message_with_a_sleeping_receiver() {
        let start =
            World { gate: AWAKE, queued: 0, written: false, senders: [Sender::Put; 3], receiver: Receiver::WakeUp };
        let mut seen = std::collections::BTreeSet::from([start]);
        let mut open = vec![start];
        while let Some(world) = open.pop() {
            let mut next: Vec<World> = (0..3).filter_map(|i| sender_step(world, i)).collect();
            next.extend(receiver_step(world));
            if next.is_empty() {
                assert_eq!(world.queued, 0, "a message waits for a receiver that sleeps: {world:?}");
                assert_eq!(world.receiver, Receiver::Poll);
            }
            open.extend(next.into_iter().filter(|world| seen.insert(*world)));
        }
        assert!(seen.len() > 100, "the search went through {} states", seen.len());
    }

    #[test]
    fn only_the_first_of_several_senders_wakes() {
        let gate = Gate::default();
        assert!(!gate.notify(), "the receiver is awake");
        assert!(!gate.fall_asleep(), "something was put");
        assert!(gate.wake_up());
        assert!(!gate.wake_up(), "nothing new");
        assert!(gate.fall_asleep());
        assert!(gate.notify());
        assert!(!gate.notify());
    }
}
