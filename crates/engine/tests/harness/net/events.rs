//! Requests of engines.

use tidegate_engine::{AuthOutcome, AuthRequest, ConnectionKey, Engine, Event, Now, ObserverId, ObserverWindow};

use super::Net;
use super::socket::Stand;

/// Opens the windows of the observers that the settings ask for, as services do.
pub(crate) fn open_windows(engine: &mut Engine, now: Now) {
    for id in [ObserverId::APPLICATIONS, ObserverId::REPORTS] {
        engine.insiders().set_observer_window(now, id, ObserverWindow { messages: 1_000, bytes: 1_000_000 });
    }
}

/// A CONNECT that waits for its authentication.
#[derive(Debug)]
pub(crate) struct Asked {
    pub request: AuthRequest,
    pub(super) shard: usize,
    pub(super) key: ConnectionKey,
}

impl Net {
    /// Calls an engine from outside, and carries out the resulting events.
    pub(crate) fn with_engine<T>(&mut self, shard: usize, call: impl FnOnce(&mut Engine, Now) -> T) -> T {
        let result = call(&mut self.engines[shard], self.now);
        self.gather(shard);
        result
    }

    /// Carries out the events of a shard.
    pub(super) fn gather(&mut self, shard: usize) {
        self.unshipped[shard] = true;
        while let Some(event) = self.engines[shard].poll_event() {
            self.carry_out(shard, event);
        }
        while let Some(key) = self.engines[shard].outputs().pop_dirty() {
            if let Some(id) = self.by_key[shard].get(&key) {
                self.sockets[*id].dirty = true;
            }
        }
    }

    fn carry_out(&mut self, shard: usize, event: Event) {
        let socket_of = |net: &mut Self, key: ConnectionKey| net.by_key[shard].get(&key).copied();
        match event {
            Event::Close { key, reason } => {
                let id = socket_of(self, key).expect("Close names a connection that the shell has");
                assert!(self.sockets[id].closing.is_none(), "Close came twice for socket {id}");
                self.sockets[id].closing = Some(reason);
            }
            Event::HandOver { key, home, listener, bytes } => {
                let id = self.by_key[shard].remove(&key).expect("HandOver names a connection that the shell has");
                assert_eq!(self.sockets[id].listener, listener, "the listener of socket {id}");
                let first = self.nodes.engines_of(self.nodes.node_of(shard)).start;
                self.sockets[id].stand = Stand::Moving { home: first + usize::from(home.0), bytes };
                self.sockets[id].dirty = false;
            }
            Event::PauseReading { key } => {
                if let Some(id) = socket_of(self, key) {
                    self.sockets[id].paused = true;
                }
            }
            Event::ResumeReading { key } => {
                if let Some(id) = socket_of(self, key) {
                    self.sockets[id].paused = false;
                }
            }
            Event::Authenticate { key, request } => self.asked.push_back(Asked { request, shard, key }),
            Event::AnswerChallenge { key, data } => self.challenged.push_back((shard, key, data)),
            Event::ReadQueue(wanted) => self.reading.push_back((shard, wanted)),
            Event::Dial { broker_link, attempt } => self.dialing.push_back((shard, broker_link, attempt)),
            Event::Relay { key, place } if self.nodes.are_several() => self.relay(shard, key, usize::from(place)),
            Event::Relay { key, place } => self.relaying.push((shard, key, place)),
            Event::Continue { key, proven } => self.continuing.push((shard, key, proven)),
            Event::Pong { client_id, .. } => self.pongs.push(client_id),
            Event::Observed { observer: ObserverId::APPLICATIONS, message } => self.records.push((shard, *message)),
            Event::Observed { observer: ObserverId::REPORTS, message } => self.reports.push((shard, *message)),
            Event::Observed { observer, message } => self.observed.push((shard, observer, *message)),
            Event::Published { number, outcome, .. } => self.published.push((number, outcome)),
            Event::Log(event) => {
                self.trace.note(format!("shard {shard}: {event:?}"));
                self.log.push(event);
            }
        }
    }

    pub(crate) fn answer(&mut self, asked: &Asked, outcome: AuthOutcome) {
        self.trace.note(format!("outcome on {}: {outcome:?}", asked.request.client_id));
        self.engines[asked.shard].entry().handle_auth_outcome(self.now, asked.key, outcome);
        self.gather(asked.shard);
    }
}
