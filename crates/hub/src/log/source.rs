//! Takes messages of the partitions that this process has in the group of its pipeline.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_bus::{Append, Bounds, Bus, BusError, MemberName, Membership, MembershipEvent, Place, Position, Reader};

use super::partition::{Part, Phase, Search, Token};
use super::progress::Progress;
use super::state::{Mark, Replay, State, mark_record, pause_record, replay_record};
use super::{LogSettings, Names, states};
use crate::message::Message;
use crate::sources::{Inbox, Source, Step, Wake};
use crate::time::wall_clock;

/// How often marks are written while there is something to write.
const MARK_EVERY: Duration = Duration::from_millis(100);
/// How long to wait after an error of the bus.
const RETRY: Duration = Duration::from_secs(1);
/// How often delivered messages are removed.
const TRIM_EVERY: Duration = Duration::from_secs(5);
/// Messages that are read at once.
const BATCH: usize = 256;
/// How long the end waits for the last marks, and until others know that this process has gone.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// What the bus has answered.
enum News {
    Made(Result<(), BusError>),
    /// The end of the log of states, for a partition that has come.
    StatesEnd(u32, u64, Result<Bounds, BusError>),
    /// The bounds of a partition, for the search of a replay or of trimming.
    Bounds(u32, u64, Result<Bounds, BusError>),
    Kept(u32, u64, Mark, Result<(), BusError>),
    /// A pause or a replay was written.
    Told(Result<(), BusError>),
}

/// The source.
pub(crate) struct LogSource {
    settings: LogSettings,
    names: Names,
    bus: Bus,
    inbox: Inbox<News>,
    /// Logs that are not made yet.
    to_make: usize,
    make_at: Option<Instant>,
    membership: Option<Membership>,
    state_reader: Option<Reader>,
    /// States are read up to here.
    state_next: u64,
    state: State,
    parts: BTreeMap<u32, Part>,
    runs: u64,
    steps: VecDeque<Step<Token>>,
    /// What was said of the bus last: ready, or why not.
    told: Option<Result<(), String>>,
    told_paused: bool,
    /// The last error of the bus.
    error: Option<String>,
    mark_at: Instant,
}

impl LogSource {
    /// Opens the bus and does not wait for it.
    ///
    /// # Errors
    /// In words, when the pipeline has no name for the bus, or the bus cannot be opened.
    pub(crate) fn new(settings: &LogSettings) -> Result<Self, String> {
        let names = settings.names()?;
        let inbox = Inbox::default();
        let wake = inbox.wake();
        let bus = Bus::open(&settings.address, settings.bus.clone(), Arc::new(move |_| wake()));
        Ok(Self {
            names,
            bus: bus.map_err(|error| format!("the bus {}: {error}", settings.address))?,
            settings: settings.clone(),
            inbox,
            to_make: 0,
            make_at: Some(Instant::now()),
            membership: None,
            state_reader: None,
            state_next: 0,
            state: State::default(),
            parts: BTreeMap::new(),
            runs: 0,
            steps: VecDeque::new(),
            told: None,
            told_paused: false,
            error: None,
            mark_at: Instant::now(),
        })
    }

    /// A callback that puts news into the inbox.
    fn done<T>(&self, news: impl FnOnce(Result<T, BusError>) -> News + Send + 'static) -> tidegate_bus::Done<T> {
        let inbox = self.inbox.clone();
        Box::new(move |outcome| inbox.push(news(outcome)))
    }

    fn make(&mut self) {
        self.make_at = None;
        for spec in [self.settings.messages(&self.names), states(&self.names)] {
            self.to_make += 1;
            if let Err(error) = self.bus.create(spec, self.done(News::Made)) {
                self.inbox.push(News::Made(Err(error)));
            }
        }
    }

    fn states_place(&self) -> Place {
        Place::new(self.names.states.clone(), 0)
    }

