#![expect(clippy::float_cmp, reason = "the numbers are exact in binary")]

use std::time::Duration;

use proptest::prelude::*;

use super::generate::{Day, Ramp, Spikes};
use super::*;
use crate::decide::{Bounds, Level, PolicyName, Settings, Sla};
use crate::load::{SignalSettings, Thresholds};

fn tier(capacity: f64, start: u32) -> TierModel {
    let (boot, subscription) = (Duration::from_secs(25), Duration::from_secs(5));
    TierModel { boot, subscription, ..TierModel::new(capacity, start) }
}

/// Brokers of 100 messages per second that start at the minimum.
fn model(least: u32, most: u32) -> Model {
    Model {
        brokers: tier(100.0, least),
        orchestrators: None,
        sla: Sla::new(Bounds::new(least, most).unwrap(), Bounds::new(1, 50).unwrap(), None).unwrap(),
        settings: Settings::default(),
        deadline: Duration::from_secs(1),
        outstanding: None,
    }
}

fn rates(rates: impl IntoIterator<Item = f64>) -> Trace {
    let rows = rates.into_iter().zip(0_u32..).map(|(rate, time)| Row { time_s: f64::from(time), rate });
    Trace::new(rows.collect()).unwrap()
}

fn of_default(trace: &Trace) -> Report {
    run(trace, &model(1, 1000), PolicyName::Default).unwrap()
}

#[test]
fn metrics_by_hand_of_a_load_that_one_broker_serves() {
    let report = run(&rates([50.0; 100]), &model(1, 1), PolicyName::Brokel).unwrap();
    assert_eq!((report.time_s, report.resource, report.cost, report.efficiency), (100.0, 1.0, 100.0, 1.0));
    assert_eq!((report.missed_s, report.under_provisioned_s, report.longest_wait_s), (0, 0, 0.0));
    // Observed at 15, 30 and so on up to 90.
    assert_eq!(report.observations, Observations { above: 0, within: 6, below: 0 });
    assert_eq!((report.actions.len(), report.over_provisioned), (0, 0.0));
}

#[test]
fn metrics_by_hand_of_a_load_that_is_twice_too_much() {
    // 200/s for 10 s at 100/s: after second k, 100 k wait, which is k s; the last 1000 take 10 s more.
    let report = run(&rates([200.0; 10]), &model(1, 1), PolicyName::Brokel).unwrap();
    assert_eq!((report.time_s, report.resource, report.cost, report.efficiency), (20.0, 1.0, 20.0, 1.0));
    assert_eq!((report.missed_s, report.under_provisioned_s, report.longest_wait_s), (9, 10, 10.0));
}

#[test]
fn metrics_by_hand_of_publishers_that_wait() {
    // 200/s for 10 s at 100/s: 150 are outstanding at most, and the publishers keep the rest of the 2000.
    let report = run(&rates([200.0; 10]), &Model { outstanding: Some(150.0), ..model(1, 1) }, PolicyName::Brokel);
    let report = report.unwrap();
    assert_eq!((report.time_s, report.cost, report.missed_s, report.under_provisioned_s), (20.0, 20.0, 9, 10));
    assert_eq!((report.longest_wait_s, report.dropped), (10.0, 0.0));
    let mut model = model(1, 1);
    (model.brokers.queue_limit, model.outstanding) = (Some(150.0), Some(150.0));
    assert_eq!(run(&rates([200.0; 10]), &model, PolicyName::Brokel).unwrap().dropped, 0.0);
}

#[test]
fn metrics_by_hand_of_two_brokers() {
    // One broker alone takes 20 s for it, two take 10: a speed-up of 2 with 2 resources.
    let report = run(&rates([200.0; 10]), &model(2, 2), PolicyName::Brokel).unwrap();
    assert_eq!((report.time_s, report.resource, report.cost, report.efficiency), (10.0, 2.0, 20.0, 1.0));
    // 200/s at 70 % need 3.
    assert_eq!(report.over_provisioned, 0.0);
}

