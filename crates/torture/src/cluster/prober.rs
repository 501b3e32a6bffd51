//! A probe of each partition at each node: clients that publish at QoS 1 and wait for the PUBACK, in one thread.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mio::{Events, Interest, Poll, Registry, Token};
use tidegate_mqtt::{
    Connect, ConnectProperties, Disconnect, Packet, PacketId, Publish, PublishProperties, QoS, ReasonCode, TopicName,
    Version,
};

use super::service::{Asked, Moment, Service};
use crate::failure::Failure;
use crate::login;
use crate::wire::{Incoming, Wire};

/// Each partition is asked this often while it is served, at each node in turn.
const PERIOD: Duration = Duration::from_secs(1);
/// A probe waits for its answer for this long.
const PATIENCE: Duration = Duration::from_secs(1);
/// A partition that is not served is asked again at each node after this time.
const AGAIN: Duration = Duration::from_millis(300);
/// Probes on one connection, so that connections are tried as well.
const LIVES: u32 = 5;
/// Longest wait between two looks at all probes.
const TURN: Duration = Duration::from_millis(10);
/// The topic of all probes; no client subscribes to it.
const TOPIC: &str = "o";

/// The activity of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for its next turn, with a connection or without.
    Idle,
    /// Waits for CONNACK.
    Connecting,
    /// Waits for PUBACK.
    Publishing,
}

/// A client of one partition at one node.
#[derive(Debug)]
struct Probe {
    client_id: String,
    partition: usize,
    node: usize,
    port: u16,
    wire: Option<Wire>,
    stage: Stage,
    asked: Instant,
    due: Instant,
    /// The time of its first turn. Its turns come a cycle apart from then on, also after questions out of turn: else a fault
    /// would bring all probes of a node into one second of the cycle.
    first: Instant,
    /// Answers on this connection.
    answered: u32,
}

/// All probes.
pub(super) struct Prober {
    probes: Vec<Probe>,
    nodes: usize,
    poll: Poll,
    service: Arc<Mutex<Service>>,
    begun: Instant,
}

/// Locks the books; a thread that has panicked has left them whole.
pub(super) fn lock(service: &Mutex<Service>) -> MutexGuard<'_, Service> {
    service.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Prober {
    /// Probes with these client ids: for each partition one for each port.
    pub(super) fn new(
        client_ids: Vec<Vec<String>>,
        ports: &[u16],
        service: Arc<Mutex<Service>>,
        begun: Instant,
    ) -> Result<Self, Failure> {
        let mut probes = Vec::new();
        let count = client_ids.len();
        for (partition, ids) in client_ids.into_iter().enumerate() {
            for ((node, port), client_id) in ports.iter().enumerate().zip(ids) {
                let due = begun + turn_of((partition, count), (node, ports.len()));
                let (port, stage) = (*port, Stage::Idle);
                probes.push(Probe {
                    client_id,
                    partition,
                    node,
                    port,
                    wire: None,
                    stage,
                    asked: begun,
                    due,
                    first: due,
                    answered: 0,
                });
            }
        }
        let poll = Poll::new().map_err(Failure::system("creating a poll"))?;
        Ok(Self { probes, nodes: ports.len(), poll, service, begun })
    }

    /// Asks until the end.
    pub(super) fn run(mut self, is_over: impl Fn() -> bool) -> Result<(), Failure> {
        let mut events = Events::with_capacity(1024);
        while !is_over() {
            match self.poll.poll(&mut events, Some(TURN)) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(Failure::system("waiting for probes")(error));
                }
                _ => {}
            }
            let now = Instant::now();
            for token in events.iter().map(mio::event::Event::token) {
                self.read(token.0, now)?;
            }
            for place in 0..self.probes.len() {
                self.tend(place, now)?;
            }
            let moment = self.moment(now);
            lock(&self.service).look(moment);
        }
        Ok(())
    }

    fn moment(&self, now: Instant) -> Moment {
        now.saturating_duration_since(self.begun)
    }

    /// Begins the next question when it is due, and gives up one without an answer.
    fn tend(&mut self, place: usize, now: Instant) -> Result<(), Failure> {
        let Some(probe) = self.probes.get_mut(place) else { return Ok(()) };
        if probe.stage == Stage::Idle {
            if now >= probe.due && !probe.begin(Token(place), self.poll.registry(), now)? {
                self.fail(place, now);
            }
        } else if now > probe.asked + PATIENCE {
            self.fail(place, now);
        }
        Ok(())
    }

    fn read(&mut self, place: usize, now: Instant) -> Result<(), Failure> {
        let Some(probe) = self.probes.get_mut(place) else { return Ok(()) };
        let Some(wire) = &mut probe.wire else { return Ok(()) };
        let mut alive = wire.flush() && wire.fill();
        for packet in wire.take().0 {
            match packet {
                Incoming::ConnAck { code, .. } if !code.is_error() => {
                    probe.stage = Stage::Publishing;
                    wire.push(&publish()?)?;
                    alive &= wire.flush();
                }
                Incoming::PubAck { code, .. } if !code.is_error() && probe.stage == Stage::Publishing => {
                    let asked = Asked { partition: probe.partition, node: probe.node, at: probe.asked - self.begun };
                    lock(&self.service).note_answer(asked, now - self.begun);
                    probe.stage = Stage::Idle;
                    probe.due = next_turn(probe.first, PERIOD * self.nodes as u32, now);
                    probe.answered += 1;
                }
                _ => alive = false,
            }
        }
        if alive && probe.stage == Stage::Idle && probe.answered >= LIVES {
            wire.push(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)))?;
            wire.flush();
            probe.wire = None;
            probe.answered = 0;
        }
        if !alive {
            self.fail(place, now);
        }
        Ok(())
    }

    /// A connection has ended, or a question has failed: its partition is asked at all nodes soon.
    fn fail(&mut self, place: usize, now: Instant) {
        let Some(probe) = self.probes.get_mut(place) else { return };
        probe.wire = None;
        probe.answered = 0;
        if probe.stage == Stage::Idle && now < probe.due {
            // A node has closed a connection between two questions, which is no failure.
            probe.due = now;
            return;
        }
        probe.stage = Stage::Idle;
        let partition = probe.partition;
        let asked = Asked { partition, node: probe.node, at: probe.asked.saturating_duration_since(self.begun) };
        let (was_unserved, node) = (lock(&self.service).is_unserved(partition), probe.node);
        probe.due = now + if was_unserved { AGAIN } else { PERIOD };
        lock(&self.service).note_failure(asked);
        if was_unserved {
            return;
        }
        for (other, probe) in self.probes.iter_mut().enumerate().skip(place - node).take(self.nodes) {
            if other != place && probe.stage == Stage::Idle {
                probe.due = probe.due.min(now);
            }
        }
    }
}

