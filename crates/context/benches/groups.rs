//! The cost of evaluating 100,000 nodes for 50 groups: `cargo bench -p tidegate-context`.

use std::fmt::Write as _;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tidegate_context::groups::{Memberships, NodeTable, read_groups};
use tidegate_context::messages::GroupAdvertisement;
use tidegate_document::FileText;

const NODES: u32 = 100_000;

/// 20 expressions, 10 circles, 5 polygons, 15 thresholds.
fn file() -> String {
    let mut text = "definer = \"bench\"\n".to_owned();
    let mut group = |name: String, rule: String| {
        let _ = writeln!(text, "[[group]]\nname = \"{name}\"\n{rule}");
    };
    for n in 0..20 {
        group(format!("e{n}"), format!("when = \"context.kind == 'k{n}' && context.speed > {n}\""));
    }
    for n in 0..10 {
        group(format!("c{n}"), format!("circle = {{ latitude = 53.{n}, longitude = 10.{n}, radius_m = 5000 }}"));
    }
    for n in 0..5 {
        group(format!("p{n}"), format!("polygon = [[53.{n}, 10.0], [53.{n}, 10.5], [53.9, 10.5], [53.9, 10.0]]"));
    }
    for n in 0..15 {
        group(
            format!("t{n}"),
            format!("threshold = {{ field = \"speed\", above = {}, until = {} }}", n * 8 + 5, n * 8),
        );
    }
    text
}

fn context(node: u32, round: u32) -> String {
    let (speed, minute) = ((node + round * 7) % 130, (node * 31 + round * 3) % 1_000);
    format!(
        r#"{{"latitude":53.{minute:03},"longitude":10.{:03},"speed":{speed},"kind":"k{}","battery":{}}}"#,
        (minute * 7) % 1_000,
        node % 25,
        node % 100
    )
}

fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn main() {
    let definition = match read_groups(&FileText::new("groups.toml", file())) {
        Ok(definition) => Arc::new(definition),
        Err(error) => return eprintln!("the groups of this bench are not valid: {error}"),
    };
    let groups = definition.groups().len() as u32;
    let mut table = NodeTable::new(definition);
    let mut members = Memberships::default();
    let before = memory_kib();
    for round in 0..3 {
        let contexts: Vec<String> = (0..NODES).map(|node| context(node, round)).collect();
        let (began, mut changed): (_, Vec<GroupAdvertisement>) = (Instant::now(), Vec::new());
        for (node, context) in contexts.iter().enumerate() {
            changed.extend(table.context(&format!("node-{node}"), u64::from(round), context.as_bytes()).ok().flatten());
        }
        let took = began.elapsed();
        let applying = Instant::now();
        let applied: usize =
            changed.iter().map(|change| members.apply(change).map_or(0, |changes| changes.len())).sum();
        println!(
            "round {round}: {NODES} nodes x {groups} groups: {:.2} s, {:.1} us per context, {:.2} million rules/s, {} advertised, {applied} applied in {:.2} s",
            took.as_secs_f64(),
            took.as_secs_f64() * 1e6 / f64::from(NODES),
            f64::from(NODES) * f64::from(groups) / took.as_secs_f64() / 1e6,
            changed.len(),
            applying.elapsed().as_secs_f64(),
        );
    }
    let began = Instant::now();
    for node in 0..NODES {
        black_box(table.context(&format!("node-{node}"), 3, context(node, 2).as_bytes()).ok());
    }
    println!("as before: {:.2} us per context", began.elapsed().as_secs_f64() * 1e6 / f64::from(NODES));
    println!("memory of both tables: {} KiB for {} nodes", memory_kib().saturating_sub(before), table.len());
}
