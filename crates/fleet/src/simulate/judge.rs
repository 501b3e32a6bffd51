//! Needless actions.

use super::tier::Tier;

/// How long added capacity has time to be needed, once it serves, and removed capacity to be missed, in seconds.
const WINDOW_S: u64 = 60;
/// A backlog that takes longer to work off needs more capacity, in seconds.
const BACKLOG_MAX_S: f64 = 300.0;

/// An action whose outcome is watched.
#[derive(Clone, Copy, Debug)]
struct Watch {
    action: usize,
    since: u64,
    count: u32,
}

/// Watches actions of one level. Added capacity was needed when, in some second of the first 60 in which it serves, the
/// others alone would have had more than the upper threshold to do, or waiting messages for more than five minutes.
/// Removed capacity was missed when, in some of the next 60 seconds, more was offered than the others can do.
pub(super) struct Judge {
    upper: f64,
    added: Vec<Watch>,
    removed: Vec<Watch>,
}

/// The outcome of an action.
pub(super) enum Judgement {
    /// Added capacity was needed.
    Needed(usize),
    /// Added capacity was not needed: a false positive.
    Needless(usize),
    /// Removed capacity was missed.
    Missed(usize),
    /// Removed capacity was not missed.
    NotMissed(usize),
}

impl Judge {
    pub(super) fn new(upper: f64) -> Self {
        Self { upper, added: Vec::new(), removed: Vec::new() }
    }

    /// The `count` resources of an action serve from now on.
    pub(super) fn serves(&mut self, action: usize, now: u64, count: u32) {
        self.added.push(Watch { action, since: now, count });
    }

    /// The `count` resources of an action serve no longer.
    pub(super) fn removed(&mut self, action: usize, now: u64, count: u32) {
        self.removed.push(Watch { action, since: now, count });
        // An added resource that is removed again was not needed, unless it was used meanwhile.
        for watch in &mut self.added {
            watch.count = watch.count.saturating_sub(count);
        }
    }

    /// Looks at the second that begins `now`, in which `offered` messages came.
    pub(super) fn look(&mut self, now: u64, offered: f64, tier: &Tier) -> Vec<Judgement> {
        if self.added.is_empty() && self.removed.is_empty() {
            return Vec::new();
        }
        let mut judgements = Vec::new();
        let upper = self.upper;
        self.added.retain(|watch| {
            let rest = f64::from(tier.serving.saturating_sub(watch.count)) * tier.capacity_of_one();
            let needed = watch.count > 0 && (offered > upper * rest || tier.backlog > BACKLOG_MAX_S * rest);
            let over = watch.count == 0 || now >= watch.since + WINDOW_S - 1;
            if needed {
                judgements.push(Judgement::Needed(watch.action));
            } else if over {
                judgements.push(Judgement::Needless(watch.action));
            }
            !needed && !over
        });
        self.removed.retain(|watch| {
            let missed = offered > tier.capacity();
            let over = now >= watch.since + WINDOW_S - 1;
            if missed {
                judgements.push(Judgement::Missed(watch.action));
            } else if over {
                judgements.push(Judgement::NotMissed(watch.action));
            }
            !missed && !over
        });
        judgements
    }
}
