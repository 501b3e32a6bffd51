//! The threads that decide.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidegate_panics::{Contained, contain};

use super::cache::Moment;
use super::provider_set::late;
use super::{Job, Shared};
use crate::decision::{Decision, Refusal, RefusalKind};

/// How often a request is decided again because the providers were replaced meanwhile.
const MAX_ROUNDS: u32 = 3;

/// Starts the threads. They end when the chain says so.
pub(super) fn start(shared: &Arc<Shared>, count: usize) -> std::io::Result<()> {
    for number in 0..count {
        let shared = Arc::clone(shared);
        std::thread::Builder::new().name(format!("auth-{number}")).spawn(move || work(&shared))?;
    }
    Ok(())
}

fn work(shared: &Shared) {
    while let Some(job) = next(shared) {
        let decision = decide(shared, &job);
        let waiters = {
            let mut state = shared.lock();
            let waiters = state.waiting.remove(&job.key).unwrap_or_default();
            state.waiters = state.waiters.saturating_sub(waiters.len());
            let bytes: usize = waiters.iter().map(|waiter| waiter.bytes).sum();
            state.waiting_bytes = state.waiting_bytes.saturating_sub(bytes);
            waiters
        };
        for waiter in waiters {
            shared.tally.answered(&decision);
            (waiter.answer)(decision.clone());
        }
    }
}

/// The next request; `None` on shutdown when no request waits.
fn next(shared: &Shared) -> Option<Job> {
    let mut state = shared.lock();
    loop {
        if let Some(job) = state.queue.pop() {
            return Some(job);
        }
        if shared.stopping.load(Ordering::Relaxed) {
            return None;
        }
        state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Decides about a request and remembers the decision.
fn decide(shared: &Shared, job: &Job) -> Decision {
    for _ in 0..MAX_ROUNDS {
        if shared.stopping.load(Ordering::Relaxed) {
            return Decision::Deny(Refusal::by_chain(RefusalKind::Unavailable, "the broker stops"));
        }
        let set = shared.set();
        let deadline_ms = u64::try_from(set.settings.deadline.as_millis()).unwrap_or(u64::MAX);
        let left = || {
            let spent = shared.clock.monotonic_ms().saturating_sub(job.entered_ms);
            Duration::from_millis(deadline_ms.saturating_sub(spent))
        };
        if left().is_zero() {
            shared.tally.late();
            return late();
        }
        let outcome = contain(|| set.decide(&job.request, &left));
        let (decision, limit) = outcome.unwrap_or_else(|error| (broken(&error), None));
        let at = Moment { monotonic_ms: shared.clock.monotonic_ms(), unix_ms: shared.clock.unix_ms() };
        let mut state = shared.lock();
        // Replaced providers may accept a user that was just removed.
        if shared.epoch.load(Ordering::Acquire) == set.epoch && shared.set().epoch == set.epoch {
            state.cache.put(set.key(&job.request), &decision, at, limit);
            return decision;
        }
    }
    Decision::Deny(Refusal::by_chain(RefusalKind::Unavailable, "the providers were replaced again and again meanwhile"))
}

/// A provider has panicked. Its thread continues, and the client is refused.
fn broken(error: &Contained) -> Decision {
    tracing::error!(%error, "an authentication provider failed; the client is refused");
    Decision::Deny(Refusal::by_chain(RefusalKind::Unavailable, "a provider failed"))
}
