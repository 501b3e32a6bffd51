//! Pipelines on their threads: one for the session at the broker and the core, and one for each lane of each sink.

mod lane;
mod source;
mod status;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_client::TopicFilterBuf;
use tidegate_client::net::{Address, Driver, SocketOptions, Waker};

use self::lane::LaneThread;
use self::source::{Orders, Source};
use self::status::Snapshot;
pub use self::status::{PipelineState, PipelineStatus};
use crate::core::{Core, CoreSettings, SinkPlan};
use crate::sinks::{FileSinks, Place, SinkSettings};
use crate::steps::{StepSettings, Steps};
use crate::time::wall_clock;

/// Messages that a pipeline holds at most. Beyond it, only messages of QoS 0 are dropped.
const MAX_HELD: usize = 20_000;
/// The same in bytes.
const MAX_HELD_BYTES: usize = 64 << 20;

/// Where a pipeline's messages come from.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// The broker.
    pub address: Address,
    /// How sockets are made.
    pub socket: SocketOptions,
    /// The client id of its session.
    pub client_id: String,
    /// The user name.
    pub user_name: Option<String>,
    /// The password.
    pub password: Option<Vec<u8>>,
    /// The share name, where several processes share the work.
    pub share: Option<String>,
    /// Whether retained messages are taken when the session begins.
    pub retained: bool,
    /// Whether the broker says who published a message. Elsewhere a publisher can say anything in
    /// [`ORIGIN_PROPERTY`](crate::ORIGIN_PROPERTY), so it is dropped there.
    pub origins: bool,
    /// Messages that the broker sends without an acknowledgement.
    pub window: u16,
    /// Seconds that the broker keeps the session while the hub is away.
    pub session_expiry: u32,
}

/// A pipeline of the configuration.
#[derive(Clone, Debug)]
pub struct PipelineSettings {
    /// Its name.
    pub name: String,
    /// Topic filters; without any, the SELECT has them.
    pub from: Vec<TopicFilterBuf>,
    /// The session.
    pub source: SourceSettings,
    /// The steps that make records of messages.
    pub steps: StepSettings,
    /// Where records go.
    pub to: Vec<SinkSettings>,
    /// Where messages go that are not delivered.
    pub dead_letter: Option<SinkSettings>,
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
        why: String,
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

/// A running pipeline.
#[derive(Debug)]
struct Pipeline {
    name: String,
    snapshot: Arc<Mutex<Snapshot>>,
    orders: Arc<Orders>,
    waker: Waker,
}

/// All pipelines of a process.
#[derive(Debug)]
pub struct Hub {
    pipelines: Vec<Pipeline>,
    stop: Arc<AtomicBool>,
    /// A pipeline has subscribed for the first time.
    subscribed: Mutex<Receiver<()>>,
    /// Nothing ever comes; it ends when all threads have ended.
    ended: Mutex<Receiver<Infallible>>,
}

impl Hub {
    /// Starts pipelines. They connect by themselves, and again whenever they have to.
    ///
    /// # Errors
    /// When a sink cannot be used, or the system has no threads or sockets left.
    pub fn start(settings: &[PipelineSettings]) -> Result<Self, HubError> {
        let (tell_subscribed, subscribed) = mpsc::channel();
        let (running, ended) = mpsc::channel();
        let mut hub = Self {
            pipelines: Vec::new(),
            stop: Arc::default(),
            subscribed: Mutex::new(subscribed),
            ended: Mutex::new(ended),
        };
        let files = FileSinks::default();
        for one in settings {
            let shared =
                Shared { stop: Arc::clone(&hub.stop), subscribed: tell_subscribed.clone(), running: running.clone() };
            hub.pipelines.push(start(one, &files, shared)?);
        }
        Ok(hub)
    }

    /// Waits until each pipeline has its subscriptions, so that from now on nothing passes it by; false when that has
    /// not come by `deadline`.
    pub fn wait_until_subscribed(&self, deadline: Instant) -> bool {
        let subscribed = self.subscribed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let left = || deadline.saturating_duration_since(Instant::now());
        (0..self.pipelines.len()).all(|_| subscribed.recv_timeout(left()).is_ok())
    }

    /// How each pipeline does.
    pub fn status(&self) -> Vec<PipelineStatus> {
        let of = |pipeline: &Pipeline| {
            let snapshot = pipeline.snapshot.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            snapshot.status(&pipeline.name, wall_clock())
        };
        self.pipelines.iter().map(of).collect()
    }

