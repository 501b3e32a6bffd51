//! One run: a broker is started within its limits, loaded, sampled, and stopped.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::broker::Broker;
use super::carry::{Carried, Carrier};
use super::limited;
use super::order::Order;
use super::plan::{carrier_of, load_of};
use super::progress::{Report, Said};
use super::task::{ExecuteError, Task, Timeline};
use crate::load::{LoadOutcome, LoadPlan, Progress, Second};
use crate::network::{Link, NetworkError};
use crate::peer::{Peer, PeerError, Ports, Site, without_credentials};
use crate::probe::version_of;
use crate::results::{AppliedNetwork, PeerInfo, Run};
use crate::sample::{Cgroups, Limited, Sampler, Watched};
use crate::scenario::Event;
use crate::stop::Stop;

/// Looks at the processes in a run, at most this far apart.
const LOOK_MOST: Duration = Duration::from_secs(1);
/// And at least this far.
const LOOK_LEAST: Duration = Duration::from_millis(100);
/// Looks in a run of usual length.
const LOOKS: u32 = 300;
/// Maximum number of samples in a run of hours, so that memory does not grow with its length.
const LOOKS_MOST: u32 = 7_200;

/// Makes a run, and describes its broker.
pub(super) fn execute(
    order: &Order,
    task: &Task<'_>,
    cgroups: &Cgroups,
    ports: &mut Ports,
    report: &mut dyn Report,
    stop: &Stop,
) -> Result<(Run, PeerInfo), ExecuteError> {
    let limited = limited::broker(task, cgroups)?;
    let link = link(order, task)?;
    let site = site(order, task, link.as_ref(), limited.as_ref());
    let mut broker = Broker::start(order, task, (&site, cgroups), ports, stop)?;
    let address = broker.address.clone();
    let (plan, mut carrier) = carrier_of(order, task, &address, broker.has_addresses())?;
    let groups = limited::groups(task, &plan, cgroups)?;
    carrier.limit(groups.iter().map(|group| group.cgroup.joins()).collect());
    let (begin, unix_s) = (Instant::now(), unix_now());
    let watched = watched(&broker, link.as_ref());
    let sampler = Sampler::start(watched.clone(), begin, apart(about(order, &plan))).map_err(ExecuteError::Thread)?;
    announce(order, task, &plan, report);
    let mut timeline = Timeline::new(begin);
    let loaded = (!stop.wait(order.scenario.idle_before.times(order.time_scale).0))
        .then(|| load_and_events(order, &carrier, &mut broker, &watched, &mut timeline, report, stop));
    let used_by_parts = broker.parts();
    stop.wait(order.scenario.idle_after.times(order.time_scale).0);
    let ended_early = broker.ended_early();
    let (used, generator) = sampler.finish();
    let ready_after_s = broker.running.as_ref().map(|running| running.ready_after.as_secs_f64());
    let Carried { load: outcome, found } = carried(loaded, &address, ended_early.as_deref(), stop)?;
    let info = broker.info(task.peer, told_version(task.peer, &outcome, &carrier));
    tell(&outcome, &mut timeline, report);
    broker.finish(&mut timeline);
    let is_cut_short = outcome.stopped || stop.is_asked();
    if is_cut_short && !(order.keep_stopped && outcome.measured_to_ns > outcome.measured_from_ns) {
        return Err(ExecuteError::Stopped);
    }
    #[expect(clippy::cast_precision_loss, reason = "microseconds are enough")]
    let load_zero_s = outcome.zero_unix_ns as f64 / 1e9 - unix_s;
    let invalid =
        ended_early.as_ref().map(|how| format!("the broker ended: {how}")).or(outcome.generator.invalid.clone());
    let run = Run {
        id: task.id.clone(),
        case: task.case.name.clone(),
        peer: task.peer.name().to_owned(),
        repetition: task.repetition,
        begun_unix_s: unix_s,
        ready_after_s,
        load_zero_s,
        spoken: carrier.name(),
        plan: plan.without_credentials(),
        load: outcome,
        found,
        broker: used,
        generator,
        events: timeline.happened,
        limits: limited::applied(task.case.limits, limited.as_ref()),
        group_limits: groups.iter().map(limited::applied_to_group).collect(),
        parts: used_by_parts,
        network: link.as_ref().map(|link| network(task, link)),
        invalid,
        broker_ended: ended_early.is_some(),
    };
    Ok((run, info))
}

