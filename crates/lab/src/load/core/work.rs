//! Relays that have work to do: one message at a time, and the others wait, as with an application that computes.

use std::collections::VecDeque;

use super::Core;
use crate::load::plan::{Encoding, Role};
use crate::load::timers::Timer;

/// The work of a relay.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Until when it is busy, in nanoseconds since the run's zero.
    busy_until_ns: u64,
    /// Messages as they are to be passed on, with the number of the connection by which they came.
    messages: VecDeque<(u32, Vec<u8>)>,
}

impl Work {
    /// The place of another message.
    pub(super) fn message(&mut self, epoch: u32) -> &mut Vec<u8> {
        self.messages.push_back((epoch, Vec::new()));
        let last = self.messages.len() - 1;
        &mut self.messages[last].1
    }
}

/// The time of a client of a role for a message, in microseconds.
pub(super) const fn work_of(role: &Role) -> u32 {
    match role {
        Role::Relay { work_us, .. } => *work_us,
        _ => 0,
    }
}

/// The encoding in which a client of a role forwards documents.
pub(super) const fn encoding_of(role: &Role) -> Option<Encoding> {
    match role {
        Role::Relay { encoding, .. } => *encoding,
        _ => None,
    }
}

impl Core {
    /// The message that was put in last is worked on when those before it are done.
    pub(super) fn begin_work(&mut self, client: u32, work_us: u32, now_ns: u64) {
        let Some(work) = self.at_work.get_mut(&client) else { return };
        work.busy_until_ns = work.busy_until_ns.max(now_ns) + u64::from(work_us) * 1_000;
        self.timers.set(work.busy_until_ns, Timer::Worked { client });
    }

    /// A message is done. One from a connection that has ended since is lost, as in a program that has ended.
    pub(super) fn worked(&mut self, client: u32) {
        let Some((epoch, message)) = self.at_work.get_mut(&client).and_then(|work| work.messages.pop_front()) else {
            return;
        };
        let place = &mut self.clients[client as usize];
        if place.epoch != epoch || !place.is_connected() {
            return;
        }
        place.out.bytes.extend_from_slice(&message);
        self.meter.current.sent += 1;
        self.touch(client);
    }
}
