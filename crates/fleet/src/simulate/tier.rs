//! One level of the model: resources, and one queue before them.

use std::collections::VecDeque;
use std::time::Duration;

use super::model::TierModel;
use crate::decide::{Change, Decider, Level, LevelObservation, Sla};
use crate::load::{Cpu, Sample};

/// Resources on the way, by when they arrive.
#[derive(Clone, Copy, Debug)]
struct Batch {
    at: u64,
    count: u32,
}

/// The state of a level. Messages are handled first come, first served, by any serving resource: one queue with as many
/// servers as resources.
pub(super) struct Tier {
    pub(super) level: Level,
    model: TierModel,
    decider: Decider,
    pub(super) serving: u32,
    starting: VecDeque<Batch>,
    leaving: VecDeque<Batch>,
    /// Messages that wait.
    pub(super) backlog: f64,
    /// Messages worked off since the last observation.
    worked: f64,
    /// Messages that could have been worked off since then.
    workable: f64,
    /// Messages dropped since then.
    dropped: f64,
    /// Messages dropped in all.
    pub(super) dropped_in_all: f64,
    samples: Vec<Sample>,
    measured_lead: Option<Duration>,
}

/// The decision at an observation.
pub(super) struct Decided {
    pub(super) change: Change,
    pub(super) reason: String,
    /// Resources planned before.
    pub(super) from: u32,
    /// CPU as it was observed.
    pub(super) observed: f64,
}

impl Tier {
    pub(super) fn new(level: Level, model: TierModel, decider: Decider) -> Self {
        Self {
            level,
            model,
            decider,
            serving: model.start,
            starting: VecDeque::new(),
            leaving: VecDeque::new(),
            backlog: 0.0,
            worked: 0.0,
            workable: 0.0,
            dropped: 0.0,
            dropped_in_all: 0.0,
            samples: Vec::new(),
            measured_lead: None,
        }
    }

    /// Messages per second of one resource.
    pub(super) fn capacity_of_one(&self) -> f64 {
        self.model.capacity
    }

    /// Messages per second of all that serve.
    pub(super) fn capacity(&self) -> f64 {
        f64::from(self.serving) * self.model.capacity
    }

    pub(super) fn pending(&self) -> u32 {
        self.starting.iter().map(|batch| batch.count).sum()
    }

    fn gone_soon(&self) -> u32 {
        self.leaving.iter().map(|batch| batch.count).sum()
    }

    /// Resources in any state.
    pub(super) fn allocated(&self) -> u32 {
        self.serving + self.pending() + self.gone_soon()
    }

    /// How long a message that comes now waits, in seconds.
    pub(super) fn wait_s(&self) -> f64 {
        self.backlog / self.capacity()
    }

    /// Activates resources that are ready, and removes drained ones; returns the batches that began to serve.
    pub(super) fn arrive(&mut self, now: u64) -> Vec<u32> {
        while self.leaving.front().is_some_and(|batch| batch.at <= now) {
            self.leaving.pop_front();
        }
        let mut arrived = Vec::new();
        while let Some(batch) = self.starting.front().copied().filter(|batch| batch.at <= now) {
            self.starting.pop_front();
            self.serving += batch.count;
            self.measured_lead = Some(self.model.boot + self.model.subscription);
            arrived.push(batch.count);
        }
        arrived
    }

    /// Handles waiting and new messages for one second, and drops the excess; returns the number handled.
    pub(super) fn work(&mut self, offered: f64) -> f64 {
        let capacity = self.capacity();
        let waiting = self.backlog + offered;
        let worked = waiting.min(capacity);
        let most = self.model.queue_limit.map_or(f64::INFINITY, |limit| limit * f64::from(self.serving));
        self.backlog = (waiting - worked).min(most);
        let dropped = waiting - worked - self.backlog;
        self.dropped += dropped;
        self.dropped_in_all += dropped;
        self.worked += worked;
        self.workable += capacity;
        worked
    }

    /// Observes the level, decides, and begins the change.
    pub(super) fn observe(&mut self, now: u64, interval: u64, elsewhere: u32, sla: &Sla) -> Decided {
        let serving = f64::from(self.serving.max(1));
        // Clients that came within the interval were idle before; the work of departed clients is not counted.
        let interval_s = interval as f64;
        let busy = self.worked / self.workable.max(serving * self.model.capacity * interval_s);
        let sample = Sample {
            cpu: Some(Cpu { used: busy, allocated: 1.0 }),
            message_rate: Some(busy * self.model.capacity),
            queued: Some(self.backlog / serving),
            loop_lag: None,
            waiting: Some(Duration::from_secs_f64(self.wait_s().min(1e9))),
            drop_rate: Some(self.dropped / interval_s / serving),
            memory: Some(self.model.idle_memory + self.model.message_memory * self.backlog / serving),
        };
        self.samples.clear();
        self.samples.resize(self.serving as usize, sample);
        (self.worked, self.workable, self.dropped) = (0.0, 0.0, 0.0);
        let seen = LevelObservation {
            time: Duration::from_secs(now),
            level: self.level,
            serving: self.serving,
            pending: self.pending(),
            leaving: self.gone_soon(),
            elsewhere,
            lead_time: self.measured_lead,
            samples: &self.samples,
        };
        let from = seen.planned();
        let decision = self.decider.decide(&seen, sla);
        self.begin(now, decision.change);
        Decided { change: decision.change, reason: decision.reason, from, observed: busy }
    }

    fn begin(&mut self, now: u64, change: Change) {
        match change {
            Change::Hold => {}
            Change::Grow(count) => {
                let at = now + seconds(self.model.boot + self.model.subscription);
                self.starting.push_back(Batch { at, count });
            }
            Change::Shrink(count) => {
                // The waiting messages of a removed resource are handled by the others: all share one queue.
                let count = count.min(self.serving.saturating_sub(1));
                self.serving -= count;
                let at = now + seconds(self.model.drain);
                if at > now {
                    self.leaving.push_back(Batch { at, count });
                }
            }
        }
    }
}

/// Whole seconds, rounded up.
pub(super) fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
