//! A thread that looks at the processes of a run again and again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidegate_proc::Stat;

use super::network::{self, Traffic};
use super::process::{descriptors, pss, status, switches};
use super::tree::{processes, tree};
use crate::stop::Stop;

/// PSS is read once in this number of samples: the kernel walks all pages of a process for it.
const PSS_EVERY: u32 = 5;

/// Nice value of the sampler, which is less urgent than the load.
const YIELDS: i32 = 10;

/// The use of a tree of processes, a column per quantity; all columns have the length of `at_s`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// Seconds after the run has begun.
    pub at_s: Vec<f64>,
    /// CPU time since the run has begun, seconds; also that of processes that have ended meanwhile, as far as it was
    /// seen.
    pub cpu_s: Vec<f64>,
    /// Resident memory, bytes.
    pub rss: Vec<u64>,
    /// The last sample of proportional memory, bytes.
    pub pss: Vec<u64>,
    /// Anonymous memory, bytes.
    pub anonymous: Vec<u64>,
    /// Open files.
    pub descriptors: Vec<u64>,
    /// Threads.
    pub threads: Vec<u64>,
    /// Context switches because a thread waited, since the processes began.
    pub voluntary: Vec<u64>,
    /// Context switches because a thread's time was over, since the processes began.
    pub involuntary: Vec<u64>,
    /// Bytes that the interfaces of its network namespace have received since the run has begun.
    pub network_bytes: Vec<u64>,
    /// Packets of the same.
    pub network_packets: Vec<u64>,
    /// Bytes that the interfaces of its network namespace have sent, but for the loopback interface.
    #[serde(default)]
    pub network_sent_bytes: Vec<u64>,
    /// Packets of the same.
    #[serde(default)]
    pub network_sent_packets: Vec<u64>,
}

/// The processes that are sampled; they change when a broker is started again.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    brokers: Arc<Mutex<Vec<u32>>>,
    other: Arc<Mutex<Option<u32>>>,
}

impl Watched {
    /// Looks at these processes from now on.
    pub fn set(&self, pids: impl IntoIterator<Item = u32>) {
        *self.brokers.lock().unwrap_or_else(PoisonError::into_inner) = pids.into_iter().collect();
    }

    /// A process of the lab that is no generator, such as one that carries packets: it counts for neither side.
    pub fn leave_out(&self, pid: Option<u32>) {
        *self.other.lock().unwrap_or_else(PoisonError::into_inner) = pid;
    }