/// The place of the broker, and its limits.
fn site(order: &Order, task: &Task<'_>, link: Option<&Link>, limited: Option<&Limited>) -> Site {
    Site {
        host: link.map_or_else(|| order.host.clone(), Link::host),
        cgroups: limited.map(Limited::joins).unwrap_or_default(),
        descriptors: task.case.limits.descriptors,
        namespace: link.map(Link::namespace),
    }
}

fn announce(order: &Order, task: &Task<'_>, plan: &LoadPlan, report: &mut dyn Report) {
    let case = format!("{}, {}, {}", task.case.name, task.peer.name(), task.repetition);
    report.say(Said::Run { case, about: about(order, plan) });
}

/// The processes to look at: the broker's, without the process that carries packets.
fn watched(broker: &Broker, link: Option<&Link>) -> Watched {
    let watched = Watched::default();
    watched.set(broker.pids());
    watched.leave_out(link.map(Link::pid));
    watched
}

/// The network that a run had.
fn network(task: &Task<'_>, link: &Link) -> AppliedNetwork {
    AppliedNetwork { wanted: task.case.network.unwrap_or_default(), by: link.by().to_owned() }
}

/// The load of a run. A broker that has ended is the reason for a failed load, unless the user has stopped the run.
fn carried(
    loaded: Option<Result<Carried, ExecuteError>>,
    address: &str,
    ended_early: Option<&str>,
    stop: &Stop,
) -> Result<Carried, ExecuteError> {
    let loaded = loaded.ok_or(ExecuteError::Stopped)?;
    let loaded = loaded.and_then(|carried| expect_connected(&carried.load, address).map(|()| carried));
    match (loaded, ended_early) {
        (Err(error), Some(how)) if !stop.is_asked() && !matches!(error, ExecuteError::Stopped) => {
            Err(ExecuteError::BrokerEnded(format!("{how}; {error}")))
        }
        (loaded, _) => loaded,
    }
}

/// Without any connection, a run says nothing about a broker.
fn expect_connected(outcome: &LoadOutcome, address: &str) -> Result<(), ExecuteError> {
    let connections = &outcome.connections;
    if connections.dialled == 0 || connections.accepted > 0 {
        return Ok(());
    }
    let (dialled, refused, timed_out) = (connections.dialled, connections.refused, connections.timed_out);
    let said = outcome.problems.keys().map(|problem| format!(" {problem}")).collect::<Vec<_>>().join(".");
    let address = without_credentials(address);
    Err(ExecuteError::NotConnected { address, dialled, refused, timed_out, said })
}

/// The own version of a running broker, over the protocol of the load.
fn told_version(peer: &Peer, outcome: &LoadOutcome, carrier: &Carrier) -> Option<String> {
    match (peer, carrier) {
        (Peer::Template { .. }, _) => None,
        (_, Carrier::Exchange(_)) => outcome.product.clone(),
        (_, Carrier::Mqtt(plan, _)) => version_of(&plan.target),
        (_, Carrier::Check(_, asked)) => asked.by_mqtt.then(|| version_of(&asked.target)).flatten(),
    }
}

/// Reports problems of connections and refusals, so that missing messages are explained.
fn tell(outcome: &LoadOutcome, timeline: &mut Timeline, report: &mut dyn Report) {
    for (problem, times) in &outcome.problems {
        let line = format!("{times} times: {problem}");
        timeline.note(line.clone());
        report.say(Said::Note(line));
    }
}

/// The network between the broker and the load, where the case asks for one.
fn link(order: &Order, task: &Task<'_>) -> Result<Option<Link>, ExecuteError> {
    let Some(network) = &task.case.network else { return Ok(None) };
    if matches!(task.peer, Peer::Address { .. }) {
        return Err(NetworkError::Together(
            "the broker is an address; a network is made for brokers that the lab starts",
        )
        .into());
    }
    if !order.sources.is_empty() {
        return Err(NetworkError::Together(
            "clients cannot choose an address (--source) where the broker has a network of its own",
        )
        .into());
    }
    Ok(Some(Link::make(network, &order.place.executable, task.seed)?))
}

/// How far apart processes are looked at in a run that takes so long.
fn apart(about: Duration) -> Duration {
    (about / LOOKS).clamp(LOOK_LEAST, LOOK_MOST).max(about / LOOKS_MOST)
}