#[test]
fn resources_are_paid_for_from_the_request_until_they_are_gone() {
    // The study's formula acts on full load at the second observation, 30 s; the broker serves at 60 s.
    let report = run(&rates([100.0; 90]), &model(1, 2), PolicyName::Brokel).unwrap();
    assert_eq!(report.actions.len(), 1);
    let action = &report.actions[0];
    assert_eq!((action.time_s, action.from, action.to, action.level), (30.0, 1, 2, Level::Broker));
    assert_eq!(report.cost, 30.0 + 60.0 * 2.0);
    let times: Vec<(f64, u32, u32)> =
        report.profile.iter().map(|point| (point.time_s, point.brokers, point.brokers_allocated)).collect();
    assert_eq!(times, [(0.0, 1, 1), (30.0, 1, 2), (60.0, 2, 2)]);
}

#[test]
fn messages_beyond_the_queue_limit_are_dropped_and_counted() {
    // 200/s for 10 s at 100/s: 50 may wait, so that 50 are dropped in the first second and 100 in each of the others.
    let mut model = model(1, 1);
    model.brokers.queue_limit = Some(50.0);
    let report = run(&rates([200.0; 10]), &model, PolicyName::Brokel).unwrap();
    assert_eq!((report.dropped, report.time_s, report.longest_wait_s), (950.0, 10.5, 0.5));
}

/// With brokers full at half a second of messages, CPU and backlog only show that there are too few.
#[test]
fn drops_show_the_demand_beyond_a_full_queue() {
    let trace = rates((0..600).map(|time| if time < 60 { 50.0 } else { 700.0 }));
    let mut model = model(1, 1000);
    model.brokers.queue_limit = Some(50.0);
    let report = run(&trace, &model, PolicyName::Default).unwrap();
    // Drops count although they are no signal: the first growth is to the needed resources.
    assert!(report.dropped < 60_000.0 && report.brokers_at_the_end >= 7, "{report:?}");
}

#[test]
fn memory_alone_can_be_scaled_by() {
    // 10 KiB each: 6,000 messages that wait are 60 MiB, with 16 MiB beside them.
    let mut model = model(1, 4);
    model.brokers.message_memory = 10.0 * 1024.0;
    model.settings.signals =
        SignalSettings { cpu: false, memory: Some(100.0 * 1_048_576.0), ..SignalSettings::default() };
    let calm = run(&rates([100.0; 200]), &model, PolicyName::Consecutive).unwrap();
    assert_eq!(calm.actions.len(), 0, "{:?}", calm.actions);
    let report = run(&rates([200.0; 200]), &model, PolicyName::Consecutive).unwrap();
    // 5,530 messages are 54 MiB: the observations at 60, 75 and 90 s are above 70 %.
    assert_eq!((report.actions[0].time_s, report.actions[0].to), (90.0, 2), "{:?}", report.actions);
    assert!(report.actions[0].reason.contains("memory"), "{:?}", report.actions[0].reason);
}

#[test]
fn one_peak_above_40_percent_is_a_false_positive_of_the_study() {
    let peak = |base: f64| rates((0..600).map(|time| if (300..315).contains(&time) { 100.0 } else { base }));
    let tripped = run(&peak(42.0), &model(1, 10), PolicyName::Brokel).unwrap();
    // The study's then removes the broker again, whose load has halved.
    assert_eq!((tripped.actions.len(), tripped.false_positives), (2, 1));
    assert_eq!((tripped.actions[0].time_s, tripped.actions[0].justified), (315.0, Some(false)));
    let quiet = run(&peak(38.0), &model(1, 10), PolicyName::Brokel).unwrap();
    assert_eq!(quiet.actions.len(), 0);
    assert_eq!(of_default(&peak(42.0)).actions.len(), 0);
}

