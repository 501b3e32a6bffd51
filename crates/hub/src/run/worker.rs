//! The source of a pipeline and its core, on one thread.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_client::TopicFilterBuf;

use super::status::{LastFailure, Snapshot};
use crate::core::{Action, Batch, Core, Ending, News, Outcome};
use crate::message::Message;
use crate::sources::{ReplayAnswer, Source, SourceStep};
use crate::time::wall_clock;

/// Time between two lines of the log about messages that are not delivered.
const FAILURES_TOLD_EVERY: Duration = Duration::from_secs(10);
/// How long batches that are under way are waited for at the end.
const LAST_BATCHES: Duration = Duration::from_secs(5);

/// Steps of the source that one turn takes at most, before outcomes and orders are looked at again.
const MAX_STEPS: usize = 64;
/// How long messages may gather at the source while a batch waits for more of them: a wake-up for each message costs the
/// broker and the pipeline more than the message does.
const GATHER_TIME: Duration = Duration::from_millis(2);

/// Requests of other threads to a pipeline.
#[derive(Debug, Default)]
pub(super) struct Orders {
    pub(super) paused: AtomicBool,
    pub(super) stop: AtomicBool,
    /// The time of a replay, Unix milliseconds, and who waits for the answer.
    pub(super) replays: Mutex<Vec<(u64, ReplayAnswer)>>,
}

/// The parts of a worker.
pub(super) struct Worker<S: Source> {
    pub(super) name: String,
    pub(super) source: S,
    /// Topic filters; messages of other topics are passed over. Without any, all messages are taken.
    pub(super) from: Vec<TopicFilterBuf>,
    /// Names of the sinks in the order of `to`, and that of dead letters.
    pub(super) sinks: Vec<String>,
    pub(super) core: Core<S::Token>,
    pub(super) lanes: Vec<Sender<Batch>>,
    pub(super) outcomes: Receiver<(usize, Outcome)>,
    pub(super) snapshot: Arc<Mutex<Snapshot>>,
    pub(super) orders: Arc<Orders>,
    /// Receives one notification, when the source takes all its messages.
    pub(super) subscribed: Option<Sender<()>>,
    pub(super) course: Course,
}

/// How a worker does.
pub(super) struct Course {
    begun: Instant,
    /// Whether the source takes messages.
    takes: bool,
    /// Whether it takes only a part of them.
    is_partial: bool,
    paused: bool,
    /// Why the source takes no messages, or not all.
    trouble: Option<String>,
    failures_told: Option<Instant>,
    failures_untold: u64,
    /// Messages since the source was last seen empty, until it is empty again.
    burst: usize,
    /// The messages of a burst that has ended with the last turn.
    ended_burst: Option<usize>,
}

impl Course {
    pub(super) fn new(paused: bool) -> Self {
        Self {
            begun: Instant::now(),
            takes: false,
            is_partial: false,
            paused,
            trouble: None,
            failures_told: None,
            failures_untold: 0,
            burst: 0,
            ended_burst: None,
        }
    }
}

