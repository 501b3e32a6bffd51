//! A run on its own clock against a double: everything that is measured is known beforehand.

use std::rc::Rc;

use super::core::{Action, Core, Phase, Totals};
use super::outcome::LoadOutcome;
use super::plan::LoadPlan;
use crate::double::{Behaviour, Double, Records};

/// A network without delay between the clients of a plan and a double.
pub(crate) struct Simulated {
    pub(crate) core: Core,
    double: Double,
    now_ns: u64,
    totals: Totals,
    dirty: Vec<u32>,
}

impl Simulated {
    pub(crate) fn new(plan: LoadPlan, behaviour: Behaviour) -> Self {
        let core = Core::new(&Rc::new(plan), 0).unwrap();
        Self { core, double: Double::new(behaviour), now_ns: 0, totals: Totals::new(), dirty: Vec::new() }
    }

    /// Runs a plan to its end.
    pub(crate) fn run(plan: LoadPlan, behaviour: Behaviour) -> (LoadOutcome, Records) {
        let mut simulated = Self::new(plan, behaviour);
        while simulated.advance() {}
        (simulated.conclude(), simulated.double.records().clone())
    }

    pub(crate) fn conclude(&mut self) -> LoadOutcome {
        self.core.conclude(&self.totals, self.now_ns)
    }

    pub(crate) const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The generator gets no time for this duration.
    pub(crate) fn hold_up(&mut self, for_ns: u64) {
        self.now_ns += for_ns;
    }

    /// Advances to the next timer and acts on it; `false` at the end.
    pub(crate) fn advance(&mut self) -> bool {
        let next = [self.core.next_timer_ns(), self.double.next_ns()].into_iter().flatten().min();
        let Some(next) = next.filter(|_| self.core.phase() != Phase::Over) else { return false };
        self.now_ns = self.now_ns.max(next);
        loop {
            self.core.advance(self.now_ns);
            self.core.turn(self.now_ns);
            self.phases();
            if !(self.network() | self.deliveries()) {
                return true;
            }
        }
    }

    fn phases(&mut self) {
        if self.core.phase() == Phase::Gathering && self.core.gathered() {
            self.core.begin(self.now_ns);
        }
        if self.core.phase() == Phase::Publishing && self.core.all_sent(self.now_ns) {
            self.totals = self.core.totals();
            self.core.drain(&self.totals, self.now_ns);
        }
    }

    fn network(&mut self) -> bool {
        let actions = self.core.clients().actions();
        let mut acted = !actions.is_empty();
        for action in actions {
            match action {
                Action::Dial(connection) => self.core.opened(connection),
                Action::Close(connection) | Action::Cut(connection) => self.double.closed(connection),
                Action::Read(..) => {}
            }
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        self.core.clients().take_dirty(&mut dirty);
        for connection in &dirty {
            acted = true;
            let Some(output) = self.core.clients().output(*connection) else { continue };
            let taken = self.double.received(*connection, output.rest(), self.now_ns).unwrap();
            assert_eq!(taken, output.len(), "whole packets only");
            output.wrote(taken, true);
            self.core.drained(*connection);
        }
        self.dirty = dirty;
        acted
    }

    fn deliveries(&mut self) -> bool {
        let mut given: Vec<(u32, Vec<u8>)> = Vec::new();
        self.double.give(self.now_ns, |connection, bytes| given.push((connection, bytes.to_vec())));
        for (connection, bytes) in &given {
            assert_eq!(self.core.received(*connection, bytes, self.now_ns), Some(bytes.len()));
        }
        !given.is_empty()
    }
}
