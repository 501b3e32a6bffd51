//! The first contact of a user's node with the brokers: messages that the user publishes before it are lost at QoS 0.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate_engine::{AuthRequest, LogEvent, Reason, ShardId};

use crate::observer::{Answer, ContinuedClient, Observer, Occasion};
use crate::tls::ConnectionFacts;

/// Observes a node, and passes its events on.
pub(super) struct Contact {
    observer: Arc<dyn Observer>,
    /// Receives the names of brokers with a known state; `None` once the node is in use.
    heard: Mutex<Option<Sender<String>>>,
}

/// The brokers with a known state.
pub(super) struct Contacts {
    contact: Arc<Contact>,
    names: Receiver<String>,
}

impl Contact {
    /// Listens between a node and its observer.
    pub(super) fn with(observer: Arc<dyn Observer>) -> (Arc<Self>, Contacts) {
        let (heard, names) = channel();
        let contact = Arc::new(Self { observer, heard: Mutex::new(Some(heard)) });
        (Arc::clone(&contact), Contacts { contact, names })
    }
}

impl Contacts {
    /// Waits until these brokers are connected, or are known to be absent, at most for `limit`.
    pub(super) fn wait(self, mut brokers: BTreeSet<String>, limit: Duration) {
        let until = Instant::now() + limit;
        while !brokers.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(name) = self.names.recv_timeout(left) else { break };
            brokers.remove(&name);
        }
        *self.contact.heard.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The broker of an event, if it has one.
fn broker_of(event: &LogEvent) -> Option<&str> {
    match event {
        LogEvent::BrokerServes { broker } | LogEvent::BrokerLost { broker, .. } => Some(broker),
        _ => None,
    }
}

impl Observer for Contact {
    fn wants(&self, event: &LogEvent) -> bool {
        broker_of(event).is_some() || self.observer.wants(event)
    }

    fn log(&self, occasion: &Occasion<'_>) {
        if let Some(broker) = broker_of(occasion.event)
            && let Some(heard) = &*self.heard.lock().unwrap_or_else(PoisonError::into_inner)
        {
            // The waiting thread may have given up.
            let _ = heard.send(broker.to_owned());
        }
        if self.observer.wants(occasion.event) {
            self.observer.log(occasion);
        }
    }

    fn authenticate(&self, request: AuthRequest, facts: ConnectionFacts, answer: Answer) {
        self.observer.authenticate(request, facts, answer);
    }

    fn answer_challenge(&self, data: Vec<u8>, answer: Answer) {
        self.observer.answer_challenge(data, answer);
    }

    fn accept_continued(&self, client: &ContinuedClient<'_>) -> Result<(), Reason> {
        self.observer.accept_continued(client)
    }

    fn shard_failed(&self, shard: ShardId) {
        self.observer.shard_failed(shard);
    }
}
