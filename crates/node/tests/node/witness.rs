//! An observer that lets every client in and tells a test what it was told of it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use tidegate_engine::{Accepted, AuthRequest, Authentication, Verdict};
use tidegate_node::{Answer, ConnectionFacts, NodeSettings, Observer, Occasion, Peer};

struct Witness {
    facts: Sender<ConnectionFacts>,
    peers: Sender<Option<Peer>>,
}

/// What the observer was told.
pub(crate) struct Told {
    /// With each request for authentication.
    pub(crate) facts: Receiver<ConnectionFacts>,
    /// With each event for the log.
    pub(crate) peers: Receiver<Option<Peer>>,
}

impl Observer for Witness {
    fn log(&self, occasion: &Occasion<'_>) {
        // A test that does not listen is gone, or does not mind.
        let _ = self.peers.send(occasion.peer);
    }

    fn authenticate(&self, _: AuthRequest, facts: ConnectionFacts, answer: Answer) {
        let _ = self.facts.send(facts);
        answer.give(Verdict::Accept(Accepted::default()));
    }
}

/// Makes a node tell what it is told.
pub(crate) fn watch(settings: &mut NodeSettings) -> Told {
    let ((facts, all_facts), (peers, all_peers)) = (channel(), channel());
    settings.engine.authentication = Authentication::External;
    settings.observer = Arc::new(Witness { facts, peers });
    Told { facts: all_facts, peers: all_peers }
}
