//! A source with an archive on this disk: a replay reads messages of the archive beside new messages.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::progress::Progress;
use super::{ReplayAnswer, ReplayError, Source, SourceStep, Wake};
use crate::archive::{ArchivePlace, ArchiveReader, ArchiveReplay};
use crate::core::Ending;
use crate::message::Message;
use crate::open_error::OpenError;

/// How often the state of a replay is written.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// How long to wait after an error of the disk.
const RETRY: Duration = Duration::from_secs(1);

/// How a message of either kind is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReplayedToken<T> {
    /// A message that comes now.
    Live(T),
    /// A message of the archive.
    Past {
        /// Which run of a replay: the messages of an earlier one come again.
        run: u64,
        /// The place of the message among the messages of the run.
        number: u64,
    },
}

/// A replay that is under way.
struct Reading {
    reader: ArchiveReader,
    replay: ArchiveReplay,
    run: u64,
    progress: Progress,
    /// Numbers of messages that are not done, with the places behind them.
    places: VecDeque<(u64, ArchivePlace)>,
    has_ended: bool,
    save_at: Instant,
    retry_at: Option<Instant>,
}

impl Reading {
    fn new(folder: &Path, replay: ArchiveReplay, run: u64) -> Self {
        Self {
            reader: ArchiveReader::new(folder, replay),
            replay,
            run,
            progress: Progress::default(),
            places: VecDeque::new(),
            has_ended: false,
            save_at: Instant::now() + SAVE_EVERY,
            retry_at: None,
        }
    }

    /// Notes that a message is done.
    fn finish(&mut self, number: u64) {
        self.progress.finish(number);
        let done = self.progress.done();
        while let Some((_, place)) = self.places.front().filter(|(number, _)| *number < done) {
            self.replay.done = *place;
            self.places.pop_front();
        }
    }
}

/// The source, and the archive of its messages.
pub(crate) struct Replayed<S> {
    source: S,
    folder: PathBuf,
    /// Messages of the archive that are under way at once.
    window: usize,
    reading: Option<Reading>,
    runs: u64,
    /// Whether the next step is one of the archive, if it has one: each of the two has its turn.
    is_past_next: bool,
}

impl<S: Source> Replayed<S>
where
    S::Token: 'static,
{
    /// Continues a replay that the last process has not done.
    ///
    /// # Errors
    /// In words, when the state of the replay cannot be read.
    pub(crate) fn new(source: S, folder: &Path, window: u16) -> Result<Self, OpenError> {
        let replay =
            ArchiveReplay::load(folder).map_err(|error| OpenError::part(folder.display().to_string(), &error))?;
        let reading = replay.map(|replay| Reading::new(folder, replay, 0));
        let window = usize::from(window);
        Ok(Self { source, folder: folder.to_owned(), window, reading, runs: 0, is_past_next: false })
    }

    /// The next message of the archive, if there is one and room for it.
    fn past(&mut self) -> Option<SourceStep<ReplayedToken<S::Token>>> {
        let reading = self.reading.as_mut().filter(|reading| !reading.has_ended)?;
        if reading.progress.len() >= self.window || reading.retry_at.is_some_and(|at| Instant::now() < at) {
            return None;
        }
        reading.retry_at = None;
        match reading.reader.next() {
            Ok(Some((message, place))) => {
                let number = reading.progress.next();
                reading.progress.take(number);
                reading.places.push_back((number, place));
                let token = ReplayedToken::Past { run: reading.run, number };
                Some(SourceStep::Message(Arc::new(message), Some(token)))
            }
            Ok(None) => {
                reading.has_ended = true;
                self.settle();
                None
            }
            Err(error) => {
                reading.retry_at = Some(Instant::now() + RETRY);
                Some(SourceStep::Trouble(format!("the archive cannot be read: {error}")))
            }
        }
    }

    /// Writes how far the replay is, or that it is done.
    fn settle(&mut self) {
        let Some(reading) = &mut self.reading else { return };
        let written = if reading.has_ended && reading.progress.len() == 0 {
            self.reading = None;
            tracing::info!(folder = %self.folder.display(), "the replay is done");
            ArchiveReplay::remove(&self.folder)
        } else if Instant::now() >= reading.save_at {
            reading.save_at = Instant::now() + SAVE_EVERY;
            reading.replay.save(&self.folder)
        } else {
            return;
        };
        if let Err(error) = written {
            tracing::warn!(folder = %self.folder.display(), %error, "the state of the replay cannot be written: after a restart, messages of the archive come once more");
        }
    }

    /// A step of the source itself.
    fn live(&mut self, step: SourceStep<S::Token>) -> SourceStep<ReplayedToken<S::Token>> {
        match step {
            SourceStep::Message(message, token) => SourceStep::Message(message, token.map(ReplayedToken::Live)),
            SourceStep::Idle => SourceStep::Idle,
            SourceStep::Ready => SourceStep::Ready,
            SourceStep::Partly(why) => SourceStep::Partly(why),
            SourceStep::Away(why) => {
                // No token is of use any more: messages of the archive come again, too.
                if let Some(reading) = &mut self.reading {
                    self.runs += 1;
                    *reading = Reading::new(&self.folder, reading.replay, self.runs);
                }
                SourceStep::Away(why)
            }
            SourceStep::Trouble(why) => SourceStep::Trouble(why),
            SourceStep::Gone(is_gone) => SourceStep::Gone(Box::new(move |token| match token {
                ReplayedToken::Live(token) => is_gone(token),
                ReplayedToken::Past { .. } => false,
            })),
            SourceStep::Paused(paused) => SourceStep::Paused(paused),
        }
    }
}

