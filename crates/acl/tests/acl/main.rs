//! Decisions of rule files, through the public interface.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod cve;
mod filters;
mod grants;
mod model;
mod mosquitto_file;
mod rules_file;

use std::sync::Arc;

use tidegate_acl::{Compiler, Decision, Effect, Request, Rules, RulesBuilder, Subject};
use tidegate_mqtt::{QoS, TopicFilter, TopicName};

/// The rules of Mosquitto's file.
fn mosquitto(text: &str) -> Arc<Rules> {
    let mut builder = RulesBuilder::new();
    builder.mosquitto_file("acl", text.as_bytes()).unwrap();
    Arc::new(builder.build(Effect::Deny))
}

/// The rules of a file of ours.
fn own(text: &str) -> Arc<Rules> {
    let mut builder = RulesBuilder::new();
    builder.rules_file("rules.toml", text.as_bytes()).unwrap();
    Arc::new(builder.build(Effect::Deny))
}

fn client(client_id: &str) -> Subject<'_> {
    Subject::anonymous(client_id)
}

fn user<'a>(user_name: &'a str, client_id: &'a str) -> Subject<'a> {
    Subject { user_name: Some(user_name), ..Subject::anonymous(client_id) }
}

fn publish(topic: &str) -> Request<'_> {
    Request::Publish { topic: TopicName::new(topic).unwrap(), qos: QoS::AtMostOnce, retain: false }
}

fn subscribe(filter: &str) -> Request<'_> {
    Request::Subscribe { filter: TopicFilter::new(filter).unwrap(), qos: QoS::AtMostOnce }
}

fn receive(topic: &str) -> Request<'_> {
    Request::Receive { topic: TopicName::new(topic).unwrap() }
}

/// Decides in both ways, which must agree.
fn decide(rules: &Arc<Rules>, subject: &Subject<'_>, request: &Request<'_>) -> Decision {
    let compiled = Compiler::new(Arc::clone(rules)).compile(subject).decide(request);
    let explained = rules.explain(subject, request).decision;
    assert_eq!(compiled, explained, "{subject:?} {request:?}");
    compiled
}

/// The allowed requests, of `p TOPIC`, `s FILTER` and `r TOPIC`; `~` behind a subscription whose messages are checked.
fn allowed(rules: &Arc<Rules>, subject: &Subject<'_>, requests: &[&str]) -> String {
    let mut list = Vec::new();
    for text in requests {
        let (action, topic) = text.split_at(2);
        let request = match action {
            "p " => publish(topic),
            "s " => subscribe(topic),
            _ => receive(topic),
        };
        let decision = decide(rules, subject, &request);
        if decision.allowed {
            list.push(format!("{text}{}", if decision.filtered { "~" } else { "" }));
        }
    }
    list.join(", ")
}