#[test]
fn growth_that_a_lasting_load_needs_is_no_false_positive() {
    for policy in PolicyName::ALL {
        let step = rates((0..400).map(|time| if time < 300 { 50.0 } else { 150.0 }));
        let report = run(&step, &model(1, 2), policy).unwrap();
        assert_eq!((report.actions.len(), report.false_positives), (1, 0), "{policy}");
    }
}

#[test]
fn the_default_has_no_false_positive_on_the_suite() {
    let outcome = suite::spikes(PolicyName::Default).unwrap();
    assert_eq!((outcome.traces, outcome.false_positives), (288, 0));
}

/// Peaks of 20 s, four times as high as what serves.
fn peaks(every_s: u64, count: u64) -> Trace {
    let duration_s = every_s * count + every_s / 2;
    Spikes { base: 50.0, height: 400.0, length_s: 20, every_s, duration_s }.trace().unwrap()
}

#[test]
fn the_default_is_late_only_until_peaks_have_a_rhythm() {
    let (few, many) = (of_default(&peaks(307, 4)), of_default(&peaks(307, 40)));
    assert_eq!(few.actions.iter().filter(|action| action.time_s < 4.0 * 307.0).count(), 0, "{:?}", few.actions);
    assert!(few.missed_s > 0);
    assert_eq!((many.missed_s, many.false_positives), (few.missed_s, 0));
    assert_eq!(many.actions.len(), 1, "the brokers stay between the peaks: {:?}", many.actions);
}

#[test]
fn brokers_for_rare_peaks_come_with_each_of_them() {
    let (few, many) = (of_default(&peaks(3600, 4)), of_default(&peaks(3600, 10)));
    assert_eq!((many.missed_s, many.false_positives, many.regretted_shrinks), (few.missed_s, 0, 0));
    assert_eq!(many.actions.iter().filter(|action| action.to > action.from).count(), 6);
    assert!(many.resource < 1.5, "{}", many.resource);
}

#[test]
fn brokers_for_peaks_that_come_no_more_are_removed() {
    let calm = std::iter::repeat_n(50.0, 3600);
    let report = of_default(&rates(peaks(307, 8).rows().iter().map(|row| row.rate).chain(calm)));
    assert_eq!((report.actions.len(), report.brokers_at_the_end), (2, 1), "{:?}", report.actions);
}

/// The study's 90,000 records, which come at the rate of 6.3 brokers, and its interval of 15 s: time and cost of one
/// Mosquitto, of a fixed fleet, and of one that begins with one broker.
#[test]
fn a_growing_fleet_is_fast_and_costs_as_a_fixed_one() {
    let (capacity, rate) = (700.0 / 30.0, 4400.0 / 30.0);
    let trace = rates([rate; 614]);
    let of = |policy, upper, least, most, outstanding| {
        let mut model = Model { outstanding, ..model(least, most) };
        model.brokers = TierModel { boot: Duration::from_secs(15), ..TierModel::new(capacity, least) };
        model.settings.thresholds = Thresholds::new(0.3, upper).unwrap();
        run(&trace, &model, policy).unwrap()
    };
    let alone = of(PolicyName::Brokel, 0.7, 1, 1, None);
    // The study's publishers have 800 messages unacknowledged.
    let waiting = Some(800.0);
    for (policy, upper, most, fixed, outstanding) in [
        (PolicyName::Brokel, 0.7, 6, 6, None),
        (PolicyName::Brokel, 0.9, 10, 7, waiting),
        (PolicyName::Default, 0.7, 6, 6, None),
        (PolicyName::Default, 0.9, 10, 7, waiting),
    ] {
        let elastic = of(policy, upper, 1, most, outstanding);
        let fixed = of(policy, upper, fixed, fixed, outstanding);
        assert!(elastic.time_s <= 0.2 * alone.time_s, "{policy}: {} s of {} s", elastic.time_s, alone.time_s);
        assert!(elastic.cost <= 1.1 * fixed.cost, "{policy}: {} and {}", elastic.cost, fixed.cost);
    }
}

