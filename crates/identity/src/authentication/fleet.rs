//! Asks the brokers of a fleet who a client is.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_auth::{AskFleet, FleetAsker, RefusalKind, Request, Secret};
use tidegate_mqtt::ReasonCode;
use tidegate_node::{BrokerWord, Brokers, Question};

/// Asks brokers about users.
struct Asker {
    /// The beginning of the client ids of connections that ask.
    prefix: String,
    brokers: Brokers,
    /// The number of the next question; also which broker is asked first.
    next: AtomicUsize,
}

/// The party that asks the brokers of a fleet for an orchestrator of this name.
pub fn asker(orchestrator: &str, brokers: Brokers) -> FleetAsker {
    // Another orchestrator may have the same name by mistake; it shall not end the connections of this one.
    let run = RandomState::new().build_hasher().finish();
    FleetAsker(Arc::new(Asker { prefix: format!("{orchestrator}~ask-{run:x}-"), brokers, next: AtomicUsize::new(0) }))
}

impl AskFleet for Asker {
    fn ask(&self, request: &Request, limit: Duration) -> Result<(), (RefusalKind, String)> {
        if request.client_id.starts_with(&self.prefix) {
            let why = "this is the orchestrator itself: one of its brokers has its own address";
            return Err((RefusalKind::Unavailable, why.to_owned()));
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let client_id = format!("{}{number:x}", self.prefix);
        let question = Question {
            client_id: &client_id,
            user_name: request.user_name.as_deref().unwrap_or_default(),
            password: request.password.as_ref().map(Secret::expose),
        };
        match self.brokers.ask(&question, number, limit) {
            Ok(BrokerWord::Welcome) => Ok(()),
            Ok(BrokerWord::Refused(ReasonCode::Banned)) => {
                Err((RefusalKind::Banned, "a broker has banned it".to_owned()))
            }
            Ok(BrokerWord::Refused(code)) => {
                // Brokers of MQTT 3.1.1 say either of two codes to a wrong password.
                Err((RefusalKind::BadCredentials, format!("a broker refuses its credentials ({code:?})")))
            }
            Err(error) => Err((RefusalKind::Unavailable, error.to_string())),
        }
    }
}
