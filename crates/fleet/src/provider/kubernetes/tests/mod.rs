//! The provider against a recorded conversation: answers of a real API server, shortened to the fields read and a few
//! more.

mod lies;
mod observing;
mod scaling;
mod server;

use std::collections::BTreeMap;

use self::server::{Exchange, Recorded};
use super::*;
use crate::provider::{Allocation, Look};

const STATEFUL_SET: &str = include_str!("recorded/stateful_set.json");
const SCALE: &str = include_str!("recorded/scale.json");
const SCALE_PUT: &str = include_str!("recorded/scale_put.json");
const SCALE_ZERO: &str = include_str!("recorded/scale_zero.json");
const CONFLICT: &str = include_str!("recorded/conflict.json");
const FORBIDDEN: &str = include_str!("recorded/forbidden.json");
const UNAUTHORIZED: &str = include_str!("recorded/unauthorized.json");
const NOT_FOUND: &str = include_str!("recorded/not_found.json");
const PODS_1: &str = include_str!("recorded/pods_page_1.json");
const PODS_2: &str = include_str!("recorded/pods_page_2.json");
const PODS_GOING: &str = include_str!("recorded/pods_going.json");

const SET_PATH: &str = "/apis/apps/v1/namespaces/messaging/statefulsets/tidegate-broker";
const SCALE_PATH: &str = "/apis/apps/v1/namespaces/messaging/statefulsets/tidegate-broker/scale";
const PODS_PATH: &str = "/api/v1/namespaces/messaging/pods?limit=500&labelSelector=app%3Dtidegate-broker";
const METRICS_PATH: &str =
    "/apis/metrics.k8s.io/v1beta1/namespaces/messaging/pods?limit=500&labelSelector=app%3Dtidegate-broker";

fn settings() -> Settings {
    let set = SetSettings {
        stateful_set: "tidegate-broker".to_owned(),
        container: None,
        port: 1883,
        admin_port: None,
        decided_elsewhere: false,
        login: None,
    };
    Settings {
        namespace: Some("messaging".to_owned()),
        kubeconfig: None,
        context: None,
        cluster_domain: "cluster.local".to_owned(),
        sets: BTreeMap::from([(Level::Broker, set)]),
    }
}

/// A provider that has read its StatefulSet, with the rest of a conversation.
fn opened(exchanges: Vec<Exchange>) -> (Kubernetes, Recorded) {
    let mut all = vec![Exchange::get(SET_PATH, 200, STATEFUL_SET)];
    all.extend(exchanges);
    let recorded = Recorded::play(all);
    let provider = Kubernetes::with(recorded.access(), settings()).unwrap();
    (provider, recorded)
}

fn name(text: &str) -> ResourceName {
    text.parse().unwrap()
}

fn wanted(text: &str) -> Allocation {
    Allocation { name: name(text), level: Level::Broker, template: "tidegate-broker".to_owned(), cores: 1.0 }
}

/// A recorded answer with one text in place of another, which must be there.
fn changed(recorded: &str, from: &str, to: &str) -> String {
    assert!(recorded.contains(from), "{from} is not in the recording");
    recorded.replace(from, to)
}