#[test]
fn the_default_serves_a_step_sooner_than_the_hpa_and_for_less() {
    let of = |policy| suite::rise(policy, 0).unwrap();
    let (ours, hpa, stabilised) = (of(PolicyName::Default), of(PolicyName::Hpa), of(PolicyName::HpaStabilised));
    assert!(ours.under_provisioned_s < hpa.under_provisioned_s, "{ours:?} {hpa:?}");
    assert!(ours.missed_s < hpa.missed_s && ours.cost < hpa.cost, "{ours:?} {hpa:?}");
    assert!(ours.first_action_s < stabilised.first_action_s, "{ours:?} {stabilised:?}");
}

#[test]
fn the_default_grows_at_once_to_the_need_of_a_step() {
    let report = of_default(&rates((0..1500).map(|time| if time < 300 { 50.0 } else { 700.0 })));
    let first = &report.actions[0];
    assert_eq!((first.time_s, first.from, first.to), (330.0, 1, 10));
    assert_eq!((report.brokers_at_the_end, report.under_provisioned_s), (10, 60));
    assert!(report.missed_s < 240, "{}", report.missed_s);
}

#[test]
fn the_default_does_nothing_about_loads_that_suit() {
    for rate in [0.0, 10.0, 50.0, 70.0, 75.0] {
        assert_eq!(of_default(&rates(std::iter::repeat_n(rate, 3600))).actions.len(), 0, "{rate}");
    }
}

#[test]
fn the_default_follows_a_day() {
    let day = Day { low: 50.0, high: 2000.0, days: 2, step_s: 15, noise: 0.03, seed: 1 }.trace().unwrap();
    let mut model = model(1, 1000);
    model.brokers.start = 10;
    let report = run(&day, &model, PolicyName::Default).unwrap();
    assert_eq!((report.false_positives, report.regretted_shrinks, report.missed_s), (0, 0, 0));
    // A fleet of the size that the highest load needs at 70 % costs 29 brokers all the time.
    assert!(report.cost < 0.6 * 29.0 * 172_800.0, "{}", report.cost);
    assert!(report.actions.len() < 120, "{}", report.actions.len());
}

#[test]
fn the_default_shrinks_to_the_minimum_without_growing_again() {
    let mut model = model(1, 1000);
    model.brokers.start = 12;
    let fall = Ramp { low: 20.0, high: 800.0, rise_s: 600, hold_s: 1200 }.trace().unwrap();
    let falling: Vec<Row> = fall.rows().iter().skip(1800).copied().collect();
    let report = run(&Trace::new(falling).unwrap(), &model, PolicyName::Default).unwrap();
    assert!(report.actions.iter().all(|action| action.to < action.from));
    assert_eq!((report.brokers_at_the_end, report.regretted_shrinks, report.missed_s), (1, 0, 0));
}

#[test]
fn clients_move_no_more_than_it_takes_to_share_the_load_evenly() {
    let still = of_default(&rates(std::iter::repeat_n(50.0, 3600)));
    assert_eq!(still.handovers_per_client_hour.to_bits(), 0.0_f64.to_bits());
    // From 1 broker to 12 eleven twelfths move, from 12 to 9 a quarter, and none for new orchestrators.
    let point = |brokers, orchestrators| ProfilePoint {
        time_s: 0.0,
        brokers,
        brokers_allocated: 12,
        orchestrators,
        orchestrators_allocated: 2,
    };
    let moved = super::run::moved(&[point(1, 1), point(12, 1), point(12, 2), point(9, 2)]);
    assert!((moved - (11.0 / 12.0 + 0.25)).abs() < 1e-12, "{moved}");
    // A policy that grows and shrinks with each peak moves all clients again and again.
    let peaks = rates((0..3600).map(|second| if second % 300 < 60 { 300.0 } else { 50.0 }));
    let of = |policy| run(&peaks, &model(1, 1000), policy).unwrap().handovers_per_client_hour;
    assert!(of(PolicyName::Brokel) > of(PolicyName::Default) + 1.0);
}