    /// The logs are there: the process joins the group.
    fn join(&mut self) -> Result<(), String> {
        let said = |error: BusError| error.to_string();
        if self.state_reader.is_none() {
            let reader = self.bus.read(&self.states_place(), Position::START, self.inbox.wake()).map_err(said)?;
            self.state_reader = Some(reader);
        }
        if self.membership.is_none() {
            let member = MemberName::new(&self.settings.member).map_err(|error| error.to_string())?;
            let partitions = self.settings.partitions;
            let joined = self.bus.join(&self.names.group, &member, partitions, self.inbox.wake()).map_err(said)?;
            self.membership = Some(joined);
        }
        Ok(())
    }

    fn hear(&mut self, news: News) {
        let failed = match news {
            News::Made(outcome) => {
                self.to_make = self.to_make.saturating_sub(1);
                let joined = outcome.map_err(|error| error.to_string()).and_then(|()| {
                    let is_last = self.to_make == 0 && self.make_at.is_none();
                    if is_last { self.join() } else { Ok(()) }
                });
                joined.inspect_err(|_| self.make_at = Some(Instant::now() + RETRY)).err()
            }
            News::StatesEnd(number, run, outcome) => {
                let part = self.parts.get_mut(&number).filter(|part| part.run == run);
                let Some(part) = part else { return };
                match outcome {
                    Ok(bounds) => part.phase = Phase::Catches(bounds.next.0),
                    // The next turn asks again.
                    Err(_) => part.phase = Phase::Asks,
                }
                outcome.err().map(|error| error.to_string())
            }
            News::Bounds(number, run, outcome) => self.begin_search(number, run, outcome).err(),
            News::Kept(number, run, mark, outcome) => {
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
            News::Told(outcome) => outcome.err().map(|error| error.to_string()),
        };
        self.error = failed;
        if let Some(error) = &self.error {
            tracing::warn!(pipeline = self.settings.pipeline, error, "the bus has not done what a pipeline needs");
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
                    tracing::warn!(pipeline = self.settings.pipeline, %error, "the states are read again");
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
                    self.parts.insert(partition.0, Part::new(self.runs, now));
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
        self.steps.retain(|step| !matches!(step, Step::Message(_, Some(token)) if is_of(token)));
        self.steps.push_back(Step::Gone(Box::new(is_of)));
    }

    /// Does what each partition needs next.
    fn work(&mut self, now: Instant) {
        let mut room = usize::from(self.settings.window);
        room = room.saturating_sub(self.parts.values().map(|part| part.progress.len()).sum());
        let numbers: Vec<u32> = self.parts.keys().copied().collect();
        for number in numbers {
            let Some(mut part) = self.parts.remove(&number) else { continue };
            if let Err(error) = self.work_on(number, &mut part, &mut room, now) {
                tracing::warn!(pipeline = self.settings.pipeline, partition = number, %error, "a partition is read again");
                // Also when the servers have lost the log: reading begins with the mark, or with what there is.
                part.reader = None;
                part.trimming = None;
                self.error = Some(error.to_string());
                self.restart(number, &mut part, matches!(error, BusError::Trimmed { .. }));
            }
            self.parts.insert(number, part);
        }
    }

    /// Begins a partition again, at its mark, or at its first message when what is behind the mark is gone.
    fn restart(&mut self, number: u32, part: &mut Part, from_first: bool) {
        self.forget(number, part.run);
        self.runs += 1;
        let (mark, losing, kept) = (part.mark(), part.losing, part.kept);
        let is_known = !matches!(part.phase, Phase::Asks | Phase::Catches(_));
        *part = Part::new(self.runs, Instant::now());
        part.losing = losing;
        if !is_known {
            return;
        }
        part.kept = kept;
        part.generation = mark.generation;
        part.progress = Progress::at(if from_first { 0 } else { mark.position });
        part.phase = Phase::Works;
    }

    fn work_on(&mut self, number: u32, part: &mut Part, room: &mut usize, now: Instant) -> Result<(), BusError> {
        let place = LogSettings::place(&self.names, number);
        match &mut part.phase {
            Phase::Asks => {
                part.phase = Phase::Catches(u64::MAX);
                let run = part.run;
                self.bus.bounds(&self.states_place(), self.done(move |it| News::StatesEnd(number, run, it)))?;
            }
            Phase::Catches(end) if self.state_next >= *end => {
                part.kept = self.state.mark(number);
                part.generation = part.kept.generation;
                part.progress = Progress::at(part.kept.position);
                part.phase = Phase::Works;
            }
            Phase::Catches(_) => {}
            Phase::Seeks(search) => {
                if let Some(found) = search.turn()? {
                    part.generation = search.replay;
                    part.progress = Progress::at(found);
                    part.phase = Phase::Works;
                }
            }
            Phase::Works if self.state.replay.number > part.generation && !part.losing => {
                let Replay { number: replay, from } = self.state.replay;
                self.forget(number, part.run);
                self.runs += 1;
                (part.run, part.reader, part.trimming, part.sent) = (self.runs, None, None, None);
                part.phase = Phase::Seeks(Search::new(replay, from));
                let run = part.run;
                self.bus.bounds(&place, self.done(move |it| News::Bounds(number, run, it)))?;
            }
            Phase::Works => {
                self.read(number, part, room)?;
                self.trim(number, part, now)?;
            }
        }
        if part.losing && !part.released && part.is_finished() {
            part.released = true;
            if let Some(membership) = &self.membership {
                membership.release(tidegate_bus::Partition(number));
            }
        }
        Ok(())
    }

    fn read(&mut self, number: u32, part: &mut Part, room: &mut usize) -> Result<(), BusError> {
        if part.losing || *room == 0 {
            return Ok(());
        }
        if part.reader.is_none() {
            let place = LogSettings::place(&self.names, number);
            part.reader = Some(self.bus.read(&place, Position(part.progress.done()), self.inbox.wake())?);
        }
        let Some(reader) = &mut part.reader else { return Ok(()) };
        let taken = reader.take(BATCH.min(*room))?;
        for record in taken.records {
            *room = room.saturating_sub(1);
            let position = record.position.0;
            part.progress.take(position);
            if let Some(message) = Message::from_bytes(&record.payload) {
                let token = Token { partition: number, run: part.run, position };
                self.steps.push_back(Step::Message(Box::new(message), Some(token)));
            } else {
                let pipeline = self.settings.pipeline.as_str();
                tracing::warn!(pipeline, partition = number, position, "a record of the log is no message");
                part.progress.finish(position);
            }
        }
        Ok(())
    }

    /// Removes messages that are delivered and older than a replay may ask for.
    fn trim(&mut self, number: u32, part: &mut Part, now: Instant) -> Result<(), BusError> {
        let place = LogSettings::place(&self.names, number);
        let below = match &mut part.trimming {
            Some(search) => search.turn()?,
            None if now < part.trim_at || part.kept.position <= part.trimmed => None,
            None if self.settings.keep.is_zero() => Some(part.kept.position),
            None => {
                part.trim_at = now + TRIM_EVERY;
                let kept = u64::try_from(self.settings.keep.as_millis()).unwrap_or(u64::MAX);
                part.trimming = Some(Search::new(0, wall_clock().saturating_sub(kept)));
                let run = part.run;
                self.bus.bounds(&place, self.done(move |it| News::Bounds(number, run, it)))?;
                None
            }
        };
        let Some(below) = below else { return Ok(()) };
        (part.trimming, part.trim_at) = (None, now + TRIM_EVERY);
        if below > part.trimmed {
            part.trimmed = below;
            // What stays is trimmed the next time.
            self.bus.trim(&place, Position(below), Box::new(drop))?;
        }
        Ok(())
    }

    fn begin_search(&mut self, number: u32, run: u64, outcome: Result<Bounds, BusError>) -> Result<(), String> {
        let place = LogSettings::place(&self.names, number);
        let Some(part) = self.parts.get_mut(&number).filter(|part| part.run == run) else { return Ok(()) };
        let kept = part.kept.position;
        let search = match (&mut part.phase, &mut part.trimming) {
            (Phase::Seeks(search), _) | (_, Some(search)) if !search.is_begun() => search,
            _ => return Ok(()),
        };
        let begun = outcome.and_then(|bounds| {
            let reader = self.bus.read(&place, bounds.first, self.inbox.wake())?;
            search.begin(kept.min(bounds.next.0), reader);
            Ok(())
        });
        begun.map_err(|error| {
            // The next turn begins again.
            part.trimming = None;
            if matches!(part.phase, Phase::Seeks(_)) {
                part.phase = Phase::Works;
            }
            error.to_string()
        })
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
                self.done(move |outcome: Result<Position, _>| News::Kept(number, run, mark, outcome.map(|_| ())));
            let sent = self.bus.append(&states, mark_record(number, mark), done).is_ok();
            if let Some(part) = self.parts.get_mut(&number).filter(|_| sent) {
                part.sent = Some(mark);
            }
        }
    }

    /// Whether messages are taken, as far as the bus is concerned.
    fn standing(&self) -> Option<Result<(), String>> {
        if !self.bus.connection().is_connected() {
            return self.bus.failure().map(|why| Err(format!("the bus {} is away: {why}", self.settings.address)));
        }
        if let Some(error) = &self.error {
            return Some(Err(error.clone()));
        }
        let is_member = self.membership.as_ref().is_some_and(|membership| membership.tenure().is_some());
        is_member.then_some(Ok(()))
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
        if self.state.paused != self.told_paused {
            self.told_paused = self.state.paused;
            self.steps.push_back(Step::Paused(self.state.paused));
        }
        let standing = self.standing();
        if standing.is_some() && standing != self.told {
            self.told.clone_from(&standing);
            self.steps.extend(standing.map(|it| it.map_or_else(Step::Trouble, |()| Step::Ready)));
        }
    }

    /// When there is something to do, if nothing comes before.
    fn alarm(&self) -> Option<Instant> {
        let marks = self.parts.values().any(|part| part.unkept().is_some()).then_some(self.mark_at);
        let trims = self.parts.values().filter(|part| part.kept.position > part.trimmed).map(|part| part.trim_at).min();
        [self.make_at, marks, trims].into_iter().flatten().min()
    }

    fn tell(&mut self, append: Append) {
        let done = self.done(|outcome: Result<Position, _>| News::Told(outcome.map(|_| ())));
        if let Err(error) = self.bus.append(&self.states_place(), append, done) {
            self.inbox.push(News::Told(Err(error)));
        }
    }
}

impl Source for LogSource {
    type Token = Token;

    fn wake(&self) -> Wake {
        self.inbox.wake()
    }

    fn next(&mut self, deadline: Option<Instant>) -> Step<Token> {
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        self.turn(Instant::now());
        if let Some(step) = self.steps.pop_front() {
            return step;
        }
        self.inbox.wait([deadline, self.alarm()].into_iter().flatten().min());
        Step::Idle
    }

    fn acknowledge(&mut self, token: Token) {
        if let Some(part) = self.parts.get_mut(&token.partition).filter(|part| part.run == token.run) {
            part.progress.finish(token.position);
        }
    }

    fn is_connected(&self) -> bool {
        self.membership.is_some()
    }

    fn place(&self) -> String {
        self.settings.address.to_string()
    }

    fn pause(&mut self, paused: bool) {
        self.told_paused = paused;
        self.state.paused = paused;
        self.tell(pause_record(paused));
    }

    fn replay(&mut self, from: u64) -> Result<(), String> {
        // Of two replays at once the later one counts.
        self.tell(replay_record(Replay { number: wall_clock().max(self.state.replay.number + 1), from }));
        Ok(())
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
