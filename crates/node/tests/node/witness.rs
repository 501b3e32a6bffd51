//! An observer that accepts every client and passes its calls to a test.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use tidegate_engine::{Accepted, AuthOutcome, AuthRequest, Authentication};
use tidegate_node::{Answer, ConnectionFacts, NodeSettings, Observer, Occasion, Peer};

struct Witness {
    facts: Sender<ConnectionFacts>,
    peers: Sender<Option<Peer>>,
}

/// The calls of the observer.
pub(crate) struct Witnessed {
    /// With each request for authentication.
    pub(crate) facts: Receiver<ConnectionFacts>,
    /// With each event for the log.
    pub(crate) peers: Receiver<Option<Peer>>,
}

impl Observer for Witness {
    fn log(&self, occasion: &Occasion<'_>) {
        // The test may have dropped the receiver.
        let _ = self.peers.send(occasion.peer);
    }

    fn authenticate(&self, _: AuthRequest, facts: ConnectionFacts, answer: Answer) {
        let _ = self.facts.send(facts);
        answer.give(AuthOutcome::Accept(Accepted::default()));
    }
}

/// Makes a node report to a test.
pub(crate) fn watch(settings: &mut NodeSettings) -> Witnessed {
    let ((facts, all_facts), (peers, all_peers)) = (channel(), channel());
    settings.engine.authentication = Authentication::External;
    settings.observer = Arc::new(Witness { facts, peers });
    Witnessed { facts: all_facts, peers: all_peers }
}
