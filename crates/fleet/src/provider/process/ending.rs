//! The end of processes: for a pause, for good, or for good with their stored state kept for a person.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::proc_files::{self, Identity};
use super::template::StopSignal;
use super::{LOG, Processes, cgroup, io, mark};
use crate::provider::{ProviderError, Release, ResourceName};

/// The logs of removed processes.
const ENDED: &str = "ended";
/// How many of them are kept.
const MAX_ENDED: usize = 8;
/// The folder for directories of processes that were given up.
const SET_ASIDE: &str = "set-aside";
/// The most such directories: they contain messages of clients, so only a person may remove them.
const MAX_SET_ASIDE: usize = 8;

impl Processes {
    /// Ends everything of a resource that runs.
    pub(super) fn end(&mut self, name: &ResourceName) -> Result<Release, ProviderError> {
        self.end_within(name, None)
    }

    /// The same with another limit than the template's until it is killed.
    pub(super) fn end_within(
        &mut self,
        name: &ResourceName,
        limit: Option<Duration>,
    ) -> Result<Release, ProviderError> {
        self.reap();
        let directory = self.directory(name);
        let Some(record) = self.records.get_mut(name) else { return Ok(Release::Gone) };
        let template = self.settings.templates.get(&record.wanted.template);
        let now = unix_ms();
        let (signal, of_template) =
            template.map_or((StopSignal::Term, Duration::ZERO), |template| (template.stop_signal, template.stop_limit));
        let limit = limit.unwrap_or(of_template);
        let lives = record.process.as_ref().is_some_and(Identity::lives);
        // By the monotonic clock: a manager that continues a stop gives the whole limit again.
        let since = *self.stopping.entry(name.clone()).or_insert_with(Instant::now);
        if record.stopping_since_ms.is_none() {
            record.stopping_since_ms = Some(now);
            record.write(&directory)?;
            if let Some(process) = &record.process {
                process.signal(signal.into());
            }
        }
        if lives && since.elapsed() < limit {
            return Ok(Release::Stopping);
        }
        let cgroup = record.cgroup.clone();
        // Kills its child processes, and the process itself when its time is over.
        if !proc_files::kill_marked(&mark(&self.settings, name)) || !cgroup::remove(&cgroup) {
            self.reap();
            return Ok(Release::Stopping);
        }
        Ok(Release::Gone)
    }

    /// Keeps the logs of the last removed processes, which may show the cause of the end.
    fn keep_log(&self, name: &ResourceName) {
        let ended = self.settings.directory.join(ENDED);
        let kept = fs::create_dir_all(&ended)
            .and_then(|()| fs::rename(self.directory(name).join(LOG), ended.join(format!("{name}.log"))))
            .and_then(|()| drop_oldest(&ended));
        if let Err(error) = kept {
            tracing::debug!(%name, %error, "the log of a released process is not kept");
        }
    }

    /// All its processes have ended: removes its directory, its record last.
    pub(super) fn forget(&mut self, name: &ResourceName) -> Result<(), ProviderError> {
        let directory = self.directory(name);
        self.keep_log(name);
        fs::remove_dir_all(&directory).map_err(|source| io("remove", &directory, source))?;
        self.give_ports_back(name);
        self.know_no_more(name);
        Ok(())
    }

    /// All its processes have ended: moves its stored state out of the manager's reach. Only a person removes it.
    pub(super) fn keep_aside(&mut self, name: &ResourceName) -> Result<(), ProviderError> {
        let aside = self.settings.directory.join(SET_ASIDE);
        fs::create_dir_all(&aside).map_err(|source| io("make", &aside, source))?;
        let there = fs::read_dir(&aside).map_err(|source| io("read", &aside, source))?.count();
        if there >= MAX_SET_ASIDE {
            return Err(ProviderError::TooManySetAside { path: aside, most: MAX_SET_ASIDE });
        }
        let (from, to) = (self.directory(name), aside.join(name.as_str()));
        fs::rename(&from, &to).map_err(|source| io("move", &from, source))?;
        self.give_ports_back(name);
        tracing::warn!(%name, kept = %to.display(), "an orchestrator was removed; its stored state remains there until you delete it");
        self.know_no_more(name);
        Ok(())
    }

    fn know_no_more(&mut self, name: &ResourceName) {
        self.records.remove(name);
        self.stopping.remove(name);
        self.children.remove(name);
        self.samples.remove(name);
        self.answered.remove(name);
        self.hanging.remove(name);
        self.living.remove(name);
    }
}

/// Most bytes at the end of an output that are looked at for its last line.
const END_OF_OUTPUT: u64 = 4096;
/// Longest line of an output that is reported, characters.
const MAX_LINE: usize = 200;

/// The report about a process that has ended: its exit, and the last line of its output, which often has the reason.
pub(super) fn exit_report(directory: &Path) -> String {
    let ended = "its process has ended";
    match last_line(&directory.join(LOG)) {
        Ok(Some(line)) => format!("{ended}; the last line of its output: {line}"),
        Ok(None) => format!("{ended} and has written nothing"),
        Err(_) => ended.to_owned(),
    }
}

fn last_line(log: &Path) -> std::io::Result<Option<String>> {
    let mut file = fs::File::open(log)?;
    let from = file.metadata()?.len().saturating_sub(END_OF_OUTPUT);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.take(END_OF_OUTPUT).read_to_end(&mut end)?;
    let text = String::from_utf8_lossy(&end);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    Ok(line.map(|line| {
        line.chars().filter(|letter| !tidegate_units::visible::is_hidden(*letter)).take(MAX_LINE).collect()
    }))
}

/// Keeps as many logs as are kept, the newest.
fn drop_oldest(ended: &Path) -> std::io::Result<()> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(ended)? {
        let entry = entry?;
        logs.push((entry.metadata()?.modified()?, entry.path()));
    }
    logs.sort();
    let surplus = logs.len().saturating_sub(MAX_ENDED);
    logs.iter().take(surplus).try_for_each(|(_, path)| fs::remove_file(path))
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
