//! What the node tells this process: log events go to the log, and a failed shard ends the process with its last words.

use std::sync::Arc;

use tidegate_engine::{AuthRequest, LogEvent, Reason, ShardId, Verdict};
use tidegate_node::{Answer, ConnectionFacts, FAILURE_EXIT_CODE, Identities, Observer, Occasion, TracingObserver};

use crate::authentication::Authentication;
use crate::logging::Log;
use crate::orchestrator::passing;

/// Logs events, and writes the log out before a failure ends the process.
pub(crate) struct BrokerObserver {
    log: Log,
    /// Who comes in; nothing where everybody does.
    authentication: Option<Arc<Authentication>>,
    /// The users whose own credentials brokers are shown, where they are.
    identities: Option<Arc<Identities>>,
}

impl BrokerObserver {
    /// Writes into this log, and asks this authentication.
    pub(crate) fn new(
        log: Log,
        authentication: Option<Arc<Authentication>>,
        identities: Option<Arc<Identities>>,
    ) -> Self {
        Self { log, authentication, identities }
    }
}

impl Observer for BrokerObserver {
    fn wants(&self, event: &LogEvent) -> bool {
        TracingObserver.wants(event)
    }

    fn log(&self, occasion: &Occasion<'_>) {
        TracingObserver.log(occasion);
    }

    fn authenticate(&self, request: AuthRequest, facts: ConnectionFacts, answer: Answer) {
        let Some(authentication) = &self.authentication else {
            return answer.give(Verdict::Refuse(Reason::NotAuthorized));
        };
        if let Some(identities) = &self.identities {
            return passing::decide(authentication, identities, request, &facts, answer);
        }
        let place = answer.connection();
        authentication.decide(request, &facts, place, move |verdict| answer.give(verdict));
    }

    fn answer_challenge(&self, data: Vec<u8>, answer: Answer) {
        if self.identities.is_some() {
            return answer.give(Verdict::Refuse(Reason::BadAuthenticationMethod));
        }
        let verdict = self.authentication.as_ref().map_or(Verdict::Refuse(Reason::NotAuthorized), |authentication| {
            authentication.answer_challenge(answer.connection(), &data)
        });
        answer.give(verdict);
    }

    fn shard_failed(&self, shard: ShardId) {
        tracing::error!(shard = shard.0, "a shard has panicked; the process ends");
        self.log.flush();
        std::process::exit(FAILURE_EXIT_CODE);
    }
}
