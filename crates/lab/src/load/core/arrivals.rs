//! The arrival of clients along the ramp of the plan.

use super::run::RunState;
use crate::load::plan::{LoadPlan, Ramp};
use crate::load::timers::Timer;

/// The ramp of one process: its next client, and clients whose first attempt to connect has not ended.
#[derive(Default)]
pub(super) struct Arrivals {
    next: usize,
    /// Clients that are connecting.
    dialing: u32,
    /// Clients that are neither ready nor given up.
    pending: u32,
}

impl Arrivals {
    /// The ramp of this number of clients.
    pub(super) fn of(clients: usize) -> Self {
        Self { pending: clients as u32, ..Self::default() }
    }

    /// True if the first attempt of every client has ended.
    pub(super) const fn is_over(&self) -> bool {
        self.pending == 0
    }

    /// Connects the clients that are due.
    pub(super) fn dial_due(&mut self, run: &mut RunState, now_ns: u64) {
        while self.next < run.clients.count() && self.dialing < run.plan.dialing {
            let turn_ns = turn_of(&run.plan, self.next as u64);
            if turn_ns > now_ns {
                run.timers.set(turn_ns, Timer::Ramp);
                return;
            }
            let client = self.next as u32;
            self.next += 1;
            self.dialing += 1;
            run.clients[client].on_its_way = true;
            run.dial(client, now_ns);
        }
    }

    /// Notes that an attempt of a client to connect has ended. After the first one, the next client may connect.
    pub(super) fn note_outcome(&mut self, run: &mut RunState, client: u32, now_ns: u64) {
        if std::mem::take(&mut run.clients[client].on_its_way) {
            self.dialing -= 1;
            self.pending -= 1;
            self.dial_due(run, now_ns);
        }
    }
}

/// When the client with this place in the ramp dials. Processes take turns, so that the ramp of the plan is that of all
/// together.
fn turn_of(plan: &LoadPlan, place: u64) -> u64 {
    match plan.ramp {
        Ramp::AtOnce => 0,
        ramp => ramp.dials_at(place * u64::from(plan.processes)),
    }
}