impl Probe {
    /// Connects, or publishes where it is connected. False when that fails at once.
    fn begin(&mut self, token: Token, registry: &Registry, now: Instant) -> Result<bool, Failure> {
        self.asked = now;
        if let Some(wire) = &mut self.wire {
            self.stage = Stage::Publishing;
            wire.push(&publish()?)?;
            return Ok(wire.flush());
        }
        self.stage = Stage::Connecting;
        let Ok(mut wire) = Wire::begin(self.port, Version::V311) else { return Ok(false) };
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(wire.source(), token, interest).map_err(Failure::system("registering a socket"))?;
        let (username, password) = login::shown();
        wire.push(&Packet::Connect(Connect {
            version: Version::V311,
            bridge: false,
            clean_start: true,
            keep_alive: 0,
            client_id: &self.client_id,
            will: None,
            username,
            password,
            properties: ConnectProperties::default(),
        }))?;
        let alive = wire.flush();
        self.wire = Some(wire);
        Ok(alive)
    }
}

/// The first turn of a probe within the cycle. Each second one node is asked for a partition, and each node for as many
/// partitions as in any other second: a fault of many partitions is seen within milliseconds, and a node answers in each
/// second if it serves some of the others. Both pairs are a place and the number of places.
fn turn_of((partition, partitions): (usize, usize), (node, nodes): (usize, usize)) -> Duration {
    let cycle = PERIOD * nodes.max(1) as u32;
    let place = cycle * partition as u32 / partitions.max(1) as u32 + PERIOD * node as u32;
    place.checked_sub(cycle).unwrap_or(place)
}

/// The first turn after `now` of a probe whose turns come a cycle apart.
fn next_turn(first: Instant, cycle: Duration, now: Instant) -> Instant {
    let passed = now.saturating_duration_since(first);
    let turns = passed.as_millis() / cycle.as_millis().max(1);
    first + cycle * (u32::try_from(turns).unwrap_or(u32::MAX - 1) + 1)
}

fn publish() -> Result<Packet<'static>, Failure> {
    Ok(Packet::Publish(Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: Some(TopicName::new(TOPIC)?),
        packet_id: Some(PacketId::MIN),
        properties: PublishProperties::default(),
        payload: b"",
    }))
}

#[cfg(test)]
mod tests;
