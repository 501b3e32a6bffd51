//! Pipelines on their threads: one for the session at the broker and the core, and one for each lane of each sink.

mod lane;
mod status;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_client::TopicFilterBuf;

use self::lane::LaneThread;
use self::status::Snapshot;
pub use self::status::{LastFailure, PipelineState, PipelineStatus, SinkStatus};
use self::worker::{Course, Orders, Worker};
use crate::archive::ArchiveSettings;
use crate::core::{Batching, Core, CoreSettings, SinkPlan};
use crate::open_error::OpenError;
use crate::sinks::{FileSinks, Sink, SinkKind, SinkLane, SinkSettings};
use crate::sources::{Http, Kafka, LogSource, Nats, ReplayError, Replayed, Source, SourceSettings, Topics, Wake};
use crate::steps::{StepSettings, Steps};
use crate::time::wall_clock;

/// Messages that a pipeline holds at most. Beyond it, only messages of QoS 0 are dropped.
const MAX_HELD: usize = 20_000;
/// The same in bytes, with their records. Beyond it, records of messages above QoS 0 are made later.
const MAX_HELD_BYTES: usize = 64 << 20;
/// How far the clock of an operator may be ahead, milliseconds: a replay from a later time is refused.
const MAX_CLOCK_DIFFERENCE: u64 = 60_000;
/// Time for an order of an operator.
const ORDER_WITHIN: Duration = Duration::from_secs(3);

/// A pipeline of the configuration.
#[derive(Clone, Debug)]
pub struct PipelineSettings {
    /// Its name.
    pub name: String,
    /// Topic filters; without any, the SELECT has them.
    pub from: Vec<TopicFilterBuf>,
    /// Where messages come from.
    pub source: SourceSettings,
    /// The steps that make records of messages.
    pub steps: StepSettings,
    /// Where records go.
    pub to: Vec<SinkSettings>,
    /// Keeps the messages as they came, for a replay; only for topics of the broker.
    pub archive: Option<ArchiveSettings>,
    /// Where messages go that are not delivered.
    pub dead_letter: Option<SinkSettings>,
    /// Age at which a message fails that no sink has; zero for none.
    pub max_age: Duration,
}

/// The name of the archive among the sinks of a pipeline. No sink of a configuration has it.
const ARCHIVE: &str = "@archive";

impl PipelineSettings {
    /// All sinks: the sinks of `to`, then the archive, then the sink of dead letters.
    fn sinks(&self) -> impl Iterator<Item = SinkSettings> {
        let archive = self.archive.iter().map(|archive| SinkSettings {
            name: ARCHIVE.to_owned(),
            kind: SinkKind::Archive(archive.clone()),
            batching: Batching::default(),
            parallel: 1,
        });
        self.to.iter().cloned().chain(archive).chain(self.dead_letter.clone())
    }

    /// The sinks that each message has to reach: all but that of dead letters.
    fn targets(&self) -> usize {
        self.to.len() + usize::from(self.archive.is_some())
    }
}

/// Why a pipeline does not start.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A step cannot be read.
    #[error("pipeline `{pipeline}`: {why}")]
    Steps {
        /// The pipeline.
        pipeline: String,
        /// Why.
        why: String,
    },
    /// A sink cannot be used.
    #[error("sink `{sink}`: {why}")]
    Sink {
        /// The sink.
        sink: String,
        /// Why.
        why: OpenError,
    },
    /// The source cannot be used.
    #[error("pipeline `{pipeline}`: {why}")]
    Source {
        /// The pipeline.
        pipeline: String,
        /// Why.
        why: OpenError,
    },
    /// The system has no threads or sockets left.
    #[error("pipeline `{pipeline}` cannot be started: {source}")]
    System {
        /// The pipeline.
        pipeline: String,
        /// Why.
        source: io::Error,
    },
}

/// A running pipeline. Dropped, it ends.
struct Pipeline {
    name: String,
    snapshot: Arc<Mutex<Snapshot>>,
    orders: Arc<Orders>,
    wake: Wake,
    /// It gets one notification, when the session at the broker has its subscriptions. Other sources have none.
    subscribed: Option<Receiver<()>>,
    /// Nothing ever comes; it ends when all threads of the pipeline have ended.
    ended: Receiver<Infallible>,
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Has it end its batches and disconnect. The broker keeps the session.
    fn ask_to_stop(&self) {
        self.orders.stop.store(true, Ordering::Release);
        (self.wake)();
    }