#[test]
fn the_default_does_not_flap_on_noise_around_a_threshold() {
    for (base, start) in [(65.0, 1), (70.0, 1), (75.0, 2), (80.0, 2), (210.0, 3), (230.0, 4), (700.0, 10)] {
        let mut random = random::Random::new(7);
        let noise = rates((0..4 * 3600).map(|_| (base * (1.0 + 0.15 * random.normal())).max(0.0)));
        let mut model = model(1, 1000);
        model.brokers.start = start;
        let report = run(&noise, &model, PolicyName::Default).unwrap();
        assert!(report.actions.len() <= 2, "{base}: {:?}", report.actions);
    }
}

#[test]
fn both_levels_follow_the_load_within_the_maximum_of_all() {
    let mut model = model(1, 50);
    model.orchestrators = Some(tier(300.0, 1));
    let trace = Ramp { low: 50.0, high: 900.0, rise_s: 300, hold_s: 900 }.trace().unwrap();
    let report = run(&trace, &model, PolicyName::Default).unwrap();
    let most = |count: fn(&ProfilePoint) -> u32| report.profile.iter().map(count).max().unwrap();
    assert!(report.actions.iter().any(|action| action.level == Level::Orchestrator));
    assert!(most(|point| point.brokers) >= 10 && (4..8).contains(&most(|point| point.orchestrators)));
    let bounds = Bounds::new(1, 50).unwrap();
    model.sla = Sla::new(bounds, bounds, Some(8)).unwrap();
    let report = run(&trace, &model, PolicyName::Default).unwrap();
    let all = |point: &ProfilePoint| point.brokers_allocated + point.orchestrators_allocated;
    assert_eq!(report.profile.iter().map(all).max(), Some(8));
}

#[test]
fn millions_of_messages_and_thousands_of_brokers_are_simulated() {
    let trace = Ramp { low: 100_000.0, high: 5_000_000.0, rise_s: 600, hold_s: 600 }.trace().unwrap();
    let mut model = model(1, 20_000);
    model.brokers = tier(500.0, 300);
    let report = run(&trace, &model, PolicyName::Default).unwrap();
    assert!((14_000..=20_000).contains(&report.most_brokers), "{}", report.most_brokers);
    assert_eq!(report.false_positives, 0);
}

#[test]
fn models_that_make_no_sense_are_refused() {
    let trace = rates([1.0; 10]);
    let problem = |change: fn(&mut Model)| {
        let mut model = model(1, 10);
        change(&mut model);
        run(&trace, &model, PolicyName::Default).unwrap_err().to_string()
    };
    assert!(
        problem(|model| model.brokers.capacity = 0.0).starts_with("a capacity of 0 messages/s at the broker level")
    );
    assert!(
        problem(|model| model.brokers.queue_limit = Some(-1.0)).starts_with("a queue limit of -1 at the broker level")
    );
    assert!(problem(|model| model.settings.signals.loop_lag = Some(Duration::from_secs(1))).contains("no loop_lag"));
    assert!(problem(|model| model.brokers.start = 11).starts_with("11 brokers at the start are outside"));
    assert!(problem(|model| model.outstanding = Some(0.0)).contains("0 outstanding messages send nothing"));
    assert!(
        problem(|model| model.settings.interval = Duration::from_millis(1500)).contains("no whole number of seconds")
    );
}

#[test]
fn a_drawing_has_a_panel_for_each_policy_and_is_well_formed() {
    let trace = Ramp { low: 50.0, high: 700.0, rise_s: 300, hold_s: 600 }.trace().unwrap();
    let reports = [PolicyName::Default, PolicyName::Hpa].map(|policy| run(&trace, &model(1, 50), policy).unwrap());
    let drawing = svg::draw(&trace, 100.0, &reports);
    for text in [">default<", ">hpa<", "brokers serving", "time (min)", "resources</text>"] {
        assert!(drawing.contains(text), "{text}");
    }
    assert_eq!(drawing.matches("<text").count(), drawing.matches("</text>").count());
    assert_eq!(drawing.matches("<polygon").count(), 2);
    // Two lines in each panel, and their signs in the legend.
    assert_eq!(drawing.matches("<polyline").count(), 2 * 2 + 2);
    assert!(!drawing.contains("NaN") && !drawing.contains("inf"));
}

