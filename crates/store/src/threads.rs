//! The threads of the store: they wait, and call code that works without threads.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::catalog::Shared;
use crate::commits::Commits;
use crate::journal_writer::{Batch, JournalWriter, Step};
use crate::load::{LoadCallback, Loader};
use crate::merge::{Merge, MergeError, give_room, make_spare};
use crate::pace::{self, Pace};
use crate::room::Room;
use crate::{Durability, OpenError};

/// Pause before a failed write is retried; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How long a batch waits, for whose commit nothing waits, to be committed with others. A process that is killed meanwhile
/// sends the acknowledged messages once more that such a batch deletes.
pub const UNAWAITED_WAIT: Duration = Duration::from_millis(50);
/// How often the free space of a full disk is measured.
const FULL_PAUSE: Duration = Duration::from_secs(1);
/// How often the free space is measured while nothing is written, since other programs may fill the disk, and the index of
/// loads is looked at while nothing is loaded.
const IDLE_PAUSE: Duration = Duration::from_secs(5);
/// Pause before a failed merge is tried again; it doubles up to the longest.
const FIRST_MERGE_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_MERGE_PAUSE: Duration = Duration::from_secs(60);
/// Attempts to write the pending batches when the store is stopped.
const STOP_ATTEMPTS: u32 = 3;
/// Entries that a merge works on between two looks at whether it shall stop.
const MERGE_STEP: usize = 4_096;

/// Messages to the writing thread.
pub(crate) enum Message {
    Batch(Batch),
    Stop,
}

/// Requests to the loading thread.
pub(crate) enum Request {
    Load(Load),
    Stop,
}

/// A load that waits.
pub(crate) struct Load {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
    pub(crate) max_bytes: usize,
    pub(crate) callback: LoadCallback,
}

/// Why the writing thread woke.
enum Woken {
    Work,
    Time,
    Stop,
}

