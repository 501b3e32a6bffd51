//! The log of a pipeline on the bus: messages of the partitions that this process has in the group of the pipeline.
//!
//! - `partition` is one of these partitions.
//! - `work` does the next step of each partition.

mod partition;
mod work;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_bus::{
    Append, Bounds, Bus, BusError, LogPartition, MemberName, Membership, MembershipEvent, NameError, Position, Reader,
};

use self::partition::{Phase, Share, Token};
use super::inbox::Inbox;
use super::{ReplayAnswer, Source, SourceStep, Wake};
use crate::core::Ending;
use crate::log::{LogSettings, Mark, Names, Replay, SharedState, mark_record, pause_record, replay_record, states};
use crate::open_error::OpenError;
use crate::time::wall_clock;

/// How often marks are written while there is something to write.
const MARK_EVERY: Duration = Duration::from_millis(100);
/// How long to wait after an error of the bus.
const RETRY: Duration = Duration::from_secs(1);
/// How often the number of messages that wait is asked for.
const ENDS_EVERY: Duration = Duration::from_secs(2);
/// Messages that are read at once.
const BATCH: usize = 256;
/// How long the end waits for the last marks, and until others know that this process has gone.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// An answer of the bus.
enum BusAnswer {
    Made(Result<(), BusError>),
    /// The end of the log of states, for a partition that has come.
    StatesEnd(u32, u64, Result<Bounds, BusError>),
    /// The bounds of a partition, for the search of a replay or of trimming.
    Bounds(u32, u64, Result<Bounds, BusError>),
    /// The bounds of a partition, for the number of messages that wait.
    End(u32, Result<Bounds, BusError>),
    Kept(u32, u64, Mark, Result<(), BusError>),
    /// A pause or a replay was written.
    Told(Result<(), BusError>),
}

/// Why the process has not joined the group.
#[derive(Debug, thiserror::Error)]
enum JoinError {
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The name of the process among the members.
    #[error(transparent)]
    Member(#[from] NameError),
}

/// The state of the source, as far as the bus is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Standing {
    /// Messages are taken.
    Ready,
    /// The bus is away, or refuses something.
    Trouble(String),
}

/// The source.
pub(crate) struct LogSource {
    settings: LogSettings,
    names: Names,
    bus: Bus,
    inbox: Inbox<BusAnswer>,
    /// Logs that are not made yet.
    to_make: usize,
    make_at: Option<Instant>,
    membership: Option<Membership>,
    state_reader: Option<Reader>,
    /// States are read up to here.
    state_next: u64,
    state: SharedState,
    parts: BTreeMap<u32, Share>,
    runs: u64,
    /// Messages that were removed from the log before a process took them.
    removed: u64,
    steps: VecDeque<SourceStep<Token>>,
    /// Pauses and replays that the bus does not have yet, in order.
    orders: VecDeque<Append>,
    /// Whether the first of them is on its way.
    is_ordering: bool,
    /// When it is sent, again after a failure.
    order_at: Instant,
    /// The last news of the bus for the pipeline: ready, or why not.
    told: Option<Standing>,
    told_paused: bool,
    /// The last error of the bus.
    error: Option<String>,
    mark_at: Instant,
    /// When the ends of partitions are asked for.
    ends_at: Instant,
}

impl LogSource {
    /// Opens the bus and does not wait for it.
    ///
    /// # Errors
    /// In words, when the pipeline has no name for the bus, or the bus cannot be opened.
    pub(crate) fn new(settings: &LogSettings) -> Result<Self, OpenError> {
        let names = settings.names()?;
        let inbox = Inbox::default();
        let wake = inbox.wake();
        let bus = Bus::open(&settings.address, settings.bus.clone(), Arc::new(move |_| wake()));
        Ok(Self {
            names,
            bus: bus.map_err(|error| OpenError::part(format!("the bus {}", settings.address), &error))?,
            settings: settings.clone(),
            inbox,
            to_make: 0,
            make_at: Some(Instant::now()),
            membership: None,
            state_reader: None,
            state_next: 0,
            state: SharedState::default(),
            parts: BTreeMap::new(),
            runs: 0,
            removed: 0,
            steps: VecDeque::new(),
            orders: VecDeque::new(),
            is_ordering: false,
            order_at: Instant::now(),
            told: None,
            told_paused: false,
            error: None,
            mark_at: Instant::now(),
            ends_at: Instant::now(),
        })
    }

