//! Authenticates clients by the brokers of a fleet: one of them accepts or refuses the client's credentials with its
//! CONNACK (BRK-10).

use std::time::Duration;

use crate::decision::{Decision, Identity, Refusal, RefusalKind};
use crate::mark::Mark;
use crate::permits::Permits;
use crate::provider::{Context, Provider};
use crate::request::Request;
use crate::settings::FleetSettings;

/// Asks the brokers. A connection without a user name is left to the next provider.
#[derive(Debug)]
pub(super) struct Fleet {
    name: String,
    settings: FleetSettings,
    permits: Permits,
}

impl Fleet {
    pub(super) fn new(name: &str, settings: &FleetSettings) -> Self {
        Self { name: name.to_owned(), settings: settings.clone(), permits: Permits::new(settings.concurrency) }
    }
}

impl Provider for Fleet {
    fn decide(&self, request: &Request, context: Context) -> Decision {
        let Some(user_name) = &request.user_name else { return Decision::Ignore };
        let refuse = |kind, why: String| Decision::Deny(Refusal::new(kind, &self.name, why));
        let limit = context.left.min(self.settings.timeout);
        let Some(_permit) = self.permits.acquire(limit) else {
            return refuse(RefusalKind::Unavailable, "too many questions to the brokers are under way".to_owned());
        };
        match self.settings.asker.0.ask(request, limit) {
            Ok(()) => Decision::Allow(Identity { user_name: Some(user_name.clone()), ..Identity::default() }),
            Err((kind, why)) => refuse(kind, why),
        }
    }

    fn mark(&self, _: &Identity) -> Option<Mark> {
        // The fleet decides about a client, and no limit.
        Some(Mark::of_settings(&self.settings.asker))
    }

    fn cache_ttl(&self) -> Option<Duration> {
        Some(self.settings.cache_ttl)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fleet_asker::{AskFleet, FleetAsker};
    use crate::request::Secret;

    /// Knows one user.
    struct Broker;

    impl AskFleet for Broker {
        fn ask(&self, request: &Request, _: Duration) -> Result<(), (RefusalKind, String)> {
            match (request.user_name.as_deref(), request.password.as_ref().map(Secret::expose)) {
                (Some("ann"), Some(b"right")) => Ok(()),
                (Some("ann"), _) => Err((RefusalKind::BadCredentials, "the broker refuses".to_owned())),
                _ => Err((RefusalKind::Unavailable, "no broker answers".to_owned())),
            }
        }
    }

    fn settings() -> FleetSettings {
        FleetSettings {
            asker: FleetAsker(Arc::new(Broker)),
            timeout: Duration::from_secs(1),
            concurrency: 1,
            cache_ttl: Duration::from_secs(1),
        }
    }

    fn decide(user: Option<&str>, password: &str) -> Decision {
        let request =
            Request { user_name: user.map(str::to_owned), password: Some(password.into()), ..Request::default() };
        Fleet::new("fleet", &settings()).decide(&request, Context { left: Duration::from_secs(1) })
    }

    #[test]
    fn a_mark_stays_when_limits_change() {
        let other = FleetSettings { timeout: Duration::from_secs(9), concurrency: 7, ..settings() };
        let mark = |settings: &FleetSettings| Fleet::new("fleet", settings).mark(&Identity::default());
        assert_eq!(mark(&other), mark(&settings()));
    }

    #[test]
    fn a_client_accepted_by_a_broker_has_its_claimed_name() {
        assert!(matches!(decide(Some("ann"), "right"), Decision::Allow(it) if it.user_name.as_deref() == Some("ann")));
        assert_eq!(decide(None, "right"), Decision::Ignore);
        for (user, password, kind) in
            [("ann", "wrong", RefusalKind::BadCredentials), ("bob", "right", RefusalKind::Unavailable)]
        {
            let Decision::Deny(refusal) = decide(Some(user), password) else { panic!("{user} comes in") };
            assert_eq!((refusal.kind, refusal.provider.as_str()), (kind, "fleet"));
        }
    }
}