/// The writing thread.
pub(crate) fn write(
    shared: &Arc<Shared>,
    mut writer: JournalWriter,
    receiver: &Receiver<Message>,
    mut commits: Box<dyn Commits>,
) {
    let mut pause = FIRST_PAUSE;
    let mut wait = Wait::default();
    wait.idle_from(shared);
    loop {
        wait.make_room_in_time(shared, &mut writer);
        let longest = wait.longest(shared);
        match receive(&mut writer, receiver, longest) {
            Woken::Stop => break,
            Woken::Time => shared.measure_free_space(),
            Woken::Work => {}
        }
        if wait.pauses() || wait.puts_off(shared, &writer) || wait.slows_down(shared, &writer) {
            sync_in_time(shared, &mut writer, &mut wait);
            continue;
        }
        wait.retry = None;
        wait.checkpoint_in_time(&mut writer);
        let step = writer.step(&mut *commits);
        if shared.status.is_fenced() {
            return end_fenced(receiver);
        }
        if step == Step::Retry {
            wait.retry = Some(Instant::now() + pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
            continue;
        }
        pause = FIRST_PAUSE;
        wait.more = writer.has_work();
        if step == Step::Done {
            wait.idle_from(shared);
        }
        sync_in_time(shared, &mut writer, &mut wait);
    }
    finish(shared, &mut writer, &mut *commits);
}

/// Drops the messages to a store that can commit no more, until it is stopped, so that they do not accumulate.
fn end_fenced(receiver: &Receiver<Message>) {
    while let Ok(Message::Batch(_)) = receiver.recv() {}
}

/// The timers of the writing thread.
#[derive(Default)]
struct Wait {
    /// The time of the next retry.
    retry: Option<Instant>,
    /// The time at which batches are written although nothing waits for their commit.
    unawaited: Option<Instant>,
    /// The time at which written frames must be synced.
    sync: Option<Instant>,
    /// The time at which the journal is merged, if no batch arrives before.
    checkpoint: Option<Instant>,
    /// The pause before the present group is over.
    slowed: bool,
    /// There is work already.
    more: bool,
    /// When a store that is full is merged.
    room: Room,
}

impl Wait {
    /// How long to wait for batches.
    fn longest(&self, shared: &Shared) -> Duration {
        if self.more && self.retry.is_none() {
            return Duration::ZERO;
        }
        let measure = if shared.status.is_full() { FULL_PAUSE } else { IDLE_PAUSE };
        // A checkpoint comes behind all batches, so it does not shorten their pauses.
        let checkpoint = self.checkpoint.filter(|_| self.retry.is_none() && self.unawaited.is_none());
        let times = [self.retry, self.unawaited, self.sync, checkpoint].into_iter().flatten();
        times.map(|time| time.saturating_duration_since(Instant::now())).fold(measure, Duration::min)
    }

    fn pauses(&self) -> bool {
        self.retry.is_some_and(|time| time > Instant::now())
    }

    /// Puts batches off for whose commit nothing waits; a retry whose time has come is not put off again. Where the
    /// durability is relaxed, a commit costs no sync.
    fn puts_off(&mut self, shared: &Shared, writer: &JournalWriter) -> bool {
        let commits = shared.settings.durability == Durability::Commit;
        if !commits || self.more || self.retry.is_some() || !writer.may_wait() {
            self.unawaited = None;
            return false;
        }
        let now = Instant::now();
        let waits = *self.unawaited.get_or_insert(now + UNAWAITED_WAIT) > now;
        if !waits {
            self.unawaited = None;
        }
        waits
    }

    /// Puts the next group off while the journal is so long that merges have to catch up.
    fn slows_down(&mut self, shared: &Shared, writer: &JournalWriter) -> bool {
        if self.slowed || !writer.has_work() {
            self.slowed = false;
            return false;
        }
        let pause = match shared.pace() {
            Pace::Go => return false,
            Pace::Slow(pause) => {
                self.slowed = true;
                shared.status.slowed_groups.fetch_add(1, Relaxed);
                pause
            }
            Pace::Wait(pause) => pause,
        };
        shared.work.ask(|wanted| wanted.merge = true);
        self.retry = Some(Instant::now() + pause);
        true
    }

    /// Restarts the checkpoint timer, if there is enough journal to merge.
    fn idle_from(&mut self, shared: &Shared) {
        let (settings, status) = (&shared.settings, &shared.status);
        let wanted = pace::wants_checkpoint(settings, status.journal_bytes(), status.table_bytes());
        self.checkpoint = wanted.then(|| Instant::now() + settings.checkpoint_after);
    }

    /// Has a full store merged, at the start too.
    fn make_room_in_time(&mut self, shared: &Shared, writer: &mut JournalWriter) {
        let (now, status) = (Instant::now(), &shared.status);
        let merge_took = Duration::from_millis(status.merge_milliseconds.load(Relaxed));
        if self.room.is_due(now, status.lacks_room(), merge_took) && writer.make_room() {
            self.room.note_asked(now);
        }
    }

    fn checkpoint_in_time(&mut self, writer: &mut JournalWriter) {
        if self.checkpoint.is_none_or(|time| time > Instant::now()) || writer.has_work() {
            return;
        }
        // One attempt after each period of writes.
        self.checkpoint = None;
        writer.checkpoint();
    }
}

/// Takes batches that wait, as many as make a group; waits for the first one.
fn receive(writer: &mut JournalWriter, receiver: &Receiver<Message>, longest: Duration) -> Woken {
    let mut next = match receiver.recv_timeout(longest) {
        Ok(message) => Some(message),
        Err(RecvTimeoutError::Timeout) => return Woken::Time,
        Err(RecvTimeoutError::Disconnected) => return Woken::Stop,
    };
    while let Some(message) = next {
        match message {
            Message::Batch(batch) => writer.take(batch),
            Message::Stop => return Woken::Stop,
        }
        next = if writer.has_group() { None } else { receiver.try_recv().ok() };
    }
    Woken::Work
}

fn sync_in_time(shared: &Shared, writer: &mut JournalWriter, wait: &mut Wait) {
    let Durability::Relaxed { window } = shared.settings.durability else {
        return;
    };
    if !writer.is_unsynced() {
        wait.sync = None;
        return;
    }
    let now = Instant::now();
    let due = *wait.sync.get_or_insert(now + window);
    if due <= now {
        wait.sync = match writer.sync() {
            Step::Retry => Some(now + FIRST_PAUSE),
            Step::Idle | Step::Done => None,
        };
    }
}

/// Writes the pending batches and closes the journal.
fn finish(shared: &Shared, writer: &mut JournalWriter, commits: &mut dyn Commits) {
    let mut attempts = 0;
    while writer.has_work() && attempts < STOP_ATTEMPTS {
        if writer.step(commits) == Step::Retry {
            attempts += 1;
        }
    }
    if writer.has_work() && shared.status.is_fenced() {
        let bytes = shared.status.pending_bytes();
        tracing::info!(bytes, "the last batches are not written: the store is fenced. None of them was acknowledged");
    } else if writer.has_work() {
        let bytes = shared.status.pending_bytes();
        tracing::error!(bytes, "the disk rejected the last batches; none of them was acknowledged");
    } else if writer.end() == Step::Retry {
        tracing::warn!("cannot write the end of the journal; the next start reads all of it");
    }
}

/// The loading thread.
pub(crate) fn load(mut loader: Loader, requests: &Receiver<Request>) {
    loop {
        let received = if loader.is_empty() {
            requests.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            requests.recv_timeout(IDLE_PAUSE)
        };
        let load = match received {
            Ok(Request::Load(load)) => load,
            Ok(Request::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                loader.forget_merged();
                continue;
            }
        };
        let answer = loader.load(&load.from, &load.to, load.max_bytes);
        if let Err(error) = &answer {
            tracing::error!(%error, "cannot load a part of the store");
        }
        (load.callback)(answer);
    }
}

/// The merging thread.
pub(crate) fn merge(shared: &Arc<Shared>) {
    let mut pause = FIRST_MERGE_PAUSE;
    let mut failed_at: Option<Instant> = None;
    loop {
        let longest = failed_at.map(|at| (at + pause).saturating_duration_since(Instant::now()));
        let wanted = shared.work.take(longest);
        if wanted.stop {
            return;
        }
        let waits = failed_at.is_some_and(|at| at + pause > Instant::now());
        if !waits && (wanted.merge || failed_at.is_some()) {
            match merge_all(shared) {
                Ok(()) => {
                    (failed_at, pause) = (None, FIRST_MERGE_PAUSE);
                    shared.status.merges_fail.store(false, Relaxed);
                }
                // The process that owns the files now merges them.
                Err(MergeError::Write(OpenError::Fenced(_))) => return,
                Err(error) => {
                    tracing::error!(%error, "a merge failed; retrying");
                    give_room(shared, &error);
                    shared.status.failed_merges.fetch_add(1, Relaxed);
                    shared.status.merges_fail.store(true, Relaxed);
                    shared.status.note_error(error.to_string());
                    if failed_at.is_some() {
                        pause = (pause * 2).min(LONGEST_MERGE_PAUSE);
                    }
                    failed_at = Some(Instant::now());
                }
            }
        }
        if wanted.reserve {
            shared.fill_reserve();
        }
        // A merge leaves files behind that serve as spare ones, so it comes first.
        if wanted.spare
            && let Err(error) = make_spare(shared)
        {
            tracing::warn!(%error, "cannot prepare a file for the journal; its syncs take longer");
        }
    }
}

fn merge_all(shared: &Arc<Shared>) -> Result<(), MergeError> {
    let Some(mut merge) = Merge::begin(shared)? else {
        return Ok(());
    };
    let begin = Instant::now();
    loop {
        match merge.advance(MERGE_STEP) {
            Ok(true) if shared.work.stops() => {
                merge.abandon();
                return Ok(());
            }
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                merge.abandon();
                return Err(error);
            }
        }
    }
    merge.finish()?;
    let status = &shared.status;
    let milliseconds = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    status.merge_milliseconds.store(milliseconds, Relaxed);
    tracing::info!(
        milliseconds,
        entries = status.table_entries(),
        table_bytes = status.table_bytes(),
        journal_bytes = status.journal_bytes(),
        "merged the journal into the table"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::operation::put;
    use crate::{Settings, SimulatedDisk, keep_all, open};

    fn batch(is_awaited: bool, bytes: usize) -> Batch {
        let mut payload = Vec::new();
        put(&mut payload, b"key", &vec![0; bytes]).unwrap();
        Batch { writer: 0, sequence: 1, operations: 1, payload, is_awaited }
    }

    /// A writer on a disk in memory, and the state that it shares.
    fn world(durability: Durability) -> (Arc<Shared>, JournalWriter) {
        let settings = Settings { durability, ..Settings::default() };
        let store = open(Arc::new(SimulatedDisk::new(1)), settings, keep_all()).unwrap().store;
        store.into_parts()
    }

    #[test]
    fn a_batch_that_nothing_waits_for_is_put_off_once() {
        let (shared, mut writer) = world(Durability::Commit);
        let mut wait = Wait::default();
        assert!(!wait.puts_off(&shared, &writer), "the store is idle");
        writer.take(batch(false, 10));
        assert!(wait.puts_off(&shared, &writer));
        assert!(wait.longest(&shared) <= UNAWAITED_WAIT);
        wait.unawaited = Some(Instant::now());
        assert!(!wait.puts_off(&shared, &writer), "its time is over");
    }

    #[test]
    fn a_retry_whose_time_has_come_is_not_put_off() {
        let (shared, mut writer) = world(Durability::Commit);
        writer.take(batch(false, 10));
        let mut wait = Wait { retry: Some(Instant::now()), ..Wait::default() };
        assert!(!wait.pauses());
        assert!(!wait.puts_off(&shared, &writer));
        assert_eq!(wait.unawaited, None);
    }

    #[test]
    fn a_due_checkpoint_does_not_wake_for_batches_put_off() {
        let (shared, mut writer) = world(Durability::Commit);
        let now = Instant::now();
        let later = now + Duration::from_secs(3_600);
        let mut wait = Wait { checkpoint: Some(now), unawaited: Some(later), ..Wait::default() };
        writer.take(batch(false, 10));
        assert!(wait.puts_off(&shared, &writer));
        assert_eq!(wait.longest(&shared), IDLE_PAUSE);
        wait.unawaited = None;
        assert_eq!(wait.longest(&shared), Duration::ZERO);
    }

    #[test]
    fn a_batch_that_something_waits_for_takes_the_others_along() {
        let (shared, mut writer) = world(Durability::Commit);
        let (sender, commits) = channel();
        let mut commits_to = move |writer: u16, sequence: u64| {
            let _ = sender.send((writer, sequence));
        };
        writer.take(batch(false, 10));
        writer.take(Batch { sequence: 2, ..batch(true, 10) });
        assert!(!Wait::default().puts_off(&shared, &writer));
        assert_eq!(writer.step(&mut commits_to), Step::Done);
        assert_eq!((commits.try_recv(), shared.status.batches.load(Relaxed)), (Ok((0, 2)), 2));
        assert!(!writer.has_work());
        writer.take(batch(false, 10));
        assert!(Wait::default().puts_off(&shared, &writer), "the next one waits again");
    }

    #[test]
    fn a_full_group_and_a_relaxed_store_put_nothing_off() {
        let (shared, mut writer) = world(Durability::Commit);
        writer.take(batch(false, 5 * 1024 * 1024));
        assert!(!Wait::default().puts_off(&shared, &writer));
        let (shared, mut writer) = world(Durability::Relaxed { window: UNAWAITED_WAIT });
        writer.take(batch(false, 10));
        assert!(!Wait::default().puts_off(&shared, &writer));
    }
}
