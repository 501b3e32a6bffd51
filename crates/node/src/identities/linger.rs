//! Ends the node of a user after some time without use.

use std::io;
use std::sync::{Arc, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::{Entry, Identities, Running};
use crate::handle::NodeHandle;

/// Time between two checks for unused users.
const LOOK: Duration = Duration::from_millis(500);

/// Starts the thread that watches the nodes of users. It ends with `identities`.
pub(super) fn start(identities: &Arc<Identities>) -> io::Result<()> {
    let identities = Arc::downgrade(identities);
    Builder::new().name("identities".to_owned()).spawn(move || look_after(&identities)).map(drop)
}

fn look_after(identities: &Weak<Identities>) {
    while let Some(identities) = identities.upgrade() {
        {
            let state = identities.state();
            // It is notified when it is time to stop; a wait that ends early is only an early look.
            let waited = identities.stopping.wait_timeout(state, LOOK);
            if waited.is_ok_and(|(state, _)| state.stops) {
                return;
            }
        }
        identities.end_unused();
    }
}

impl Running {
    /// Whether a client has a session here or is about to have one. The order of the two checks matters: a client on
    /// its way is counted by the first, and one that has arrived by the second.
    fn is_needed(&self) -> bool {
        Arc::strong_count(&self.pass) > 1 || has_sessions(&self.node.handle())
    }

    fn owes(&self) -> bool {
        self.node.handle().fleet().report().is_ok_and(|fleet| fleet.owed() > 0)
    }

    /// Whether it is to end now.
    fn is_over(&mut self, now: Instant, linger: Duration, settle: Duration) -> bool {
        if self.is_needed() {
            self.unused = None;
            return false;
        }
        let unused = now.saturating_duration_since(*self.unused.get_or_insert(now));
        unused >= linger && (unused >= settle || !self.owes())
    }
}

/// Whether a node has sessions of clients. One that does not answer is busy.
fn has_sessions(node: &NodeHandle) -> bool {
    node.report().map_or(true, |report| report.gauges.sessions_connected + report.gauges.sessions_disconnected > 0)
}

impl Identities {
    /// Ends unused nodes.
    fn end_unused(&self) {
        for (name, node) in self.handles() {
            if has_sessions(&node) {
                if let Some(Entry::Running(running)) = self.state().users.get_mut(&name) {
                    running.unused = None;
                }
                continue;
            }
            // Nodes without sessions are checked while no client can enter, so that none enters a node that ends.
            let ended = {
                let mut state = self.state();
                let Some(Entry::Running(running)) = state.users.get_mut(&name) else { continue };
                if !running.is_over(Instant::now(), self.settings.linger, self.settings.settle) {
                    continue;
                }
                if let Ok(mut report) = running.node.handle().report_by_user() {
                    report.gauges = tidegate_engine::Gauges::default();
                    state.ended.add_counted(&report);
                }
                state.users.remove(&name)
            };
            if let Some(running) = ended.and_then(Entry::into_running) {
                tracing::info!(owed = running.owes(), "unused connections of a user are closed");
                running.node.stop(LOOK);
            }
        }
    }
}
