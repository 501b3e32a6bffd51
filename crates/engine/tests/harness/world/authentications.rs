//! CONNECT packets that wait for authentication, and answers to challenges.

use tidegate_engine::{AuthOutcome, AuthRequest};

use super::World;

impl World {
    /// The credentials of the CONNECT that has waited longest for authentication.
    pub(crate) fn asked(&self) -> AuthRequest {
        self.0.borrow().asked.front().expect("a CONNECT that waits").request.clone()
    }

    /// How many CONNECT packets wait for authentication.
    pub(crate) fn waiting_for_authentication(&self) -> usize {
        self.0.borrow().asked.len()
    }

    /// Decides about the CONNECT that has waited longest.
    pub(crate) fn decide(&self, outcome: AuthOutcome) {
        let mut net = self.0.borrow_mut();
        let asked = net.asked.pop_front().expect("a CONNECT that waits");
        net.answer(&asked, outcome);
        net.run();
    }

    /// Decides about the answer to a challenge that has waited longest, and returns it.
    pub(crate) fn decide_challenge(&self, outcome: AuthOutcome) -> Vec<u8> {
        let mut net = self.0.borrow_mut();
        let (shard, key, data) = net.challenged.pop_front().expect("an answer to a challenge");
        net.with_engine(shard, |engine, now| engine.entry().handle_auth_outcome(now, key, outcome));
        net.run();
        data
    }
}