/// How long a task takes by its plan, without the start and the end of its broker; nothing for a test whose time is not
/// planned.
pub(super) fn planned(order: &Order, task: &Task<'_>) -> Duration {
    let plan = order.scenario.check.is_none().then(|| load_of(order, task, "mqtt://localhost").ok()).flatten();
    plan.map_or(Duration::ZERO, |plan| about(order, &plan))
}

/// How long a run takes by its plan; how long clients need to connect is not known before, but by a ladder.
fn about(order: &Order, plan: &LoadPlan) -> Duration {
    let idle =
        order.scenario.idle_before.times(order.time_scale).0 + order.scenario.idle_after.times(order.time_scale).0;
    let last = plan.ramp.dials_at(plan.clients().saturating_sub(1));
    idle + Duration::from_nanos(last) + Duration::from_millis(plan.warm_up_ms + plan.duration_ms)
}

fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A message of the load to the thread that watches the broker.
enum Word {
    Second(Second),
    Began,
    Draining,
    Done,
}

struct Teller(Sender<Word>);

impl Progress for Teller {
    fn second(&mut self, second: &Second) {
        // The receiver ends only with the run.
        let _ = self.0.send(Word::Second(*second));
    }

    fn began(&mut self, _: u64) {
        let _ = self.0.send(Word::Began);
    }

    fn draining(&mut self) {
        let _ = self.0.send(Word::Draining);
    }
}

fn load_and_events(
    order: &Order,
    carrier: &Carrier,
    broker: &mut Broker,
    watched: &Watched,
    timeline: &mut Timeline,
    report: &mut dyn Report,
    stop: &Stop,
) -> Result<Carried, ExecuteError> {
    broker.begin_counting();
    timeline.note("clients begin to connect");
    let (sender, words) = channel();
    thread::scope(|scope| {
        let done = sender.clone();
        let load = scope.spawn(move || {
            let outcome = carrier.run(&order.place.executable, &mut Teller(sender), stop);
            let _ = done.send(Word::Done);
            outcome
        });
        let events = order.scenario.events.iter().map(|event| Event { at: event.at.times(order.time_scale), ..*event });
        let watched = attend(&words, events.collect(), broker, watched, timeline, report, stop);
        let outcome = load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        watched?;
        timeline.note("clients are gone");
        Ok(outcome?)
    })
}

/// Processes the events of the load, and acts on the broker when it is due, until the load is over.
fn attend(
    words: &Receiver<Word>,
    mut events: Vec<Event>,
    broker: &mut Broker,
    watched: &Watched,
    timeline: &mut Timeline,
    report: &mut dyn Report,
    stop: &Stop,
) -> Result<(), PeerError> {
    events.sort_by_key(|event| event.at);
    let mut began: Option<Instant> = None;
    let mut is_reported = false;
    loop {
        if stop.is_asked() && !std::mem::replace(&mut is_reported, true) {
            report.say(Said::Event("stopping".to_owned()));
        }
        let next = began.zip(events.first()).map(|(began, event)| began + event.at.0);
        let wait = next.map_or(LOOK_MOST, |at| at.saturating_duration_since(Instant::now()).min(LOOK_MOST));
        match words.recv_timeout(wait) {
            Ok(Word::Second(second)) => report.say(Said::Second(second)),
            Ok(Word::Began) => {
                began = Some(Instant::now());
                timeline.note("publishing begins");
                report.say(Said::Event("publishing".to_owned()));
            }
            Ok(Word::Draining) => {
                timeline.note("publishing is over");
                report.say(Said::Event("waiting for missing messages".to_owned()));
            }
            Ok(Word::Done) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if next.is_some_and(|at| at <= Instant::now()) {
            let event = events.remove(0);
            let effect = broker.act(event.action, watched, stop)?;
            timeline.note(effect);
            report.say(Said::Event(effect.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_are_looked_at_often_and_long_ones_not_without_end() {
        let apart = |seconds| apart(Duration::from_secs(seconds));
        assert_eq!((apart(3), apart(60)), (LOOK_LEAST, Duration::from_millis(200)));
        assert_eq!((apart(300), apart(7_200)), (LOOK_MOST, LOOK_MOST));
        assert_eq!(apart(71 * 3600), Duration::from_millis(35_500));
    }
}