    /// A callback that puts news into the inbox.
    fn done<T>(&self, news: impl FnOnce(Result<T, BusError>) -> BusAnswer + Send + 'static) -> tidegate_bus::Done<T> {
        let inbox = self.inbox.clone();
        Box::new(move |outcome| inbox.push(news(outcome)))
    }

    fn make(&mut self) {
        self.make_at = None;
        for spec in [self.settings.messages(&self.names), states(&self.names)] {
            self.to_make += 1;
            if let Err(error) = self.bus.create(spec, self.done(BusAnswer::Made)) {
                self.inbox.push(BusAnswer::Made(Err(error)));
            }
        }
    }

    fn states_place(&self) -> LogPartition {
        LogPartition::new(self.names.states.clone(), 0)
    }

    /// The logs are there: the process joins the group.
    fn join(&mut self) -> Result<(), JoinError> {
        if self.state_reader.is_none() {
            let reader = self.bus.read(&self.states_place(), Position::START, self.inbox.wake())?;
            self.state_reader = Some(reader);
        }
        if self.membership.is_none() {
            let member = MemberName::new(&self.settings.member)?;
            let partitions = self.settings.partitions;
            let joined = self.bus.join(&self.names.group, &member, partitions, self.inbox.wake())?;
            self.membership = Some(joined);
        }
        Ok(())
    }

    fn hear(&mut self, news: BusAnswer) {
        let failed = match news {
            BusAnswer::Made(outcome) => {
                self.to_make = self.to_make.saturating_sub(1);
                let joined = outcome.map_err(JoinError::from).and_then(|()| {
                    let is_last = self.to_make == 0 && self.make_at.is_none();
                    if is_last { self.join() } else { Ok(()) }
                });
                joined.inspect_err(|_| self.make_at = Some(Instant::now() + RETRY)).err().map(|error| error.to_string())
            }
            BusAnswer::StatesEnd(number, run, outcome) => {
                let part = self.parts.get_mut(&number).filter(|part| part.run == run);
                let Some(part) = part else { return };
                match outcome {
                    Ok(bounds) => part.phase = Phase::Catches(bounds.next.0),
                    // The next turn asks again.
                    Err(_) => part.phase = Phase::Asks,
                }
                outcome.err().map(|error| error.to_string())
            }
            BusAnswer::Bounds(number, run, outcome) => {
                self.begin_search(number, run, outcome).err().map(|error| error.to_string())
            }
            BusAnswer::End(number, outcome) => {
                if let (Some(part), Ok(bounds)) = (self.parts.get_mut(&number), outcome) {
                    part.end = bounds.next.0;
                }
                return;
            }
            BusAnswer::Kept(number, run, mark, outcome) => {
                if let Some(part) = self.parts.get_mut(&number).filter(|part| part.run == run) {
                    part.sent = None;
                    if outcome.is_ok() {
                        part.kept = part.kept.max(mark);
                    } else {
                        self.mark_at = Instant::now() + RETRY;
                    }
                }
                outcome.err().map(|error| error.to_string())
            }
            BusAnswer::Told(outcome) => {
                self.is_ordering = false;
                if outcome.is_ok() {
                    self.orders.pop_front();
                } else {
                    self.order_at = Instant::now() + RETRY;
                }
                outcome.err().map(|error| error.to_string())
            }
        };
        self.error = failed;
        if let Some(error) = &self.error {
            tracing::warn!(pipeline = self.settings.pipeline, error, "the bus did not execute a pipeline's request");
        }
    }