    fn get(&self) -> (Vec<u32>, Option<u32>) {
        let brokers = self.brokers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (brokers, *self.other.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A running sampler.
#[derive(Debug)]
pub struct Sampler {
    stop: Stop,
    thread: JoinHandle<(Sampled, Sampled)>,
}

impl Sampler {
    /// Looks every so often, from `begin` on, at a broker's processes and at this program's own.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(watched: Watched, begin: Instant, every: Duration) -> std::io::Result<Self> {
        let stop = Stop::default();
        let seen = stop.clone();
        let thread = std::thread::Builder::new().name("sampler".to_owned()).spawn(move || {
            // The load on the same core comes first. Without the right to lower the priority, it stays.
            let _ = rustix::process::nice(YIELDS);
            let first = Instant::now();
            let mut broker = Accounts::default();
            let mut generator = Accounts::default();
            for looks in 1_u32.. {
                let at = begin.elapsed().as_secs_f64();
                let (roots, other) = watched.get();
                let all = processes(&[&[std::process::id()], roots.as_slice()].concat());
                let without: Vec<Option<u32>> = roots.iter().copied().map(Some).chain([other]).collect();
                let own = tree(&all, std::process::id(), &without);
                let theirs: Vec<u32> = roots.iter().flat_map(|root| tree(&all, *root, &[])).collect();
                let with_pss = looks % PSS_EVERY == 1;
                broker.look(at, &theirs, &all, with_pss);
                generator.look(at, &own, &all, with_pss);
                // From the plan, not from the last look, so that looks do not drift.
                if seen.wait((first + every.saturating_mul(looks)).saturating_duration_since(Instant::now())) {
                    break;
                }
            }
            (broker.sampled, generator.sampled)
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends it; returns the use by the broker, and by the generator.
    pub fn finish(self) -> (Sampled, Sampled) {
        self.stop.ask();
        self.thread.join().unwrap_or_default()
    }
}

/// Counters of processes that come and go, as sums that only grow.
#[derive(Default)]
struct Accounts {
    sampled: Sampled,
    /// CPU seconds of each process when it was last seen.
    seen: BTreeMap<u32, f64>,
    total_cpu: f64,
    /// When it was looked at first.
    traffic: Option<Traffic>,
    /// Since then, at the last look that saw it.
    last: Traffic,
}

impl Accounts {
    fn look(&mut self, at: f64, members: &[u32], all: &BTreeMap<u32, Stat>, with_pss: bool) {
        let first = self.sampled.at_s.is_empty();
        let mut row = Row::default();
        for pid in members {
            let Some(stat) = all.get(pid) else { continue };
            let cpu = stat.cpu.as_secs_f64();
            let before = self.seen.insert(*pid, cpu);
            // The use of a process before the first sample belongs to its start; a process that comes later began
            // within the run.
            self.total_cpu += if first { 0.0 } else { (cpu - before.unwrap_or(0.0)).max(0.0) };
            row.add(*pid, *stat, with_pss);
        }
        if let Some(now) = members.first().and_then(|pid| network::of(*pid)) {
            let begin = *self.traffic.get_or_insert(now);
            row.traffic = Traffic {
                bytes: now.bytes.saturating_sub(begin.bytes),
                packets: now.packets.saturating_sub(begin.packets),
                sent_bytes: now.sent_bytes.saturating_sub(begin.sent_bytes),
                sent_packets: now.sent_packets.saturating_sub(begin.sent_packets),
            };
            self.last = row.traffic;
        } else {
            row.traffic = self.last;
        }
        if !with_pss {
            row.pss = self.sampled.pss.last().copied().unwrap_or(0);
        }
        row.push(at, self.total_cpu, &mut self.sampled);
    }
}

/// One look.
#[derive(Default)]
struct Row {
    rss: u64,
    pss: u64,
    anonymous: u64,
    descriptors: u64,
    threads: u64,
    voluntary: u64,
    involuntary: u64,
    traffic: Traffic,
}

impl Row {
    fn add(&mut self, pid: u32, stat: Stat, with_pss: bool) {
        let (voluntary, involuntary) = switches(pid);
        self.rss += stat.resident;
        self.anonymous += status(pid).anonymous;
        self.descriptors += descriptors(pid);
        self.threads += stat.threads;
        self.voluntary += voluntary;
        self.involuntary += involuntary;
        if with_pss {
            self.pss += pss(pid);
        }
    }

    fn push(self, at: f64, cpu: f64, sampled: &mut Sampled) {
        sampled.at_s.push(at);
        sampled.cpu_s.push(cpu);
        sampled.rss.push(self.rss);
        sampled.pss.push(self.pss);
        sampled.anonymous.push(self.anonymous);
        sampled.descriptors.push(self.descriptors);
        sampled.threads.push(self.threads);
        sampled.voluntary.push(self.voluntary);
        sampled.involuntary.push(self.involuntary);
        sampled.network_bytes.push(self.traffic.bytes);
        sampled.network_packets.push(self.traffic.packets);
        sampled.network_sent_bytes.push(self.traffic.sent_bytes);
        sampled.network_sent_packets.push(self.traffic.sent_packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(cpu_ms: u64, resident: u64) -> Stat {
        Stat { cpu: Duration::from_millis(cpu_ms), resident, ..Stat::default() }
    }

    /// No process has these ids, so only the given values count.
    const A: u32 = u32::MAX;
    const B: u32 = u32::MAX - 1;

    #[test]
    fn cpu_time_counts_from_the_first_sample_past_an_end() {
        let mut accounts = Accounts::default();
        accounts.look(0.0, &[A], &BTreeMap::from([(A, stat(5_000, 10))]), false);
        accounts.look(1.0, &[A, B], &BTreeMap::from([(A, stat(6_000, 10)), (B, stat(500, 20))]), false);
        accounts.look(2.0, &[B], &BTreeMap::from([(B, stat(700, 20))]), false);
        let sampled = accounts.sampled;
        let expected = [0.0, 1.5, 1.7];
        assert!(sampled.cpu_s.iter().zip(expected).all(|(is, due)| (is - due).abs() < 1e-9), "{:?}", sampled.cpu_s);
        assert_eq!(sampled.rss, [10, 30, 20]);
        assert_eq!(sampled.at_s, [0.0, 1.0, 2.0]);
    }

    #[test]
    fn this_process_is_the_generator() {
        let sampler = Sampler::start(Watched::default(), Instant::now(), Duration::from_millis(1)).unwrap();
        let (broker, generator) = sampler.finish();
        assert!(!generator.rss.is_empty() && generator.rss[0] > 0);
        assert_eq!(broker.rss.iter().sum::<u64>(), 0);
    }
}
