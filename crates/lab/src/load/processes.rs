//! A plan is carried out by several processes together.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::core::Totals;
use super::error::LoadError;
use super::outcome::{LoadOutcome, Second};
use super::plan::LoadPlan;
use super::progress::Progress;
use super::shell::Clock;
use super::worker::{Job, Said, Told};

/// How long after all are ready publishing begins, in nanoseconds: the message has to reach them first.
const BEGINS_AFTER_NS: u64 = 50_000_000;
/// Interval of checks whether a run is to end early.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// A worker, over any transport.
pub(super) struct Link {
    pub(super) tells: Box<dyn Write>,
    pub(super) says: Box<dyn Read + Send>,
    pub(super) child: Option<Child>,
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It has ended already when all went well.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a worker.
///
/// # Errors
/// When the system does not.
pub(super) fn start(worker: u32, command: &mut Command) -> Result<Link, LoadError> {
    let wrong = |problem: String| LoadError::Worker { worker, problem };
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(|error| wrong(error.to_string()))?;
    let (Some(tells), Some(says)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(wrong("it has no pipes".to_owned()));
    };
    Ok(Link { tells: Box::new(tells), says: Box::new(says), child: Some(child) })
}

/// All workers of a run.
struct Workers<'a> {
    links: Vec<Link>,
    hears: Receiver<(u32, Option<Said>)>,
    clock: Clock,
    progress: &'a mut dyn Progress,
    gathered: usize,
    sent: Vec<Totals>,
    seconds: BTreeMap<u32, (usize, Second)>,
    done: Vec<(u32, LoadOutcome)>,
}

/// Carries out a plan with workers.
///
/// # Errors
/// When a worker fails.
pub(super) fn run(
    plan: &LoadPlan,
    mut links: Vec<Link>,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<LoadOutcome, LoadError> {
    let (says, hears) = channel();
    for (worker, link) in (0..).zip(&mut links) {
        listen(worker, std::mem::replace(&mut link.says, Box::new(std::io::empty())), says.clone());
    }
    drop(says);
    let clock = Clock::start();
    let (sent, done) = (Vec::new(), Vec::new());
    let mut workers = Workers { links, hears, clock, progress, gathered: 0, sent, seconds: BTreeMap::new(), done };
    for worker in 0..workers.links.len() {
        let job = Job { plan: plan.clone(), worker: worker as u32, zero_ns: clock.zero_ns() };
        workers.tell(worker, &job)?;
    }
    workers.hear_to_the_end(stop)?;
    workers.done.sort_unstable_by_key(|(worker, _)| *worker);
    let mut outcome = LoadOutcome::default();
    for (_, part) in &workers.done {
        outcome.add(part);
    }
    Ok(outcome)
}

fn listen(worker: u32, says: Box<dyn Read + Send>, to: Sender<(u32, Option<Said>)>) {
    std::thread::spawn(move || {
        for line in BufReader::new(says).lines() {
            let said = line.ok().and_then(|line| serde_json::from_str(&line).ok());
            let is_last = said.is_none();
            if to.send((worker, said)).is_err() || is_last {
                return;
            }
        }
        // The other end may have ended as well.
        let _ = to.send((worker, None));
    });
}

impl Workers<'_> {
    fn tell(&mut self, worker: usize, message: &impl serde::Serialize) -> Result<(), LoadError> {
        let wrong = |problem: String| LoadError::Worker { worker: worker as u32, problem };
        let mut line = serde_json::to_vec(message).map_err(|error| wrong(error.to_string()))?;
        line.push(b'\n');
        let tells = &mut self.links[worker].tells;
        tells.write_all(&line).and_then(|()| tells.flush()).map_err(|error| wrong(error.to_string()))
    }

    fn tell_all(&mut self, message: &Told) -> Result<(), LoadError> {
        (0..self.links.len()).try_for_each(|worker| self.tell(worker, message))
    }

    fn hear_to_the_end(&mut self, stop: &AtomicBool) -> Result<(), LoadError> {
        let mut stopped = false;
        while self.done.len() < self.links.len() {
            if !stopped && stop.load(Ordering::Relaxed) {
                stopped = true;
                self.tell_all(&Told::Stop)?;
            }
            match self.hears.recv_timeout(LOOKS_EVERY) {
                Ok((worker, said)) => self.hear(worker, said)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(ended(0)),
            }
        }
        Ok(())
    }

    fn hear(&mut self, worker: u32, said: Option<Said>) -> Result<(), LoadError> {
        match said {
            Some(Said::Gathered) => {
                self.gathered += 1;
                if self.gathered == self.links.len() {
                    let at_ns = self.clock.now_ns() + BEGINS_AFTER_NS;
                    self.progress.began(at_ns);
                    self.tell_all(&Told::Begin(at_ns))?;
                }
            }
            Some(Said::Sent(totals)) => {
                self.sent.push(totals);
                if self.sent.len() == self.links.len() {
                    self.progress.draining();
                    let all = self.sent.drain(..).flatten().collect();
                    self.tell_all(&Told::Sent(all))?;
                }
            }
            Some(Said::Second(second)) => self.second(second),
            Some(Said::Done(outcome)) => self.done.push((worker, *outcome)),
            Some(Said::Failed(problem)) => return Err(LoadError::Worker { worker, problem }),
            None if self.done.iter().any(|(done, _)| *done == worker) => {}
            None => return Err(ended(worker)),
        }
        Ok(())
    }

    fn second(&mut self, second: Second) {
        let number = second.second;
        let (count, sum) = self.seconds.entry(number).or_insert((0, Second { second: number, ..Second::default() }));
        *count += 1;
        sum.add(&second);
        if *count == self.links.len() {
            let sum = *sum;
            self.seconds.remove(&number);
            self.progress.second(&sum);
        }
    }
}