    /// Pauses or resumes a pipeline: messages wait at the broker meanwhile. False when no pipeline has the name.
    pub fn pause(&self, name: &str, paused: bool) -> bool {
        let Some(pipeline) = self.pipelines.iter().find(|pipeline| pipeline.name == name) else { return false };
        pipeline.orders.paused.store(paused, Ordering::Release);
        let mut snapshot = pipeline.snapshot.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        snapshot.paused = paused;
        drop(snapshot);
        // A pipeline that cannot be woken sees it with its next message.
        let _ = pipeline.waker.wake();
        true
    }

    /// Has all pipelines end their batches and disconnect, within `grace`. Brokers keep the sessions.
    pub fn stop(&self, grace: Duration) {
        self.stop.store(true, Ordering::Release);
        for pipeline in &self.pipelines {
            let _ = pipeline.waker.wake();
        }
        let ended = self.ended.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if ended.recv_timeout(grace) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(
                "not all pipelines have ended within the time for stopping; unacknowledged messages come again"
            );
        }
    }
}

/// State that a pipeline shares with the others.
struct Shared {
    stop: Arc<AtomicBool>,
    subscribed: mpsc::Sender<()>,
    running: mpsc::Sender<Infallible>,
}

fn core_settings(settings: &PipelineSettings) -> CoreSettings {
    let plan = |sink: &SinkSettings| SinkPlan {
        lanes: if sink.kind.has_lanes() { sink.parallel } else { 1 },
        batching: sink.batching,
    };
    CoreSettings {
        sinks: settings.to.iter().map(plan).collect(),
        dead_letter: settings.dead_letter.as_ref().map(|sink| sink.batching),
        max_held: MAX_HELD,
        max_held_bytes: MAX_HELD_BYTES,
        seed: wall_clock(),
    }
}

fn start(settings: &PipelineSettings, files: &FileSinks, shared: Shared) -> Result<Pipeline, HubError> {
    let pipeline = || settings.name.clone();
    let failed = |source| HubError::System { pipeline: pipeline(), source };
    let wrong = |why: String| HubError::Steps { pipeline: pipeline(), why };
    let steps = Steps::new(&settings.steps).map_err(|(_, error)| wrong(error.message))?;
    let from = if settings.from.is_empty() { steps.from().to_vec() } else { settings.from.clone() };
    if from.is_empty() {
        return Err(wrong("it has no topics: set `from`".to_owned()));
    }
    let core = Core::new(steps, core_settings(settings));
    let driver = Driver::new(source::options(&settings.source), settings.source.address.clone(), {
        settings.source.socket.clone()
    });
    let driver = driver.map_err(failed)?;
    let waker = driver.waker();
    let (tell, outcomes) = mpsc::channel();
    let sinks: Vec<&SinkSettings> = settings.to.iter().chain(&settings.dead_letter).collect();
    let mut lanes = Vec::new();
    let places: Vec<usize> = core.lanes().collect();
    for (number, place) in places.iter().enumerate() {
        let sink = sinks[*place];
        let before = places[..number].iter().filter(|other| *other == place).count();
        let dead_letters = *place == settings.to.len();
        let at = Place { pipeline: &settings.name, lane: before, dead_letters };
        let opened = sink.open(files, &at).map_err(|why| HubError::Sink { sink: sink.name.clone(), why })?;
        let (to_lane, batches) = mpsc::channel();
        let lane = LaneThread { number, sink: opened, batches, outcomes: tell.clone(), waker: waker.clone() };
        let running = shared.running.clone();
        let work = move || {
            lane.run();
            drop(running);
        };
        thread::Builder::new().name("hub-sink".to_owned()).spawn(work).map_err(failed)?;
        lanes.push(to_lane);
    }
    let snapshot: Arc<Mutex<Snapshot>> = Arc::default();
    let orders: Arc<Orders> = Arc::default();
    let source = Source::new(source::Parts {
        name: settings.name.clone(),
        settings: settings.source.clone(),
        from,
        sinks: sinks.iter().map(|sink| sink.name.clone()).collect(),
        core,
        driver,
        lanes,
        outcomes,
        snapshot: Arc::clone(&snapshot),
        orders: Arc::clone(&orders),
        stop: shared.stop,
        subscribed: Some(shared.subscribed),
    });
    let running = shared.running;
    let work = move || {
        source.run();
        drop(running);
    };
    thread::Builder::new().name("hub-pipeline".to_owned()).spawn(work).map_err(failed)?;
    Ok(Pipeline { name: settings.name.clone(), snapshot, orders, waker })
}
