//! Records of the bus as earlier versions wrote them: each is read with its exact content, and records of
//! the present layout are written again unchanged. A record that changes gets a new file beside the old one.

#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use tidegate_cluster::{Addresses, Advert, Factor, Former, Home, Move, Table, Weight, parts_of_earlier};

/// A record of this repository. `UPDATE_FIXTURES=1` writes one that is missing.
fn record(name: &str, current: &[u8]) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    if std::env::var_os("UPDATE_FIXTURES").is_some() && !path.exists() {
        std::fs::write(&path, [current, b"\n"].concat()).unwrap();
    }
    let read = std::fs::read(&path);
    let mut record = read.unwrap_or_else(|error| panic!("{}: {error}; UPDATE_FIXTURES=1 writes it", path.display()));
    // The end of the last line of the file.
    assert_eq!(record.pop(), Some(b'\n'));
    record
}

fn table() -> Table {
    let mut table = Table {
        epoch: 7,
        lives: BTreeMap::from([("a".into(), 3), ("b".into(), 4)]),
        moves: vec![Move { id: 11, partitions: vec![1, 2, 1_000], from: "a".into(), to: "b".into() }],
        given_up: BTreeMap::from([("c".into(), 8)]),
        ..Table::default()
    };
    let homes = Arc::make_mut(&mut table.homes);
    homes.set(0, Some(Home { node: "a".into(), since: 2, by: None, first: false, former: Vec::new() }));
    let former = vec![Former { node: "c".into(), since: 1, by: Some(5) }];
    for partition in [63, 127, 191, 1_023] {
        let former = former.clone();
        homes.set(partition, Some(Home { node: "b".into(), since: 6, by: Some(9), first: false, former }));
    }
    table
}

/// The table of the fixture of 0.1, which had 64 partitions: each is divided into 16, and moves are called off.
fn table_of_64() -> Table {
    let mut table = Table { homes: Table::default().homes, moves: Vec::new(), ..table() };
    let homes = Arc::make_mut(&mut table.homes);
    for part in parts_of_earlier(0) {
        homes.set(part, Some(Home { node: "a".into(), since: 2, by: None, first: false, former: Vec::new() }));
    }
    let former = vec![Former { node: "c".into(), since: 1, by: Some(5) }];
    for part in parts_of_earlier(63) {
        let former = former.clone();
        homes.set(part, Some(Home { node: "b".into(), since: 6, by: Some(9), first: false, former }));
    }
    table
}

fn advert() -> Advert {
    Advert {
        life: 3,
        incarnation: 12,
        after: Some(2),
        addresses: Addresses {
            cluster: "10.0.0.1:7000".into(),
            relay: "10.0.0.1:7001".into(),
            mqtt: "10.0.0.1:1883".into(),
            admin: String::new(),
        },
        leaving: true,
        stays: false,
        waits: false,
        weight: Weight::USUAL,
        prepares: false,
        prepared: BTreeSet::new(),
        arrived: BTreeSet::from([11]),
        refused: BTreeSet::from([12, 13]),
        kept: true,
        orchestrator: false,
        address_prefix: None,
        group_version: 0,
        balance: None,
        alike: BTreeMap::default(),
        known: Some(Box::new(table())),
        leads: true,
        ended: BTreeMap::from([("c".into(), 8)]),
        restored: BTreeMap::from([(63, 6)]),
    }
}

#[test]
fn a_table_of_0_1_is_read_with_its_exact_content() {
    let bytes = record("table-0.1.json", &table().to_bytes());
    assert_eq!(Table::from_bytes(&bytes).unwrap(), table_of_64());
}

#[test]
fn a_table_of_layout_2_is_read_with_its_exact_content() {
    let bytes = record("table-2.json", &table().to_bytes());
    assert_eq!(Table::from_bytes(&bytes).unwrap(), table());
    assert_eq!(table().to_bytes(), bytes, "it is written as it was");
}

#[test]
fn a_table_with_factors_is_read_as_written() {
    let factors = BTreeMap::from([("a".into(), Factor(1_500)), ("b".into(), Factor(750))]);
    let measured = Table { factors, ..table() };
    let bytes = measured.to_bytes();
    assert!(String::from_utf8_lossy(&bytes).contains("\"factors\":{\"a\":1500,\"b\":750},"));
    assert_eq!(Table::from_bytes(&bytes).unwrap(), measured);
}

#[test]
fn an_advert_with_a_table_of_layout_2_is_read_as_written() {
    let bytes = record("advert-2.json", &advert().to_bytes());
    assert_eq!(Advert::from_bytes(&bytes).unwrap(), advert());
    assert_eq!(advert().to_bytes(), bytes, "it is written as it was");
}

#[test]
fn an_advert_of_an_orchestrator_has_the_version_of_groups() {
    let bytes = Advert { orchestrator: true, group_version: 1, ..advert() }.to_bytes();
    assert!(String::from_utf8_lossy(&bytes).contains("\"orchestrator\":true,\"group_version\":1,"));
    assert_eq!(Advert::from_bytes(&bytes).unwrap().group_version, 1);
}

#[test]
fn an_advert_of_0_1_is_read_with_its_exact_content() {
    let bytes = record("advert-0.1.json", &advert().to_bytes());
    let known = Some(Box::new(table_of_64()));
    assert_eq!(Advert::from_bytes(&bytes).unwrap(), Advert { known, ..advert() });
}

#[test]
fn an_advert_with_a_weight_is_read_as_written() {
    let weighty = Advert { weight: Weight(250), ..advert() };
    let bytes = weighty.to_bytes();
    assert!(String::from_utf8_lossy(&bytes).contains("\"weight\":250,"));
    assert_eq!(Advert::from_bytes(&bytes).unwrap(), weighty);
}
