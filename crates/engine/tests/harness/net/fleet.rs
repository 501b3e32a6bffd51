//! The brokers of a fleet at the other end of the engine's own connections.

use tidegate_engine::{Continued, ListenerId};

use super::Net;
use super::socket::{Socket, SocketId, Stand};
use crate::harness::broker::{FakeBroker, Ways};
use crate::harness::side::Side;
use crate::harness::v5;

impl Net {
    /// Lets a broker exist; the engine does not know of it yet.
    pub(crate) fn add_broker(&mut self, name: &str, ways: Ways) {
        self.brokers.insert(name.to_owned(), FakeBroker::new(ways));
    }

    /// Tells the engine of its brokers, as the shell does when it has started.
    pub(super) fn configure_fleet(&mut self) {
        if self.configured.is_empty() {
            return;
        }
        let configured = self.configured.clone();
        self.with_engine(0, |engine, now| {
            engine.fleet().continue_adopted(now, Continued::All);
            for (name, options) in configured {
                engine.fleet().set_broker_link(now, &name, options).expect("an orchestrator");
            }
            engine.fleet().forget_other_broker_links(now);
        });
    }

    /// Reaches the broker that has waited longest for it, or not.
    pub(super) fn dial(&mut self) {
        let Some((shard, name, attempt)) = self.dialing.pop_front() else { return };
        let there = self.brokers.get(&name).is_some_and(|broker| broker.ways.reachable);
        self.trace.note(format!("shard {shard}: dials {name}, which is there: {there}"));
        if !there {
            self.with_engine(shard, |engine, now| {
                engine.fleet().fail_broker_link(now, &name, attempt, "connection refused");
            });
            return;
        }
        let Some(key) = self.engines[shard].fleet().open_broker_link(self.now, &name, attempt) else {
            self.gather(shard);
            return;
        };
        let id = self.sockets.len();
        self.sockets.push(Socket {
            broker: Some(name.clone()),
            ..Socket::new(Side::new(&v5(&name)), Stand::At { shard, key }, ListenerId(u16::MAX))
        });
        self.live.insert(id);
        self.by_key[shard].insert(key, id);
        if let Some(broker) = self.brokers.get_mut(&name) {
            broker.accept(id);
        }
        self.gather(shard);
    }

    /// Bytes that the engine has sent to a broker.
    pub(super) fn give_to_broker(&mut self, id: SocketId, bytes: &[u8]) {
        let Some(name) = self.sockets[id].broker.clone() else { return };
        self.with_broker(&name, |broker| broker.receive(id, bytes));
    }

    /// The engine has closed a connection.
    pub(super) fn tell_broker_of_end(&mut self, id: SocketId) {
        let Some(name) = self.sockets[id].broker.clone() else { return };
        self.with_broker(&name, |broker| broker.lose(id));
    }

    /// The process is gone, and its connections to brokers with it.
    pub(super) fn break_from_brokers(&mut self) {
        for broker in self.brokers.values_mut() {
            for line in broker.lines() {
                broker.lose(line);
            }
            broker.outbox.clear();
            broker.closed.clear();
        }
        self.dialing.clear();
    }

    /// Acts on a broker, and carries out the results.
    pub(crate) fn with_broker<T>(&mut self, name: &str, act: impl FnOnce(&mut FakeBroker) -> T) -> T {
        let broker = self.brokers.get_mut(name).expect("a broker of this name");
        let result = act(broker);
        for line in std::mem::take(&mut broker.log) {
            self.trace.note(format!("{name} {line}"));
        }
        let (sent, closed) = (std::mem::take(&mut broker.outbox), std::mem::take(&mut broker.closed));
        for (id, bytes) in sent {
            self.send(id, &bytes);
        }
        for id in closed {
            self.hang_up(id);
        }
        result
    }

    /// A broker dies; this number of bytes in flight on each of its connections still arrive.
    pub(crate) fn kill_broker(&mut self, name: &str, survives: usize) {
        self.trace.note(format!("{name} dies"));
        for line in self.with_broker(name, FakeBroker::die) {
            self.cut(line, survives);
        }
    }

    /// The network between the engine and a broker breaks.
    pub(crate) fn cut_broker(&mut self, name: &str, survives: usize) {
        self.trace.note(format!("the connections of {name} break"));
        let lines = self.with_broker(name, |broker| {
            let lines = broker.lines();
            for line in &lines {
                broker.lose(*line);
            }
            lines
        });
        for line in lines {
            self.cut(line, survives);
        }
    }
}
