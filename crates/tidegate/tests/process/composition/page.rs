//! The page `docs/composition.md`.

use std::fmt::Write;
use std::path::PathBuf;

use super::features::Feature::{self, *};
use super::{BROKER, FLEET};

/// A test, and the features that it uses together.
type Covered = (&'static str, &'static [Feature]);

/// Tests elsewhere that use features together.
const ELSEWHERE: [Covered; 3] = [
    ("machines_are_made_healed_and_removed_by_commands", &[Orchestrator, Manager, Machines]),
    ("a_fleet_comes_up_carries_messages_heals_and_goes", &[Orchestrator, Manager, Store, Console]),
    ("an_existing_broker_joins_a_named_orchestrator", &[Orchestrator, Manager, Dns]),
];

/// Reasons of pairs that no test uses together: the first that fits counts.
const REASONS: [(&[Feature], &[Feature], &str); 5] = [
    (&[Embedded, Nats], &[Nats, Kafka], "a cluster has one bus"),
    (&[Embedded], &[Kubernetes], "it connects processes of one machine"),
    (&[Kubernetes], &[Manager], "a manager of processes starts no pods"),
    (&[Kubernetes], &[Machines], "a fleet has machines or pods"),
    (&[Kubernetes], &[Dns], "a Service of Kubernetes has the name of the pods"),
];

/// The scenarios of this test and the others.
fn tests() -> Vec<(&'static str, Vec<Feature>)> {
    let scenarios: [(&str, &[Feature]); 8] = [
        ("one_broker_has_everything_at_once", &[]),
        ("an_orchestrator_has_everything_at_once", &[Orchestrator]),
        ("a_cluster_on_the_embedded_bus_has_everything_at_once", &[Embedded]),
        ("a_cluster_on_nats_has_everything_at_once", &[Nats]),
        ("an_orchestrator_cluster_has_everything_at_once", &[Orchestrator, Embedded]),
        ("an_orchestrator_cluster_on_nats_has_everything_at_once", &[Orchestrator, Nats]),
        ("a_cluster_on_kafka_has_everything_at_once", &[Kafka]),
        ("an_orchestrator_cluster_on_kafka_has_everything_at_once", &[Orchestrator, Kafka]),
    ];
    let mut tests: Vec<_> = scenarios.map(|(name, more)| (name, [&BROKER[..], more].concat())).into();
    let kubernetes = [Kubernetes];
    let others: [(&str, &[Feature], Feature); 5] = [
        ("a_fleet_has_everything_at_once", &FLEET, Embedded),
        ("a_fleet_on_nats_has_everything_at_once", &FLEET, Nats),
        ("a_fleet_on_kafka_has_everything_at_once", &FLEET, Kafka),
        ("a_chart_on_nats_has_everything_at_once", &kubernetes, Nats),
        ("a_chart_on_kafka_has_everything_at_once", &kubernetes, Kafka),
    ];
    let fleets = others.map(|(name, more, bus)| (name, [&BROKER[..], &[Orchestrator], more, &[bus]].concat()));
    tests.extend(fleets);
    tests.extend(ELSEWHERE.map(|(name, features)| (name, features.to_vec())));
    tests
}

/// The reason of a pair that no test uses together.
fn reason(one: Feature, other: Feature) -> Option<&'static str> {
    let fits =
        |a: &[Feature], b: &[Feature]| a.contains(&one) && b.contains(&other) || a.contains(&other) && b.contains(&one);
    REASONS.iter().find(|(a, b, _)| fits(a, b)).map(|(_, _, reason)| *reason)
}

/// Why two features do not work together, if they do not.
fn block_reason(tests: &[(&str, Vec<Feature>)], one: Feature, other: Feature) -> Option<&'static str> {
    if one == other || tests.iter().any(|(_, features)| features.contains(&one) && features.contains(&other)) {
        return None;
    }
    let reason = reason(one, other);
    Some(reason.unwrap_or_else(|| panic!("no test and no reason for {} with {}", one.name(), other.name())))
}

fn names(features: &[Feature]) -> String {
    features.iter().map(|feature| feature.name()).collect::<Vec<_>>().join(", ")
}

/// The features of `all` that are not in `some`.
fn without(all: &[Feature], some: &[Feature]) -> Vec<Feature> {
    all.iter().copied().filter(|feature| !some.contains(feature)).collect()
}

/// A row for each pair that does not work together.
fn table(tests: &[(&str, Vec<Feature>)]) -> String {
    let mut rows = String::from("| feature | not with | because |\n| --- | --- | --- |\n");
    for (at, one) in Feature::ALL.into_iter().enumerate() {
        for other in Feature::ALL.into_iter().skip(at + 1) {
            if let Some(reason) = block_reason(tests, one, other) {
                writeln!(rows, "| {} | {} | {reason} |", one.name(), other.name()).unwrap();
            }
        }
    }
    rows
}

/// The features of a test, compared with the first test.
fn compared(first: &[Feature], features: &[Feature]) -> String {
    let (missing, more) = (without(first, features), without(features, first));
    match (missing.is_empty(), more.is_empty()) {
        _ if missing.len() > 6 => names(features),
        (true, true) => "the same".to_owned(),
        (true, false) => format!("the same, with {}", names(&more)),
        (false, _) => format!("the same without {}, with {}", names(&missing), names(&more)),
    }
}

fn page() -> String {
    let tests = tests();
    let mut page = String::from(
        "# Composition\n\nWhich features work together, in one process or over all processes of a cluster. A test writes this page:\n\n    \
         UPDATE_DOCS=1 cargo test -p tidegate --test process the_page_of_composition\n\n\
         A broker with [tenants](tenants.md) has points of access, groups and applications for its default tenant.\n\n",
    );
    writeln!(page, "The features are: {}. Each two work together, since one of the tests below uses both in the same processes, but for:\n", names(&Feature::ALL)).unwrap();
    page.push_str(&table(&tests));
    page.push_str("\n## Tests\n\n");
    let (first, rest) = tests.split_first().unwrap();
    writeln!(page, "- `{}`: {}", first.0, names(&first.1)).unwrap();
    for (name, features) in rest {
        writeln!(page, "- `{name}`: {}", compared(&first.1, features)).unwrap();
    }
    page
}

/// Each test that the page names is one of these sources.
fn sources() -> String {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/process"));
    let files =
        ["composition/mod.rs", "machines.rs", "up.rs"].map(|file| std::fs::read_to_string(folder.join(file)).unwrap());
    files.concat()
}

#[test]
fn the_page_of_composition_is_current() {
    let sources = sources();
    for (name, _) in tests() {
        assert!(sources.contains(&format!("fn {name}()")), "there is no test {name}");
    }
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/composition.md"));
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/composition.md is not current: run the test with UPDATE_DOCS=1");
}
