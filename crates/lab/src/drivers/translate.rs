//! The load of a scenario, as far as another protocol can carry the same.

use super::{ExchangePlan, Protocol};
use crate::load::LoadPlan;
use crate::load::plan::{Begin, ClientGroup, Filler, Publishing, Ramp, Role, Size, Subscribing, Transport};

/// A protocol cannot carry a load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("over {protocol} the lab carries no load with {feature}")]
pub struct TranslateError {
    /// The protocol.
    pub protocol: &'static str,
    /// The first feature of the load that it cannot carry.
    pub feature: &'static str,
}

impl ExchangePlan {
    /// The exchange for a plan: the same clients, sizes, rates and guarantees. Topics become one subject or exchange
    /// for all, or one for each pair.
    ///
    /// # Errors
    /// For the first feature that an exchange does not support.
    pub fn of(plan: &LoadPlan, protocol: Protocol) -> Result<Self, TranslateError> {
        let cannot = |feature| Err(TranslateError { protocol: protocol.name(), feature });
        let (mut publishers, mut subscribers) = (Vec::new(), Vec::new());
        for group in &plan.groups {
            if !group.disturbances.is_empty() {
                return cannot("disturbances");
            }
            match &group.role {
                Role::Publisher(publishing) => publishers.push((group, publishing)),
                Role::Subscriber(subscribing) => subscribers.push((group, subscribing)),
                _ => return cannot("clients that answer, pass on, or only wait"),
            }
        }
        let ([(publisher, publishing)], [(subscriber, subscribing)]) = (&*publishers, &*subscribers) else {
            return cannot("other than one group that publishes and one that subscribes");
        };
        if let Some(feature) = beyond(plan, publishing, subscribing) {
            return cannot(feature);
        }
        let Size::Fixed(size) = publishing.payload.size else { return cannot("payloads of several sizes") };
        let Some(pairs) = shape(publisher, publishing, subscriber, subscribing) else {
            return cannot("topics other than one for all, or one for each pair");
        };
        let acknowledged = match (publishing.qos, subscribing.qos) {
            (0, 0) => false,
            (1, 1) if protocol.acknowledges() => true,
            (1, 1) => return cannot("acknowledgements, which this protocol has not"),
            _ => return cannot("QoS 2, or another quality of service one way than the other"),
        };
        Ok(Self {
            protocol,
            host: plan.target.host.clone(),
            port: plan.target.port,
            path: plan.target.path.trim_start_matches('/').to_owned(),
            tls: plan.target.transport == Transport::Tls,
            credentials: plan.target.credentials.clone(),
            topic: "lab".to_owned(),
            publishers: publisher.count,
            subscribers: subscriber.count,
            pairs,
            size,
            pace: publishing.pace,
            messages: publishing.messages,
            acknowledged,
            warm_up_ms: plan.warm_up_ms,
            duration_ms: plan.duration_ms,
            connect_timeout_ms: plan.connect_timeout_ms,
            drain_ms: plan.drain_ms,
            seed: plan.seed,
            deadline_ms: plan.deadline_ms,
        })
    }
}

/// The first feature of the plan that an exchange does not support.
fn beyond(plan: &LoadPlan, publishing: &Publishing, subscribing: &Subscribing) -> Option<&'static str> {
    let asked = [
        (
            plan.ramp != Ramp::AtOnce || plan.teardown_per_second.is_some(),
            "clients that come or leave one after the other",
        ),
        (plan.begin != Begin::WhenReady, "messages before all clients are there"),
        (plan.workers() > 1 || !plan.sources.is_empty(), "several processes or addresses of clients"),
        (publishing.retain, "retained messages"),
        (publishing.expiry_s.is_some(), "messages that expire"),
        (
            publishing.payload.filler != Filler::Zeros || publishing.payload.record.is_some(),
            "payloads other than zeros",
        ),
        (subscribing.shared.is_some(), "shared subscriptions"),
        (subscribing.slow.is_some(), "slow readers"),
    ];
    asked.into_iter().find_map(|(is_asked, feature)| is_asked.then_some(feature))
}

/// Whether the plan has pairs, or all subscribers get all messages; `None` for neither.
fn shape(
    publisher: &ClientGroup,
    publishing: &Publishing,
    subscriber: &ClientGroup,
    subscribing: &Subscribing,
) -> Option<bool> {
    let (pattern, [filter]) = (publishing.topics.pattern.as_str(), &*subscribing.filters) else { return None };
    if publishing.topics.count != 1 {
        return None;
    }
    if pattern == filter && pattern.contains("{client}") && publisher.count == subscriber.count {
        return Some(true);
    }
    let prefix = filter.strip_suffix('#');
    let takes_all = prefix.is_some_and(|prefix| !prefix.contains(['{', '+']) && pattern.starts_with(prefix));
    (takes_all || (pattern == filter && !pattern.contains(['{', '+']))).then_some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan::{Disturbance, Pace, Payload, Target, Topics};

    fn plan(topic: &str, filter: &str, qos: u8) -> LoadPlan {
        let publishing = Publishing {
            topics: Topics::one(topic),
            qos,
            retain: false,
            payload: Payload::fixed(100),
            pace: Pace::Closed { window: 10 },
            messages: Some(5),
            expiry_s: None,
        };
        let mut plan = LoadPlan::new(Target::tcp("localhost", 4222), 1000);
        plan.groups = vec![
            ClientGroup::new("subscribers", 3, Role::Subscriber(Subscribing::to(filter, qos))),
            ClientGroup::new("publishers", 3, Role::Publisher(publishing)),
        ];
        plan
    }

    #[test]
    fn one_topic_for_all_and_one_for_each_pair_are_carried() {
        for (topic, filter, pairs) in
            [("a/b", "a/b", false), ("a/{client}", "a/#", false), ("a/{client}", "a/{client}", true)]
        {
            let exchange = ExchangePlan::of(&plan(topic, filter, 0), Protocol::Nats).unwrap();
            assert_eq!((exchange.pairs, exchange.size, exchange.publishers), (pairs, 100, 3), "{topic} {filter}");
            exchange.validate().unwrap();
        }
    }

    #[test]
    fn guarantees_are_the_same_or_there_is_no_exchange() {
        assert!(ExchangePlan::of(&plan("a", "a", 1), Protocol::Amqp091).unwrap().acknowledged);
        for (protocol, qos) in [(Protocol::Nats, 1), (Protocol::ZeroMq, 1), (Protocol::Amqp091, 2)] {
            assert!(ExchangePlan::of(&plan("a", "a", qos), protocol).is_err(), "{protocol:?} {qos}");
        }
    }

    #[test]
    fn an_unsupported_feature_is_reported() {
        let mut disturbed = plan("a", "a", 0);
        disturbed.groups[0].disturbances.push(Disturbance::Takeover { share: 1.0, at_ms: 1 });
        let mut retained = plan("a", "a", 0);
        if let Role::Publisher(publishing) = &mut retained.groups[1].role {
            publishing.retain = true;
        }
        for (plan, feature) in [
            (disturbed, "disturbances"),
            (retained, "retained"),
            (plan("a/{client}", "a/{client%2}", 0), "topics"),
            (plan("a/{client}", "a/+", 0), "topics"),
        ] {
            let error = ExchangePlan::of(&plan, Protocol::Nats).unwrap_err();
            assert!(error.feature.contains(feature), "{error}");
        }
    }
}
