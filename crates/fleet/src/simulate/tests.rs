#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::Duration;

use super::generate::{Day, Ramp, Spikes};
use super::*;
use crate::decide::{Bounds, PolicyName, Settings, Sla};

fn model(start: u32, most: u32) -> Model {
    let tier = TierModel {
        capacity: 100.0,
        start,
        boot: Duration::from_secs(20),
        subscription: Duration::from_secs(10),
        drain: Duration::from_secs(15),
    };
    let bounds = Bounds::new(1, most).unwrap();
    Model {
        brokers: tier,
        orchestrators: None,
        sla: Sla::new(bounds, bounds, None).unwrap(),
        settings: Settings::default(),
        deadline: Duration::from_secs(1),
    }
}

fn line(report: &Report) -> String {
    format!(
        "{:22} T {:8.0} R {:7.3} cost {:9.0} E {:.3} missed {:6} under {:5} wait {:7.1} actions {:4} fp {:3} regret {:3} end {}",
        report.policy.name(),
        report.time_s,
        report.resource,
        report.cost,
        report.efficiency,
        report.missed_s,
        report.under_provisioned_s,
        report.longest_wait_s,
        report.actions.len(),
        report.false_positives,
        report.regretted_shrinks,
        report.brokers_at_the_end
    )
}

#[test]
fn explore() {
    let traces = [
        ("step", Ramp { low: 50.0, high: 700.0, rise_s: 0, hold_s: 1800 }.trace().unwrap()),
        ("ramp", Ramp { low: 50.0, high: 700.0, rise_s: 900, hold_s: 1800 }.trace().unwrap()),
        ("spikes", Spikes { base: 60.0, height: 150.0, length_s: 30, every_s: 300, duration_s: 3600 }.trace().unwrap()),
        ("day", Day { low: 100.0, high: 2000.0, days: 2, step_s: 15, noise: 0.05, seed: 1 }.trace().unwrap()),
    ];
    for (name, trace) in &traces {
        println!("{name}");
        for policy in PolicyName::ALL {
            let report = run(trace, &model(1, 1000), policy).unwrap();
            println!("  {}", line(&report));
            if policy == PolicyName::Default && report.actions.len() < 30 {
                for action in &report.actions {
                    println!(
                        "      {} {}->{} {} {:?}",
                        action.time_s, action.from, action.to, action.reason, action.justified
                    );
                }
            }
        }
    }
}

#[test]
fn table() {
    println!("{}", suite::tables().unwrap());
}