fn ended(worker: u32) -> LoadError {
    LoadError::Worker { worker, problem: "it ended before the run did".to_owned() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::double::{Behaviour, Served};
    use crate::limits::Limits;
    use crate::load::plan::{ClientGroup, Pace, Payload, Publishing, Role, Subscribing, Target, Topics};
    use crate::load::worker::work;

    /// A worker on a thread.
    fn thread() -> Link {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || work(BufReader::new(theirs.try_clone().unwrap()), theirs));
        Link { tells: Box::new(ours.try_clone().unwrap()), says: Box::new(ours), child: None }
    }

    fn plan(port: u16) -> LoadPlan {
        let mut plan = LoadPlan::new(Target::tcp("127.0.0.1", port), 60_000);
        plan.processes = 2;
        let publishing = Publishing {
            topics: Topics::one("t/{client}"),
            qos: 1,
            retain: false,
            payload: Payload::fixed(100),
            pace: Pace::Closed { window: 10 },
            messages: Some(500),
            expiry_s: None,
        };
        plan.groups = vec![
            ClientGroup::new("subscribers", 3, Role::Subscriber(Subscribing::to("t/#", 1))),
            ClientGroup::new("publishers", 5, Role::Publisher(publishing)),
        ];
        plan
    }

    #[test]
    fn workers_count_messages_that_cross_between_them() {
        let behaviour = Behaviour { drop: 0.05, duplicate: 0.05, reorder: 0.05, seed: 4, ..Behaviour::default() };
        let served = Served::start(behaviour).unwrap();
        let mut plan = plan(served.port());
        plan.drain_ms = 1_000;
        let outcome = run(&plan, vec![thread(), thread()], &mut (), &AtomicBool::new(false)).unwrap();
        let records = served.stop();
        assert_eq!((outcome.counts.sent, outcome.counts.due), (2_500, 7_500));
        assert_eq!(outcome.counts.sent, records.published);
        assert_eq!(outcome.counts.received, records.delivered);
        assert_eq!(outcome.counts.duplicates, records.duplicated);
        assert_eq!(outcome.counts.reordered, records.reordered);
        assert_eq!(outcome.counts.lost(), records.dropped);
        assert_eq!(outcome.connections.accepted, 8);
        assert_eq!(outcome.acknowledgement.count(), 2_500);
    }

    /// As a platform: devices, gateways and a hub, the last two in their own processes.
    #[test]
    fn messages_of_a_limited_relay_are_counted_over_processes() {
        let served = Served::start(Behaviour { drop: 0.05, seed: 7, ..Behaviour::default() }).unwrap();
        let mut plan = plan(served.port());
        plan.drain_ms = 1_000;
        plan.processes = 1;
        let limited = |name: &str, count, role| ClientGroup {
            limits: Some(Limits { cpus: Some(0.2), ..Limits::default() }),
            ..ClientGroup::new(name, count, role)
        };
        let (from, to) = ("t".to_owned(), "hub".to_owned());
        let relay =
            Role::Relay { subscribing: Subscribing::to("t/#", 1), from, to, qos: 1, work_us: 0, encoding: None };
        plan.groups[0] = limited("hub", 1, Role::Subscriber(Subscribing::to("hub/#", 1)));
        plan.groups.insert(1, limited("gateway", 1, relay));
        let outcome = run(&plan, vec![thread(), thread(), thread()], &mut (), &AtomicBool::new(false)).unwrap();
        let records = served.stop();
        let [hub, gateway, devices] = [0, 1, 2].map(|group| outcome.groups[group].counts);
        assert_eq!((devices.sent, gateway.passed_on), (2_500, gateway.received));
        assert!(records.dropped > 0);
        assert_eq!((outcome.counts.due, outcome.counts.received), (5_000, gateway.received + hub.received));
        // A message that the hub misses was dropped before the gateway or behind it.
        assert_eq!(2_500 - hub.received, records.dropped);
    }

    #[test]
    fn a_worker_that_ends_is_reported() {
        let gone = || Link { tells: Box::new(std::io::sink()), says: Box::new(std::io::empty()), child: None };
        let error = run(&plan(1), vec![gone(), gone()], &mut (), &AtomicBool::new(false)).unwrap_err();
        assert!(matches!(error, LoadError::Worker { .. }), "{error}");
    }
}