    fn pause(&self, paused: bool) {
        self.orders.paused.store(paused, Ordering::Release);
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).paused = paused;
        (self.wake)();
    }

    fn replay(&self, from: u64) -> Receiver<Result<(), ReplayError>> {
        let (tell, answer) = mpsc::channel();
        self.orders.replays.lock().unwrap_or_else(PoisonError::into_inner).push((from, tell));
        (self.wake)();
        answer
    }

    /// Messages that sinks have confirmed, each counted for each sink.
    fn sink_deliveries(&self) -> u64 {
        let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        snapshot.status(&self.name, wall_clock()).numbers.sink_deliveries
    }

    fn has_ended(&self) -> bool {
        self.ended.try_recv() == Err(TryRecvError::Disconnected)
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.ask_to_stop();
    }
}

/// The pipelines of a process. Dropped, it ends all that run.
#[derive(Debug)]
pub struct Hub {
    settings: Vec<PipelineSettings>,
    files: FileSinks,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: Vec<Pipeline>,
    /// Pipelines that were asked to stop. Each keeps its session until its threads have ended.
    ending: Vec<Pipeline>,
    /// Names of the paused pipelines.
    paused: BTreeSet<String>,
    /// Deliveries of runs that have ended.
    ended_deliveries: BTreeMap<String, u64>,
}

impl State {
    /// Drops the runs that have ended, and keeps their deliveries.
    fn forget_ended(&mut self) {
        let (ended, ending) = std::mem::take(&mut self.ending).into_iter().partition(Pipeline::has_ended);
        self.ending = ending;
        let ended: Vec<Pipeline> = ended;
        self.keep_deliveries(&ended);
    }

    /// Keeps the deliveries of runs that have ended, by the name of their pipeline.
    fn keep_deliveries(&mut self, ended: &[Pipeline]) {
        for pipeline in ended {
            *self.ended_deliveries.entry(pipeline.name.clone()).or_default() += pipeline.sink_deliveries();
        }
    }
}

impl Hub {
    /// Makes a hub without a running pipeline. Reads the steps of each and opens each sink once.
    ///
    /// # Errors
    /// When a step cannot be read, or a sink cannot be used.
    pub fn new(settings: Vec<PipelineSettings>) -> Result<Self, HubError> {
        let files = FileSinks::default();
        for one in &settings {
            let (_, core) = core_of::<()>(one)?;
            open_sinks(one, &core, &files)?;
        }
        Ok(Self { settings, files, state: Mutex::default() })
    }

    /// Starts all of these pipelines. They connect by themselves, and again whenever they have to.
    ///
    /// # Errors
    /// When a sink cannot be used, or the system has no threads or sockets left. Pipelines that have started end then.
    pub fn start(settings: Vec<PipelineSettings>) -> Result<Self, HubError> {
        let hub = Self::new(settings)?;
        for one in &hub.settings {
            hub.begin(&one.name)?;
        }
        Ok(hub)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of all pipelines.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.settings.iter().map(|one| one.name.as_str())
    }

    /// Whether a pipeline runs here.
    pub fn runs(&self, name: &str) -> bool {
        self.state().running.iter().any(|pipeline| pipeline.name == name)
    }

    /// Starts one pipeline, paused if it was paused before, and does not wait for its connection. Returns false if
    /// no pipeline has this name, or the threads of its last run have not ended: they may still use its session.
    ///
    /// # Errors
    /// When a sink cannot be used, or the system has no threads or sockets left.
    pub fn begin(&self, name: &str) -> Result<bool, HubError> {
        let Some(settings) = self.settings.iter().find(|one| one.name == name) else { return Ok(false) };
        let mut state = self.state();
        state.forget_ended();
        if state.ending.iter().any(|pipeline| pipeline.name == name) {
            return Ok(false);
        }
        if !state.running.iter().any(|pipeline| pipeline.name == name) {
            let pipeline = start(settings, &self.files, state.paused.contains(name))?;
            state.running.push(pipeline);
        }
        Ok(true)
    }

    /// Has one pipeline end its batches and disconnect, and does not wait for that. The broker keeps the session.
    pub fn end(&self, name: &str) {
        let mut state = self.state();
        if let Some(at) = state.running.iter().position(|pipeline| pipeline.name == name) {
            let pipeline = state.running.remove(at);
            pipeline.ask_to_stop();
            state.ending.push(pipeline);
        }
    }

    /// Waits until each running pipeline has its subscriptions, so that from now on no message passes it by; false when
    /// that has not come by `deadline`. A pipeline is waited for once.
    pub fn wait_until_subscribed(&self, deadline: Instant) -> bool {
        let waiting: Vec<_> =
            self.state().running.iter_mut().filter_map(|pipeline| pipeline.subscribed.take()).collect();
        let left = || deadline.saturating_duration_since(Instant::now());
        waiting.iter().all(|subscribed| subscribed.recv_timeout(left()).is_ok())
    }