impl<S: Source> Worker<S> {
    /// Milliseconds since the start.
    fn now(&self) -> u64 {
        u64::try_from(self.course.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Works until it is to stop.
    pub(super) fn run(mut self) {
        while !self.orders.stop.load(Ordering::Acquire) {
            self.obey();
            self.turn(None);
        }
        self.core.pause(true);
        let deadline = Instant::now() + LAST_BATCHES;
        // Without a connection nothing can be acknowledged, and the session may belong to another process by now.
        while self.core.under_way() > 0 && Instant::now() < deadline && self.source.is_connected() {
            self.turn(Some(deadline));
        }
        self.act();
        self.source.leave();
    }

    /// Does what operators have asked for.
    fn obey(&mut self) {
        let paused = self.orders.paused.load(Ordering::Acquire);
        if paused != self.course.paused {
            self.course.paused = paused;
            self.source.pause(paused);
        }
        self.core.pause(paused);
        let replays = std::mem::take(&mut *self.orders.replays.lock().unwrap_or_else(PoisonError::into_inner));
        for (from, answer) in replays {
            self.source.replay(from, answer);
        }
    }

    fn turn(&mut self, until: Option<Instant>) {
        while let Ok((lane, outcome)) = self.outcomes.try_recv() {
            self.core.settle(self.now(), lane, outcome);
            self.core.fail_late(self.now(), wall_clock(), lane);
        }
        self.act();
        self.note();
        let due = self.core.deadline().and_then(|at| self.course.begun.checked_add(Duration::from_millis(at)));
        if let Some(burst) = self.course.ended_burst.take() {
            // A long burst shows that messages gather without a rest.
            let is_trickle = (1..=MAX_STEPS).contains(&burst);
            if let Some(due) = due.filter(|_| is_trickle) {
                self.source.rest(due.min(Instant::now() + GATHER_TIME));
            }
        }
        let mut step = self.source.next([due, until].into_iter().flatten().min());
        let times = (self.now(), wall_clock());
        for _ in 1..MAX_STEPS {
            self.course.burst += usize::from(matches!(step, SourceStep::Message(..)));
            self.take(times, step);
            let Some(next) = self.source.ready() else {
                self.course.ended_burst = Some(std::mem::take(&mut self.course.burst));
                return;
            };
            step = next;
        }
        self.course.burst += usize::from(matches!(step, SourceStep::Message(..)));
        self.take(times, step);
    }

    /// Takes a step of the source. `times` are milliseconds since the start and the wall clock.
    fn take(&mut self, times: (u64, u64), step: SourceStep<S::Token>) {
        match step {
            SourceStep::Message(message, token) => self.take_message(times, &message, token),
            SourceStep::Idle => {}
            SourceStep::Ready => {
                (self.course.takes, self.course.is_partial) = (true, false);
                if self.course.trouble.take().is_some() {
                    tracing::info!(pipeline = self.name, "the pipeline accepts all its messages again");
                }
                if let Some(subscribed) = self.subscribed.take() {
                    // The receiver may have given up.
                    let _ = subscribed.send(());
                }
            }
            SourceStep::Partly(why) => {
                (self.course.takes, self.course.is_partial) = (true, true);
                self.tell_trouble(&why);
            }
            SourceStep::Away(why) => {
                (self.course.takes, self.course.is_partial) = (false, false);
                self.core.lose_connection();
                self.tell_trouble(&why);
            }
            SourceStep::Trouble(why) => self.tell_trouble(&why),
            SourceStep::Gone(is_gone) => self.core.forget(is_gone),
            SourceStep::Paused(paused) => {
                self.course.paused = paused;
                self.orders.paused.store(paused, Ordering::Release);
                self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).paused = paused;
            }
        }
    }

    fn take_message(&mut self, (now, clock): (u64, u64), message: &Arc<Message>, token: Option<S::Token>) {
        if !self.is_wanted(message) {
            // Of a filter that the pipeline had before, or of a sender that chooses the topic.
            if let Some(token) = token {
                self.source.acknowledge(token, Ending::NotTaken);
            }
            return;
        }
        self.core.take(now, clock, message, token);
    }

    fn is_wanted(&self, message: &Message) -> bool {
        self.from.is_empty() || self.from.iter().any(|filter| filter.matches_text(&message.topic))
    }

    /// Does what the core asks for.
    fn act(&mut self) {
        let (now, mut ended) = (self.now(), Vec::new());
        while let Some(action) = self.core.next_action(now) {
            match action {
                Action::Acknowledge(token, ending) => ended.push((token, ending)),
                Action::Send { lane, batch } => {
                    // A lane ends with its pipeline, and not before.
                    if let Some(lane) = self.lanes.get(lane) {
                        let _ = lane.send(batch);
                    }
                }
                Action::Tell(news) => self.tell(news),
            }
        }
        if !ended.is_empty() {
            self.source.acknowledge_all(ended);
        }
        while let Some(message) = self.core.next_ended() {
            self.source.reuse(message);
        }
    }

    fn tell_trouble(&mut self, why: &dyn Display) {
        let why = why.to_string();
        if self.course.trouble.as_ref() != Some(&why) {
            let (pipeline, address) = (self.name.as_str(), self.source.place());
            let taken = if self.course.is_partial { "only a part of its messages" } else { "no messages" };
            tracing::warn!(pipeline, %address, "the pipeline accepts {taken}; retrying: {why}");
            self.course.trouble = Some(why);
        }
    }

    fn tell(&mut self, news: News) {
        let pipeline = self.name.as_str();
        let name = |sink: usize| self.sinks.get(sink).map_or("", String::as_str);
        let mut snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        match news {
            News::Away { sink, why } => {
                if let Some(status) = snapshot.sinks.get_mut(sink) {
                    status.last_error = Some((wall_clock(), why.clone()));
                }
                tracing::warn!(
                    pipeline,
                    sink = name(sink),
                    "the sink takes no messages; they wait, and it is tried again: {why}"
                );
            }
            News::Back { sink } => tracing::info!(pipeline, sink = name(sink), "the sink takes messages again"),
            News::Failed { topic, why, kept } => {
                let failure = LastFailure { at: wall_clock(), topic: topic.clone(), why: why.clone(), kept };
                snapshot.last_failure = Some(failure);
                if self.course.failures_told.is_some_and(|told| told.elapsed() < FAILURES_TOLD_EVERY) {
                    self.course.failures_untold += 1;
                    return;
                }
                self.course.failures_told = Some(Instant::now());
                let untold = std::mem::take(&mut self.course.failures_untold);
                let outcome = if kept { "a message became a dead letter" } else { "a message was dropped" };
                tracing::warn!(pipeline, topic, not_logged = untold, "{outcome}: {why}");
            }
        }
    }

    /// Writes down how it does.
    fn note(&mut self) {
        let core = &self.core;
        let mut errors = core.errors();
        let error = errors.next().map(|(sink, why)| {
            let name = self.sinks.get(sink).map_or("", String::as_str);
            format!("{name}: {why}")
        });
        let error = self.course.trouble.clone().or(error);
        let mut snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        snapshot.takes_messages = self.course.takes;
        snapshot.numbers = core.numbers();
        snapshot.numbers.dropped += self.source.removed();
        snapshot.held = core.held();
        snapshot.waiting = self.source.waiting();
        snapshot.oldest = core.oldest();
        snapshot.error = error;
        for status in &mut snapshot.sinks {
            (status.waiting, status.error) = (0, None);
        }
        for (sink, waiting, error) in core.queues() {
            if let Some(status) = snapshot.sinks.get_mut(sink) {
                status.waiting += waiting;
                status.error = status.error.take().or_else(|| error.map(str::to_owned));
            }
        }
    }
}