    fn read_states(&mut self) {
        let Some(reader) = &mut self.state_reader else { return };
        loop {
            match reader.take(BATCH) {
                Ok(taken) => {
                    taken.records.iter().for_each(|record| self.state.take(record));
                    self.state_next = self.state_next.max(taken.next.0);
                    if taken.records.is_empty() {
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(pipeline = self.settings.pipeline, %error, "reading the states again");
                    self.state_reader = None;
                    self.make_at = Some(Instant::now() + RETRY);
                    return;
                }
            }
        }
    }

    fn follow_group(&mut self, now: Instant) {
        for event in self.membership.as_ref().map(Membership::take).unwrap_or_default() {
            match event {
                MembershipEvent::Gained(partition) => {
                    self.runs += 1;
                    self.parts.insert(partition.0, Share::new(self.runs, now));
                }
                MembershipEvent::Losing(partition) => {
                    if let Some(part) = self.parts.get_mut(&partition.0) {
                        part.losing = true;
                        part.reader = None;
                    }
                }
                MembershipEvent::Lost(partition) => {
                    if let Some(part) = self.parts.remove(&partition.0) {
                        self.forget(partition.0, part.run);
                    }
                }
            }
        }
    }

    /// Messages of a run of a partition are of another process now, or come again.
    fn forget(&mut self, partition: u32, run: u64) {
        let is_of = move |token: &Token| token.partition == partition && token.run == run;
        self.steps.retain(|step| !matches!(step, SourceStep::Message(_, Some(token)) if is_of(token)));
        self.steps.push_back(SourceStep::Gone(Box::new(is_of)));
    }

    fn keep_marks(&mut self, now: Instant) {
        if now < self.mark_at {
            return;
        }
        let states = self.states_place();
        let unkept: Vec<(u32, u64, Mark)> =
            self.parts.iter().filter_map(|(number, part)| Some((*number, part.run, part.unkept()?))).collect();
        for (number, run, mark) in unkept {
            self.mark_at = now + MARK_EVERY;
            let done =
                self.done(move |outcome: Result<Position, _>| BusAnswer::Kept(number, run, mark, outcome.map(|_| ())));
            let sent = self.bus.append(&states, mark_record(number, mark), done).is_ok();
            if let Some(part) = self.parts.get_mut(&number).filter(|_| sent) {
                part.sent = Some(mark);
            }
        }
    }

    fn ask_ends(&mut self, now: Instant) {
        if now < self.ends_at {
            return;
        }
        self.ends_at = now + ENDS_EVERY;
        for number in self.parts.keys().copied() {
            let place = LogSettings::place(&self.names, number);
            // The number is an estimate: it stays as it is while the bus does not answer.
            let _ = self.bus.bounds(&place, self.done(move |it| BusAnswer::End(number, it)));
        }
    }

    /// Whether messages are taken, as far as the bus is concerned.
    fn standing(&self) -> Option<Standing> {
        if !self.bus.connection().is_connected() {
            return self
                .bus
                .failure()
                .map(|why| Standing::Trouble(format!("the bus {} is away: {why}", self.settings.address)));
        }
        if let Some(error) = &self.error {
            return Some(Standing::Trouble(error.clone()));
        }
        let is_member = self.membership.as_ref().is_some_and(|membership| membership.tenure().is_some());
        is_member.then_some(Standing::Ready)
    }

    fn turn(&mut self, now: Instant) {
        if self.make_at.is_some_and(|at| now >= at) && self.to_make == 0 {
            self.make();
        }
        while let Some(news) = self.inbox.take() {
            self.hear(news);
        }
        self.read_states();
        self.follow_group(now);
        self.work(now);
        self.keep_marks(now);
        self.send_orders(now);
        self.ask_ends(now);
        if self.state.paused != self.told_paused {
            self.told_paused = self.state.paused;
            self.steps.push_back(SourceStep::Paused(self.state.paused));
        }
        let standing = self.standing();
        if standing.is_some() && standing != self.told {
            self.told.clone_from(&standing);
            self.steps.extend(standing.map(|standing| match standing {
                Standing::Ready => SourceStep::Ready,
                Standing::Trouble(why) => SourceStep::Trouble(why),
            }));
        }
    }

    /// When there is something to do, if nothing comes before.
    fn alarm(&self) -> Option<Instant> {
        let marks = self.parts.values().any(|part| part.unkept().is_some()).then_some(self.mark_at);
        let trims = self.parts.values().filter(|part| part.kept.position > part.trimmed).map(|part| part.trim_at).min();
        let ends = (!self.parts.is_empty()).then_some(self.ends_at);
        let orders =
            (!self.orders.is_empty() && !self.is_ordering && self.state_reader.is_some()).then_some(self.order_at);
        [self.make_at, marks, trims, ends, orders].into_iter().flatten().min()
    }

    /// Writes the next order of an operator, until the bus has it.
    fn send_orders(&mut self, now: Instant) {
        let Some(append) = self.orders.front().filter(|_| !self.is_ordering && now >= self.order_at) else { return };
        if self.state_reader.is_none() {
            // The log is not made yet.
            return;
        }
        let done = self.done(|outcome: Result<Position, _>| BusAnswer::Told(outcome.map(|_| ())));
        let sent = self.bus.append(&self.states_place(), append.clone(), done);
        self.is_ordering = sent.is_ok();
        if sent.is_err() {
            self.order_at = now + RETRY;
        }
    }
}

impl Source for LogSource {
    type Token = Token;