#[test]
fn shapes_that_make_no_sense_are_refused() {
    let ramp = Ramp { low: 50.0, high: 700.0, rise_s: 300, hold_s: 600 };
    assert!(Ramp { low: -1.0, ..ramp }.trace().is_err());
    assert!(Ramp { hold_s: 0, ..ramp }.trace().is_err());
    assert!(Ramp { hold_s: 100_000_000, ..ramp }.trace().is_err());
    let spikes = Spikes { base: 1.0, height: 2.0, length_s: 30, every_s: 60, duration_s: 600 };
    assert!(Spikes { length_s: 60, ..spikes }.trace().is_err());
    let day = Day { low: 1.0, high: 2.0, days: 1, step_s: 60, noise: 0.0, seed: 1 };
    assert!(Day { noise: 2.0, ..day }.trace().is_err());
    assert_eq!(day.trace().unwrap().highest_rate(), 2.0);
}

/// Policies that the page leaves out; `tidegate fleet simulate --suite` prints all.
const NOT_ON_THE_PAGE: [&str; 7] =
    ["brokel-window", "consecutive", "live", "hpa-stabilised", "holt-winters", "holt-winters-preview", "latency"];

/// The two tables of the page, between the lines that mark them. Set `UPDATE_DOCS=1` to rewrite them.
#[test]
fn the_tables_of_the_page_are_current() {
    check_page(["<!-- written by a test: UPDATE_DOCS=1 -->\n", "<!-- until here -->\n"], &suite::tables().unwrap());
}

/// Compares the text between two marks of the page with `tables`, or replaces it.
fn check_page(marks: [&str; 2], tables: &str) {
    static PAGE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one_writer = PAGE.lock().unwrap();
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/elasticity.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(marks[0]).unwrap();
    let (written, after) = rest.split_once(marks[1]).unwrap();
    let is_left_out = |line: &str| NOT_ON_THE_PAGE.iter().any(|policy| line.contains(&format!("| `{policy}` |")));
    let rows: String = tables.split_inclusive('\n').filter(|line| !is_left_out(line)).collect();
    let tables = format!("\n{rows}\n");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, [before, marks[0], &tables, marks[1], after].concat()).unwrap();
    } else {
        assert!(written == tables, "docs/elasticity.md is not current: run the test with UPDATE_DOCS=1");
    }
}

static WORKLOADS: std::sync::LazyLock<Vec<(workloads::Family, workloads::Outcomes)>> =
    std::sync::LazyLock::new(|| workloads::outcomes().unwrap());

/// The bounds of the table of workloads: against HPA, the default is late for at most 1.2 times as long at no more
/// cost, grows needlessly no more often, and to no more than twice what serves the load; a forecast adds no needless
/// growth.
#[test]
fn policies_keep_to_the_bounds_of_the_workloads() {
    use workloads::{Family, WorkloadOutcome};
    for (family, outcomes) in &*WORKLOADS {
        let of = |policy: PolicyName| -> WorkloadOutcome {
            outcomes.iter().find(|(name, _)| *name == policy).map(|(_, outcome)| *outcome).unwrap()
        };
        let (ours, hpa, ahead) = (of(PolicyName::Default), of(PolicyName::Hpa), of(PolicyName::HoltWinters));
        let found = format!("{}: {ours:?} {hpa:?} {ahead:?}", family.name());
        assert!(ours.cost <= hpa.cost && ours.overshoot <= 2.0 && ahead.overshoot <= 2.0, "{found}");
        assert!(ours.false_positives <= hpa.false_positives, "{found}");
        assert!(ahead.false_positives <= ours.false_positives && ahead.late_s <= ours.late_s, "{found}");
        match family {
            // A policy that does not grow for a short peak is late for each peak until it knows their rhythm: for the
            // first four of 22. HPA is late for the first one.
            Family::Spikes => assert!(ours.false_positives == 0 && ours.late_s * 2 <= hpa.late_s * 7, "{found}"),
            _ => assert!(ours.late_s * 5 <= hpa.late_s * 6, "{found}"),
        }
    }
}