    /// The status of each running pipeline.
    pub fn status(&self) -> Vec<PipelineStatus> {
        let of = |pipeline: &Pipeline| {
            let snapshot = pipeline.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
            snapshot.status(&pipeline.name, wall_clock())
        };
        self.state().running.iter().map(of).collect()
    }

    /// Messages that sinks have confirmed since the start of the process, each counted for each sink, by the name of the
    /// pipeline.
    pub fn sink_deliveries(&self) -> BTreeMap<String, u64> {
        let state = self.state();
        let mut sums = state.ended_deliveries.clone();
        for pipeline in state.running.iter().chain(&state.ending) {
            *sums.entry(pipeline.name.clone()).or_default() += pipeline.sink_deliveries();
        }
        sums
    }

    /// Pauses or resumes a pipeline: messages wait at the broker meanwhile. A pipeline that starts here later, too, is
    /// paused. False when no pipeline has the name.
    pub fn pause(&self, name: &str, paused: bool) -> bool {
        if self.names().all(|known| known != name) {
            return false;
        }
        let mut state = self.state();
        if let Some(pipeline) = state.running.iter().find(|pipeline| pipeline.name == name) {
            pipeline.pause(paused);
        }
        if paused {
            state.paused.insert(name.to_owned());
        } else {
            state.paused.remove(name);
        }
        true
    }

    /// Has messages of a pipeline come again that the broker took at `from` (Unix milliseconds) or later. False when the
    /// pipeline does not run here.
    ///
    /// # Errors
    /// When the time lies in the future, or its source keeps no messages or does not answer.
    pub fn replay(&self, name: &str, from: u64) -> Result<bool, ReplayError> {
        if from > wall_clock().saturating_add(MAX_CLOCK_DIFFERENCE) {
            return Err(ReplayError::Future);
        }
        let answer = {
            let state = self.state();
            let Some(pipeline) = state.running.iter().find(|pipeline| pipeline.name == name) else { return Ok(false) };
            pipeline.replay(from)
        };
        answer.recv_timeout(ORDER_WITHIN).unwrap_or(Err(ReplayError::Late))?;
        Ok(true)
    }

    /// Has all pipelines end their batches and disconnect, within `grace`. Brokers keep the sessions.
    pub fn stop(&self, grace: Duration) {
        let deadline = Instant::now() + grace;
        let mut state = self.state();
        let mut ending = std::mem::take(&mut state.running);
        ending.append(&mut state.ending);
        drop(state);
        ending.iter().for_each(Pipeline::ask_to_stop);
        let left = || deadline.saturating_duration_since(Instant::now());
        let is_late = |pipeline: &Pipeline| pipeline.ended.recv_timeout(left()) == Err(RecvTimeoutError::Timeout);
        if ending.iter().any(is_late) {
            tracing::warn!("not all pipelines ended within the stop timeout; unacknowledged messages come again");
        }
        self.state().keep_deliveries(&ending);
    }
}

fn core_settings(settings: &PipelineSettings) -> CoreSettings {
    let plan = |sink: SinkSettings| SinkPlan {
        lanes: if sink.kind.has_lanes() { sink.parallel } else { 1 },
        batching: sink.batching,
    };
    CoreSettings {
        sinks: settings.sinks().take(settings.targets()).map(plan).collect(),
        archives: settings.archive.is_some(),
        dead_letter: settings.dead_letter.as_ref().map(|sink| sink.batching),
        max_held: MAX_HELD,
        max_unacknowledged: settings.source.window(),
        in_order: settings.archive.is_some()
            || matches!(settings.source, SourceSettings::Log(_) | SourceSettings::Kafka(_)),
        max_held_bytes: MAX_HELD_BYTES,
        max_age: u64::try_from(settings.max_age.as_millis()).unwrap_or(u64::MAX),
        seed: wall_clock(),
    }
}

/// The topic filters of a pipeline, and its core.
fn core_of<D>(settings: &PipelineSettings) -> Result<(Vec<TopicFilterBuf>, Core<D>), HubError> {
    let wrong = |why: String| HubError::Steps { pipeline: settings.name.clone(), why };
    let steps = Steps::new(&settings.steps).map_err(|(_, error)| wrong(error.message))?;
    let from = if settings.from.is_empty() { steps.from().to_vec() } else { settings.from.clone() };
    if from.is_empty() && matches!(settings.source, SourceSettings::Topics(_)) {
        return Err(wrong("it has no topics: set `from`".to_owned()));
    }
    Ok((from, Core::new(steps, core_settings(settings))))
}

