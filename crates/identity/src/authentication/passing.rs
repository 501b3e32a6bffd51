//! Clients whose own credentials brokers are shown: who is let in goes to the node of its user.

use std::sync::Arc;

use tidegate_engine::{AuthOutcome, AuthRequest, Reason};
use tidegate_node::{Answer, ConnectionFacts, Door, EnterError, Identities};
use zeroize::Zeroizing;

use crate::authentication::{Authentication, Visitors};

/// Decides about a CONNECT, and notes clients over HTTP. A client without a user name is refused: brokers would be shown
/// nothing.
pub fn decide(
    authentication: &Authentication,
    identities: &Arc<Identities>,
    visitors: &Visitors,
    request: AuthRequest,
    facts: &ConnectionFacts,
    answer: Answer,
) {
    let client_id = request.client_id.clone();
    if request.enhanced.is_some() {
        tracing::info!(client_id, "client refused: its credentials cannot be forwarded to brokers");
        return answer.give(AuthOutcome::Refuse(Reason::BadAuthenticationMethod));
    }
    let Some(user_name) = request.user_name.clone() else {
        tracing::info!(client_id, "client refused: it has no user name to forward to brokers");
        return answer.give(AuthOutcome::Refuse(Reason::NotAuthorized));
    };
    let password = request.password.clone().map(Zeroizing::new);
    let (identities, visitors, tenant) = (Arc::clone(identities), visitors.clone(), request.tenant);
    let place = answer.connection();
    authentication.decide(request, facts, place, move |outcome| {
        let AuthOutcome::Accept(accepted) = outcome else { return answer.give(outcome) };
        let give = move |outcome: Result<Door, EnterError>| match outcome {
            Ok(door) => {
                visitors.note(&client_id, tenant, &accepted, Some(&door));
                answer.pass_to(door, accepted);
            }
            Err(error) => {
                tracing::warn!(client_id, "client refused: {error}");
                answer.give(AuthOutcome::Refuse(Reason::AuthenticationUnavailable));
            }
        };
        identities.enter(&user_name, password.as_deref().map(Vec::as_slice), Box::new(give));
    });
}