/// CPU and backlog of brokers do not show messages that publishers keep.
#[test]
fn the_default_serves_publishers_that_wait_as_soon_as_hpa() {
    use workloads::{Family, Publishers, outcome};
    for family in [Family::Ramps, Family::Sawtooths, Family::Squares, Family::WorkingDays] {
        let of = |policy| outcome(policy, family, Publishers::Wait).unwrap();
        let (ours, hpa) = (of(PolicyName::Default), of(PolicyName::Hpa));
        let found = format!("{}: {ours:?} {hpa:?}", family.name());
        assert!(ours.late_s * 5 <= hpa.late_s * 6 && ours.cost <= 1.01 * hpa.cost, "{found}");
    }
}

/// The table of workloads on the page. Set `UPDATE_DOCS=1` to rewrite it.
#[test]
fn the_table_of_workloads_is_current() {
    check_page(
        ["<!-- workloads, written by a test: UPDATE_DOCS=1 -->\n", "<!-- until here: workloads -->\n"],
        &workloads::table(&WORKLOADS),
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Peaks of up to 30 s, at any time between observations and of any shape, over a base of up to 65 %: fewer than can
    /// have a rhythm.
    #[test]
    fn the_default_does_nothing_about_peaks(
        fleet in 1_u32..8,
        base in 0.1..0.65_f64,
        peaks in prop::collection::vec((90_usize..400, 15_usize..=30, 0.7..3.0_f64, any::<bool>()), 1..4),
        (boot, interval) in (0_u64..90, 5_u64..=20),
    ) {
        let full = f64::from(fleet) * 100.0;
        let mut offered = vec![base * full; 120];
        for (gap, length, height, triangle) in peaks {
            let rises = (1..=length).map(|second| {
                let part = if triangle { second as f64 / length as f64 } else { 1.0 };
                (base + (height - base).max(0.0) * part) * full
            });
            offered.extend(rises);
            offered.extend(std::iter::repeat_n(base * full, gap));
        }
        let mut model = model(fleet, 100);
        model.brokers.boot = Duration::from_secs(boot);
        model.settings.interval = Duration::from_secs(interval);
        let report = run(&rates(offered), &model, PolicyName::Default).unwrap();
        prop_assert!(report.actions.is_empty(), "{:?}", report.actions);
    }

    /// Whatever comes, the profile stays within the agreement, and the same inputs give the same report.
    #[test]
    fn profiles_stay_within_the_agreement(
        place in 0..PolicyName::ALL.len(),
        (least, most) in (1_u32..4, 4_u32..12),
        steps in prop::collection::vec((0.0..3000.0_f64, 1_usize..200), 2..20),
    ) {
        let offered = steps.into_iter().flat_map(|(rate, seconds)| std::iter::repeat_n(rate, seconds));
        let trace = rates(offered.chain([0.0, 0.0]));
        let report = run(&trace, &model(least, most), PolicyName::ALL[place]).unwrap();
        for point in &report.profile {
            prop_assert!(point.brokers >= 1 && point.brokers_allocated <= most, "{point:?}");
            prop_assert!(point.brokers_allocated >= least);
        }
        prop_assert!(report.cost >= 0.0 && report.resource <= f64::from(most) + 1e-9);
        let again = run(&trace, &model(least, most), PolicyName::ALL[place]).unwrap();
        prop_assert_eq!(report, again);
    }
}
