//! Asks a cluster from outside, all the time: what each node says in `/readyz`, and whether partitions are served.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::partition::{self, PARTITIONS};
use super::prober::{Prober, lock};
use super::service::{Allowance, Moment, Service, Sums};
use crate::failure::Failure;
use crate::ledger::Finding;
use crate::rng::Rng;

/// Between two questions to one node.
const PAUSE: Duration = Duration::from_millis(200);
/// How long an answer of `/readyz` may take. A node that takes longer is not ready.
const READY_LIMIT: Duration = Duration::from_secs(1);

/// A node as observers know it.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) admin: u16,
}

/// Tells the threads when the run is over.
#[derive(Debug, Default)]
struct EndSignal {
    is_over: Mutex<bool>,
    over: Condvar,
}

impl EndSignal {
    fn has_come(&self) -> bool {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end, for a pause at most. True at the end.
    fn comes_within(&self, pause: Duration) -> bool {
        let guard = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        *self.over.wait_timeout(guard, pause).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A thread for each node, and one for the probes of all partitions. They end with this value.
#[derive(Debug)]
pub(super) struct Observers {
    end: Arc<EndSignal>,
    service: Arc<Mutex<Service>>,
    prober: Option<JoinHandle<Result<(), Failure>>>,
    begun: Instant,
}

/// The partitions that a run asks: all, or a random sample of this size.
fn chosen(count: u16, rng: &mut Rng) -> Vec<u16> {
    let mut all: Vec<u16> = (0..PARTITIONS).collect();
    let mut chosen = Vec::new();
    while chosen.len() < usize::from(count) && !all.is_empty() {
        chosen.push(all.swap_remove(rng.index(all.len())));
    }
    chosen.sort_unstable();
    chosen
}

impl Observers {
    /// Starts the threads. `count` partitions are asked; each may be unserved for `limit` after a strike.
    pub(super) fn start(nodes: &[Watched], count: u16, limit: Duration, rng: &mut Rng) -> Result<Self, Failure> {
        let partitions = chosen(count, rng);
        let client_ids = partition::client_ids(&partitions, nodes.len());
        let names = nodes.iter().map(|node| node.name.clone()).collect();
        let service = Arc::new(Mutex::new(Service::new(partitions, names, limit)));
        let (end, begun) = (Arc::new(EndSignal::default()), Instant::now());
        for (place, node) in nodes.iter().enumerate() {
            let (admin, end, service) = (node.admin, Arc::clone(&end), Arc::clone(&service));
            std::thread::spawn(move || {
                loop {
                    let is_ready = says_ready(admin);
                    lock(&service).note_ready(place, is_ready);
                    if end.comes_within(PAUSE) {
                        return;
                    }
                }
            });
        }
        let ports: Vec<u16> = nodes.iter().map(|node| node.port).collect();
        let prober = Prober::new(client_ids, &ports, Arc::clone(&service), begun)?;
        let ended = Arc::clone(&end);
        let prober = Some(std::thread::spawn(move || prober.run(|| ended.has_come())));
        Ok(Self { end, service, prober, begun })
    }

    /// True if every node said that it is ready when it was last asked, and no partition waits for an answer.
    pub(super) fn are_ready(&self) -> bool {
        let service = lock(&self.service);
        service.are_ready() && service.is_whole()
    }

    fn now(&self) -> Moment {
        self.begun.elapsed()
    }

    /// A strike begins or ends.
    pub(super) fn disturb(&self) {
        lock(&self.service).disturb(self.now());
    }

    /// Whether a strike lasts during which no partition is owed service.
    pub(super) fn excuse(&self, is_excused: bool) {
        lock(&self.service).excuse(is_excused, self.now());
    }

    /// Notes the present cause that keeps ready nodes from an answer, by the book.
    pub(super) fn allow(&self, allowance: &Allowance) {
        lock(&self.service).allow(allowance);
    }

    /// Forgets the longest time without an answer so far.
    pub(super) fn forget_longest(&self) {
        lock(&self.service).sums.longest = Duration::ZERO;
    }

    /// All that was counted so far.
    pub(super) fn sums(&self) -> Sums {
        lock(&self.service).sums
    }

    /// The next complaint.
    ///
    /// # Errors
    /// When the probes have ended.
    pub(super) fn complaint(&mut self) -> Result<Option<(Finding, String)>, Failure> {
        if let Some(prober) = self.prober.take_if(|prober| prober.is_finished()) {
            let died = |_| Failure::Broker("the thread of the probes has panicked".to_owned());
            prober.join().map_err(died)??;
        }
        Ok(lock(&self.service).complaint())
    }
}

impl Drop for Observers {
    fn drop(&mut self) {
        *self.end.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.over.notify_all();
    }
}

/// True if `/readyz` answers 200.
fn says_ready(admin: u16) -> bool {
    let ask = || -> io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, admin)), READY_LIMIT)?;
        stream.set_read_timeout(Some(READY_LIMIT))?;
        stream.set_write_timeout(Some(READY_LIMIT))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut status = [0; 12];
        stream.read_exact(&mut status)?;
        Ok(status.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::super::planted;
    use super::*;

    /// Longest wait for something that must come.
    const ENOUGH: Duration = Duration::from_secs(60);

    /// Two nodes with a planted fault or without, and the observers of eight partitions.
    struct PlantedNodes {
        serves: [Arc<AtomicBool>; 2],
        is_ready: [Arc<AtomicBool>; 2],
        observers: Observers,
    }

    impl PlantedNodes {
        /// Nodes that serve and are ready, and whose partitions may be unserved for a second.
        fn new() -> Self {
            let [serves, is_ready] = [(); 2].map(|()| [(); 2].map(|()| Arc::new(AtomicBool::new(true))));
            let watched: Vec<Watched> = ["one", "other"]
                .into_iter()
                .zip(serves.iter().zip(&is_ready))
                .map(|(name, (serves, is_ready))| Watched {
                    name: name.to_owned(),
                    port: planted::server(Arc::clone(serves)),
                    admin: planted::admin(Arc::clone(is_ready)),
                })
                .collect();
            let observers = Observers::start(&watched, 8, Duration::from_secs(1), &mut Rng::new(1)).unwrap();
            observers.excuse(false);
            let mut nodes = Self { serves, is_ready, observers };
            nodes.wait("service", |nodes| nodes.observers.are_ready() && nodes.observers.sums().answered >= 16);
            nodes
        }

        fn wait(&mut self, missing: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
            let begun = Instant::now();
            while !is_so(self) {
                assert!(begun.elapsed() < ENOUGH, "{missing} does not come");
                std::thread::yield_now();
            }
        }

        /// Waits for a finding about something.
        fn wait_for(&mut self, wanted: Finding, about: &str) {
            self.wait(about, |nodes| {
                let complaint = nodes.observers.complaint().unwrap();
                complaint.is_some_and(|(finding, text)| finding == wanted && text.contains(about))
            });
        }
    }

    fn set(flags: &[Arc<AtomicBool>], value: bool) {
        for flag in flags {
            flag.store(value, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_planted_ready_node_that_does_not_serve_is_found() {
        let mut nodes = PlantedNodes::new();
        set(&nodes.serves[1..], false);
        nodes.wait_for(Finding::Unserved, "other says");
    }

    #[test]
    fn planted_dead_partitions_are_found() {
        let mut nodes = PlantedNodes::new();
        set(&nodes.is_ready, false);
        set(&nodes.serves, false);
        nodes.wait_for(Finding::Overdue, "is unserved for");
        set(&nodes.is_ready, true);
        nodes.wait_for(Finding::Unserved, "none serves partition");
        set(&nodes.serves, true);
        nodes.wait("service", |nodes| nodes.observers.are_ready());
    }

    #[test]
    fn a_port_without_a_server_is_not_ready() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        assert!(!says_ready(port));
    }

    #[test]
    fn a_seed_chooses_the_partitions() {
        let choose = |seed| chosen(64, &mut Rng::new(seed));
        assert_eq!(choose(3), choose(3));
        assert_ne!(choose(3), choose(4));
        assert_eq!(chosen(PARTITIONS, &mut Rng::new(1)), (0..PARTITIONS).collect::<Vec<_>>());
    }
}
