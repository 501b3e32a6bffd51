//! The node's calls to this process: events for the log, and the authentication of clients.

use std::sync::Arc;

use tidegate_engine::{AuthOutcome, AuthRequest, LogEvent, Reason};
use tidegate_node::{Answer, ConnectionFacts, ContinuedClient, Identities, Observer, Occasion, TracingObserver};

use tidegate_connectors::hub::Door;
use tidegate_identity::authentication::passing;
use tidegate_identity::authentication::{Authentication, Visitors, is_logged};

/// Logs events, and authenticates clients.
pub(crate) struct BrokerObserver {
    /// Authentication; `None` if every client is admitted.
    authentication: Option<Arc<Authentication>>,
    /// The users whose own credentials brokers are shown, where they are.
    identities: Option<Arc<Identities>>,
    /// The entry of pipelines, if there are some.
    door: Option<Door>,
    /// Clients over HTTP.
    visitors: Visitors,
}

impl BrokerObserver {
    /// Asks this authentication.
    pub(crate) fn new(
        authentication: Option<Arc<Authentication>>,
        identities: Option<Arc<Identities>>,
        door: Option<Door>,
        visitors: Visitors,
    ) -> Self {
        Self { authentication, identities, door, visitors }
    }
}

impl Observer for BrokerObserver {
    fn wants(&self, event: &LogEvent) -> bool {
        TracingObserver.wants(event)
    }

    fn log(&self, occasion: &Occasion<'_>) {
        if let LogEvent::Refused { reason, detail, .. } = occasion.event
            && self.authentication.is_some()
            && detail.is_empty()
            && is_logged(*reason)
        {
            tracing::debug!(shard = occasion.shard.0, reason = reason.label(), "connection refused");
            return;
        }
        TracingObserver.log(occasion);
    }

    fn authenticate(&self, request: AuthRequest, facts: ConnectionFacts, answer: Answer) {
        if let Some(door) = self.door.as_ref().filter(|door| door.is_at(request.listener)) {
            return answer.give(door.decide(&request));
        }
        let Some(authentication) = &self.authentication else {
            return answer.give(AuthOutcome::Refuse(Reason::NotAuthorized));
        };
        if let Some(identities) = &self.identities {
            return passing::decide(authentication, identities, &self.visitors, request, &facts, answer);
        }
        let place = answer.connection();
        let (visitors, client_id, tenant) = (self.visitors.clone(), request.client_id.clone(), request.tenant);
        authentication.decide(request, &facts, place, move |outcome| {
            if let AuthOutcome::Accept(accepted) = &outcome {
                visitors.note(&client_id, tenant, accepted, None);
            }
            answer.give(outcome);
        });
    }

    fn accept_continued(&self, client: &ContinuedClient<'_>) -> Result<(), Reason> {
        match (&self.authentication, &self.identities) {
            (Some(authentication), None) => authentication.accept_continued(client),
            // A user's own connections to brokers need the password.
            (_, Some(_)) | (None, _) => Err(Reason::UseAnotherServer),
        }
    }

    fn answer_challenge(&self, data: Vec<u8>, answer: Answer) {
        if self.identities.is_some() {
            return answer.give(AuthOutcome::Refuse(Reason::BadAuthenticationMethod));
        }
        let outcome =
            self.authentication.as_ref().map_or(AuthOutcome::Refuse(Reason::NotAuthorized), |authentication| {
                authentication.answer_challenge(answer.connection(), &data)
            });
        answer.give(outcome);
    }
}