impl<S: Source> Source for Replayed<S>
where
    S::Token: 'static,
{
    type Token = ReplayedToken<S::Token>;

    fn wake(&self) -> Wake {
        self.source.wake()
    }

    fn next(&mut self, deadline: Option<Instant>) -> SourceStep<Self::Token> {
        self.is_past_next = !self.is_past_next;
        let past = if self.is_past_next { self.past() } else { None };
        if let Some(step) = past {
            return step;
        }
        // While the archive has messages, the source is asked and not waited for.
        let has_more = self.reading.as_ref().is_some_and(|it| !it.has_ended && it.progress.len() < self.window);
        let retry_at = self.reading.as_ref().and_then(|reading| reading.retry_at);
        let until = if has_more { retry_at.or_else(|| Some(Instant::now())) } else { None };
        let step = self.source.next([deadline, until].into_iter().flatten().min());
        self.live(step)
    }

    fn ready(&mut self) -> Option<SourceStep<Self::Token>> {
        match self.source.ready() {
            Some(step) => Some(self.live(step)),
            None => self.past(),
        }
    }

    fn rest(&mut self, until: Instant) {
        // A replay has messages at any time.
        if self.reading.is_none() {
            self.source.rest(until);
        }
    }

    fn acknowledge_all(&mut self, ended: Vec<(Self::Token, Ending)>) {
        let mut live = Vec::with_capacity(ended.len());
        for (token, ending) in ended {
            match token {
                ReplayedToken::Live(token) => live.push((token, ending)),
                ReplayedToken::Past { .. } => self.acknowledge(token, ending),
            }
        }
        self.source.acknowledge_all(live);
    }

    fn acknowledge(&mut self, token: Self::Token, ending: Ending) {
        match token {
            ReplayedToken::Live(token) => self.source.acknowledge(token, ending),
            ReplayedToken::Past { run, number } => {
                if let Some(reading) = self.reading.as_mut().filter(|reading| reading.run == run) {
                    reading.finish(number);
                    self.settle();
                }
            }
        }
    }

    fn reuse(&mut self, message: Arc<Message>) {
        self.source.reuse(message);
    }

    fn is_connected(&self) -> bool {
        self.source.is_connected()
    }

    fn waiting(&self) -> u64 {
        self.source.waiting()
    }

    fn removed(&self) -> u64 {
        self.source.removed()
    }

    fn place(&self) -> String {
        self.source.place()
    }

    fn pause(&mut self, paused: bool) {
        self.source.pause(paused);
    }

    fn replay(&mut self, from: u64, answer: ReplayAnswer) {
        let begun = ArchiveReplay::new(&self.folder, from).and_then(|replay| {
            replay.save(&self.folder)?;
            self.runs += 1;
            self.reading = Some(Reading::new(&self.folder, replay, self.runs));
            Ok(())
        });
        // An operator that has gone needs no answer.
        let _ = answer.send(begun.map_err(|error| ReplayError::Archive { folder: self.folder.clone(), error }));
    }

    fn leave(&mut self) {
        if let Some(reading) = &mut self.reading {
            reading.save_at = Instant::now();
        }
        self.settle();
        self.source.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::message::Message;
    use crate::segments::{SegmentBounds, SegmentWriter};

    /// A source with scripted steps.
    struct Script(VecDeque<SourceStep<u64>>);

    impl Source for Script {
        type Token = u64;

        fn wake(&self) -> Wake {
            Arc::new(|| {})
        }

        fn next(&mut self, _deadline: Option<Instant>) -> SourceStep<u64> {
            self.0.pop_front().unwrap_or(SourceStep::Idle)
        }

        fn acknowledge(&mut self, _token: u64, _ending: Ending) {}

        fn is_connected(&self) -> bool {
            true
        }

        fn place(&self) -> String {
            String::new()
        }

        fn leave(&mut self) {}
    }

    /// A folder with messages of these times.
    fn archive(name: &str, times: &[u64]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tidegate-replayed-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let line = |time: &u64| Message { timestamp: *time, ..Message::default() }.to_line();
        let lines: Vec<u8> = times.iter().flat_map(line).collect();
        let bounds = SegmentBounds { max_bytes: 1 << 20, max_age: Duration::MAX };
        SegmentWriter::new(folder.clone(), bounds).append(&lines).unwrap();
        folder
    }

    fn source(folder: &Path, steps: Vec<SourceStep<u64>>) -> Replayed<Script> {
        Replayed::new(Script(steps.into()), folder, 2).unwrap()
    }

    /// The times of the messages that are there, and their tokens.
    fn taken(source: &mut Replayed<Script>) -> Vec<(u64, ReplayedToken<u64>)> {
        let steps = std::iter::from_fn(|| source.ready());
        steps
            .map(|step| match step {
                SourceStep::Message(message, Some(token)) => (message.timestamp, token),
                _ => panic!("a message comes"),
            })
            .collect()
    }

    fn times(taken: &[(u64, ReplayedToken<u64>)]) -> Vec<u64> {
        taken.iter().map(|(time, _)| *time).collect()
    }

    #[test]
    fn the_next_process_continues_a_replay() {
        let folder = archive("process", &[1, 2, 3]);
        let mut one = source(&folder, Vec::new());
        assert!(one.ready().is_none(), "nothing comes before a replay");
        let (answer, answered) = channel();
        one.replay(2, answer);
        answered.recv().unwrap().unwrap();
        let mut killed = source(&folder, Vec::new());
        let messages = taken(&mut killed);
        assert_eq!(times(&messages), [2, 3]);
        killed.acknowledge(messages[1].1.clone(), Ending::Delivered);
        killed.leave();
        let mut next = source(&folder, Vec::new());
        let messages = taken(&mut next);
        assert_eq!(times(&messages), [2, 3], "the first was not done");
        for (_, token) in messages {
            next.acknowledge(token, Ending::Delivered);
        }
        assert!(next.ready().is_none());
        assert_eq!(ArchiveReplay::load(&folder).unwrap(), None);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn no_more_than_a_window_of_a_replay_is_under_way() {
        let folder = archive("window", &[1, 2, 3]);
        let mut source = source(&folder, vec![SourceStep::Ready, SourceStep::Away("x".into())]);
        source.replay(0, channel().0);
        let messages = taken(&mut source);
        assert_eq!(times(&messages), [1, 2]);
        source.acknowledge(messages[0].1.clone(), Ending::Delivered);
        assert_eq!(times(&taken(&mut source)), [3]);
        // Without its connection the pipeline forgets all tokens: unfinished messages come again.
        assert!(matches!(source.next(None), SourceStep::Ready));
        assert!(matches!(source.next(None), SourceStep::Away(_)));
        let again = taken(&mut source);
        assert_eq!(times(&again), [2, 3]);
        source.acknowledge(messages[1].1.clone(), Ending::Delivered);
        assert!(source.ready().is_none(), "a token of the last run finishes nothing");
        assert_ne!(messages[1].1, again[0].1);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