/// Opens the sink of each lane, in the order of the lanes.
fn open_sinks<D>(
    settings: &PipelineSettings,
    core: &Core<D>,
    files: &FileSinks,
) -> Result<Vec<Box<dyn Sink>>, HubError> {
    let places: Vec<usize> = core.lanes().collect();
    let mut opened = Vec::new();
    for (number, place) in places.iter().enumerate() {
        let Some(sink) = settings.sinks().nth(*place) else { continue };
        let lane = places.iter().take(number).filter(|other| *other == place).count();
        let dead_letters = *place == settings.targets();
        let at = SinkLane { pipeline: &settings.name, lane, dead_letters };
        opened.push(sink.open(files, &at).map_err(|why| HubError::Sink { sink: sink.name.clone(), why })?);
    }
    Ok(opened)
}

/// Starts a pipeline with its source.
fn start(settings: &PipelineSettings, files: &FileSinks, paused: bool) -> Result<Pipeline, HubError> {
    let unusable = |why| HubError::Source { pipeline: settings.name.clone(), why };
    match &settings.source {
        SourceSettings::Topics(topics) => {
            let (from, core) = core_of(settings)?;
            let source = Topics::new(topics, from);
            let source = source.map_err(|source| HubError::System { pipeline: settings.name.clone(), source })?;
            let Some(archive) = &settings.archive else {
                return start_with(settings, files, paused, (source, Vec::new(), core));
            };
            let source = Replayed::new(source, &archive.folder, topics.window).map_err(unusable)?;
            let (_, core) = core_of(settings)?;
            start_with(settings, files, paused, (source, Vec::new(), core))
        }
        SourceSettings::Log(log) => {
            let (_, core) = core_of(settings)?;
            start_with(settings, files, paused, (LogSource::new(log).map_err(unusable)?, Vec::new(), core))
        }
        SourceSettings::Nats(nats) => {
            let (from, core) = core_of(settings)?;
            start_with(settings, files, paused, (Nats::new(nats).map_err(unusable)?, from, core))
        }
        SourceSettings::Kafka(kafka) => {
            let (from, core) = core_of(settings)?;
            start_with(settings, files, paused, (Kafka::new(kafka).map_err(unusable)?, from, core))
        }
        SourceSettings::Http(http) => {
            let (from, core) = core_of(settings)?;
            start_with(settings, files, paused, (Http::new(http).map_err(unusable)?, from, core))
        }
    }
}

/// Starts the threads of a pipeline. The threads of a pipeline that cannot be started end with the sender of their
/// batches.
fn start_with<S: Source + 'static>(
    settings: &PipelineSettings,
    files: &FileSinks,
    paused: bool,
    (source, from, core): (S, Vec<TopicFilterBuf>, Core<S::Token>),
) -> Result<Pipeline, HubError> {
    let failed = |source| HubError::System { pipeline: settings.name.clone(), source };
    let sinks = open_sinks(settings, &core, files)?;
    let wake = source.wake();
    let (tell, outcomes) = mpsc::channel();
    let (running, ended) = mpsc::channel();
    let mut lanes = Vec::new();
    for (number, sink) in sinks.into_iter().enumerate() {
        let (to_lane, batches) = mpsc::channel();
        let lane = LaneThread { number, sink, batches, outcomes: tell.clone(), wake: Arc::clone(&wake) };
        let running = running.clone();
        let work = move || {
            lane.run();
            drop(running);
        };
        thread::Builder::new().name("hub-sink".to_owned()).spawn(work).map_err(failed)?;
        lanes.push(to_lane);
    }
    let (tell_subscribed, subscribed) = mpsc::channel();
    let named = |sink: SinkSettings| SinkStatus { name: sink.name, ..SinkStatus::default() };
    let all = settings.sinks().map(named).collect();
    let snapshot = Arc::new(Mutex::new(Snapshot { paused, since: wall_clock(), sinks: all, ..Snapshot::default() }));
    let orders = Arc::new(Orders { paused: paused.into(), ..Orders::default() });
    let worker = Worker {
        name: settings.name.clone(),
        source,
        from,
        sinks: settings.sinks().map(|sink| sink.name).collect(),
        core,
        lanes,
        outcomes,
        snapshot: Arc::clone(&snapshot),
        orders: Arc::clone(&orders),
        subscribed: Some(tell_subscribed),
        course: Course::new(paused),
    };
    let work = move || {
        worker.run();
        drop(running);
    };
    thread::Builder::new().name("hub-pipeline".to_owned()).spawn(work).map_err(failed)?;
    // Other systems may be away: no publisher of this broker relies on them.
    let subscribed = matches!(settings.source, SourceSettings::Topics(_)).then_some(subscribed);
    Ok(Pipeline { name: settings.name.clone(), snapshot, orders, wake, subscribed, ended })
}