    fn wake(&self) -> Wake {
        self.inbox.wake()
    }

    fn next(&mut self, deadline: Option<Instant>) -> SourceStep<Token> {
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        self.turn(Instant::now());
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        self.inbox.wait([deadline, self.alarm()].into_iter().flatten().min());
        SourceStep::Idle
    }

    fn acknowledge(&mut self, token: Token, _ending: Ending) {
        if let Some(part) = self.parts.get_mut(&token.partition).filter(|part| part.run == token.run) {
            part.progress.finish(token.position);
        }
    }

    fn is_connected(&self) -> bool {
        self.membership.is_some()
    }

    fn waiting(&self) -> u64 {
        self.parts.values().map(Share::waiting).sum()
    }

    fn removed(&self) -> u64 {
        self.removed
    }

    fn place(&self) -> String {
        self.settings.address.to_string()
    }

    fn pause(&mut self, paused: bool) {
        self.told_paused = paused;
        self.state.paused = paused;
        self.orders.push_back(pause_record(paused));
    }

    fn replay(&mut self, from: u64, answer: ReplayAnswer) {
        // Of two replays at once the later one counts.
        let number = wall_clock().max(self.state.replay.number + 1);
        self.orders.push_back(replay_record(Replay { number, from }));
        // An operator that has gone needs no answer.
        let _ = answer.send(Ok(()));
    }

    fn leave(&mut self) {
        let deadline = Instant::now() + LEAVE_WITHIN;
        self.mark_at = Instant::now();
        self.keep_marks(Instant::now());
        while self.parts.values().any(|part| part.sent.is_some()) && Instant::now() < deadline {
            while let Some(news) = self.inbox.take() {
                self.hear(news);
            }
            self.inbox.wait(Some(deadline));
        }
        if let Some(membership) = self.membership.take() {
            membership.leave(LEAVE_WITHIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_bus::{Address, Settings};

    use super::*;
    use crate::log::wait;
    use crate::message::Message;

    #[test]
    fn messages_that_are_removed_by_age_are_counted() {
        const MESSAGES: u64 = 3;
        let settings = LogSettings {
            pipeline: "p".to_owned(),
            address: Address::Embedded,
            bus: Settings::default(),
            partitions: 1,
            max_bytes: 1 << 20,
            wait: Duration::from_secs(1),
            keep: Duration::ZERO,
            window: 1,
            member: "m".to_owned(),
        };
        let mut source = LogSource::new(&settings).unwrap();
        let (bus, place) = (source.bus.clone(), LogSettings::place(&source.names, 0));
        wait(|done| bus.create(settings.messages(&source.names), done)).unwrap();
        let epoch = wait(|done| bus.own(&place, done)).unwrap();
        let old = Message { timestamp: 1, ..Message::default() };
        for _ in 0..MESSAGES {
            wait(|done| bus.append(&place, Append::new(old.to_bytes()).by(epoch), done)).unwrap();
        }
        let is_message = |step: &SourceStep<Token>| u64::from(matches!(step, SourceStep::Message(..)));
        let mut taken = 0;
        while source.removed() == 0 {
            taken += is_message(&source.next(None));
        }
        taken += source.steps.iter().map(is_message).sum::<u64>();
        assert!(taken <= 1, "the window has one message");
        assert_eq!(source.removed(), MESSAGES - taken);
    }
}
