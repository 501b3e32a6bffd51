use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::load::{Cpu, Sample, Signal, SignalSettings, Thresholds};

mod memory;

const INTERVAL_S: u64 = 15;

fn sla(least: u32, most: u32) -> Sla {
    Sla::new(Bounds::new(least, most).unwrap(), Bounds::new(1, 5).unwrap(), None).unwrap()
}

fn cpu(used: f64) -> Sample {
    Sample { cpu: Some(Cpu { used, allocated: 1.0 }), ..Sample::default() }
}

/// CPU, the message rate at 100 messages per second and core, and the backlog.
fn full(used: f64, queued: f64) -> Sample {
    Sample { message_rate: Some(used * 100.0), queued: Some(queued), ..cpu(used) }
}

/// A level under observation, every 15 s.
struct Watched {
    decider: Decider,
    sla: Sla,
    time: u64,
    serving: u32,
    pending: u32,
    leaving: u32,
    lead_time: Option<Duration>,
    /// Milliseconds by which the next observations come early.
    early_ms: u64,
}

impl Watched {
    fn new(name: PolicyName, settings: &Settings, serving: u32) -> Self {
        let (decider, sla) = (Decider::new(name, settings).unwrap(), sla(1, 20));
        Self { decider, sla, time: 0, serving, pending: 0, leaving: 0, lead_time: None, early_ms: 0 }
    }

    fn see(&mut self, samples: &[Sample]) -> Decision {
        self.time += INTERVAL_S;
        let seen = LevelObservation {
            time: Duration::from_millis(1_000 * self.time - self.early_ms),
            level: Level::Broker,
            serving: self.serving,
            pending: self.pending,
            leaving: self.leaving,
            elsewhere: 1,
            lead_time: self.lead_time,
            samples,
        };
        self.decider.decide(&seen, &self.sla)
    }

    fn see_all(&mut self, sample: Sample) -> Decision {
        self.see(&vec![sample; self.serving as usize])
    }
}

fn watched(name: PolicyName, serving: u32) -> Watched {
    Watched::new(name, &Settings::default(), serving)
}

#[test]
fn the_studys_policy_acts_at_the_second_full_observation() {
    let mut level = watched(PolicyName::Brokel, 1);
    let first = level.see_all(cpu(1.0));
    assert_eq!((first.change, first.explanation.rule), (Change::Hold, Rule::WarmingUp));
    let second = level.see_all(cpu(1.0));
    assert_eq!((second.change, second.explanation.value), (Change::Grow(1), Some(0.75)));
    assert_eq!(
        second.reason,
        "load 0.750 is above the upper threshold 0.700 (full aging with factor 0.5, cpu observed 1.000)"
    );
    level.pending = 1;
    let held = level.see_all(cpu(1.0));
    assert_eq!(held.explanation.held_back, [HeldBack::Pending { pending: 1, leaving: 0 }]);
    assert_eq!(held.explanation.wanted, Change::Grow(1));
    (level.pending, level.serving) = (0, 2);
    let rests: Vec<Change> = (0..3).map(|_| level.see_all(cpu(1.0)).change).collect();
    assert_eq!(rests, [Change::Hold, Change::Hold, Change::Grow(1)]);
}

#[test]
fn an_observation_that_comes_early_delays_no_growth() {
    for name in [PolicyName::Default, PolicyName::Latency] {
        let grown_at = |early_ms: &[u64]| {
            let mut level = watched(name, 1);
            level.see_all(full(0.1, 0.0));
            let mut observe = |early| {
                level.early_ms = early;
                level.see_all(full(1.0, 300.0)).change
            };
            early_ms.iter().position(|early| matches!(observe(*early), Change::Grow(_)))
        };
        let exact = grown_at(&[0; 6]);
        assert!(exact.is_some(), "{name}");
        assert_eq!(grown_at(&[0, 40, 20, 30, 10, 20]), exact, "{name}");
        assert_eq!(grown_at(&[0, 1_000, 1_200, 1_400, 1_000, 0]), exact, "{name}");
    }
}

#[test]
fn much_waiting_work_is_no_peak() {
    let settings = Settings::default();
    let decisions = |queued: f64| {
        let mut level = watched(PolicyName::Default, 1);
        level.see_all(full(0.1, 0.0));
        [0; 4].map(|_| level.see_all(full(1.0, queued)).change)
    };
    // Seconds in which one resource, which does 100 messages in each, has work when a new one serves behind a peak.
    let seconds = 2.0 * (settings.lead_time + settings.peak + settings.interval).as_secs_f64();
    let [first, second, ..] = decisions(100.0 * (seconds + 1.0));
    assert_eq!(first, Change::Hold, "one observation may be wrong");
    assert!(matches!(second, Change::Grow(_)), "{second:?}");
    let held = decisions(100.0 * seconds);
    assert_eq!(held[..3], [Change::Hold; 3], "a new resource may come too late for it");
    assert!(matches!(held[3], Change::Grow(_)), "{held:?}");
}

#[test]
fn no_level_shrinks_without_a_signal_or_below_the_minimum() {
    let mut level = watched(PolicyName::Brokel, 2);
    level.see(&[cpu(0.1), cpu(0.1)]);
    let held = level.see(&[cpu(0.1)]);
    assert_eq!(held.explanation.held_back, [HeldBack::MissingSignal { signal: Signal::Cpu }]);
    assert_eq!(level.see(&[cpu(0.1), cpu(0.1)]).change, Change::Shrink(1));
    let mut level = watched(PolicyName::Brokel, 1);
    level.see_all(cpu(0.1));
    assert_eq!(level.see_all(cpu(0.1)).explanation.held_back, [HeldBack::SlaMinimum { least: 1 }]);
}

#[test]
fn no_signal_at_all_is_no_reason_to_act() {
    for name in PolicyName::ALL {
        let mut level = watched(name, 3);
        for _ in 0..100 {
            let decision = level.see(&[]);
            assert_eq!((decision.change, decision.explanation.rule), (Change::Hold, Rule::NoSignal), "{name}");
        }
    }
}

#[test]
fn a_level_outside_its_limits_is_brought_back_at_once() {
    for name in PolicyName::ALL {
        let mut level = watched(name, 2);
        level.sla = sla(4, 6);
        let decision = level.see_all(cpu(0.5));
        assert_eq!((decision.change, decision.explanation.rule), (Change::Grow(2), Rule::SlaMinimum), "{name}");
        level.serving = 9;
        assert_eq!(level.see_all(cpu(0.5)).change, Change::Shrink(3), "{name}");
    }
}

#[test]
fn a_window_drops_older_observations() {
    let mut level = watched(PolicyName::BrokelWindow, 1);
    let changes: Vec<Change> = (0..3).map(|_| level.see_all(cpu(0.9)).change).collect();
    // The mean counts from the third observation on.
    assert_eq!(changes, [Change::Hold, Change::Hold, Change::Grow(1)]);
}

#[test]
fn violations_must_follow_each_other() {
    let mut level = watched(PolicyName::Consecutive, 1);
    let loads = [0.9, 0.9, 0.5, 0.9, 0.9, 0.9];
    let decisions: Vec<Decision> = loads.into_iter().map(|load| level.see_all(cpu(load))).collect();
    assert_eq!(decisions[1].explanation.held_back, [HeldBack::TooFewInARow { run: 2, needed: 3 }]);
    assert_eq!(decisions.iter().position(|decision| decision.change != Change::Hold), Some(5));
}

#[test]
fn live_thresholds_open_when_a_resource_has_arrived() {
    let mut level = watched(PolicyName::Live, 1);
    level.see_all(cpu(1.0));
    assert_eq!(level.see_all(cpu(1.0)).change, Change::Grow(1));
    level.serving = 2;
    let after = level.see_all(cpu(1.0));
    // l = 0.875, so the upper threshold is 0.875 + 0.125 / 2.
    assert_eq!(after.explanation.threshold, Some(0.9375));
    assert_eq!(after.explanation.rule, Rule::Within);
}

#[test]
fn the_hpas_formula_rounds_up_beyond_its_tolerance() {
    let at = |serving: u32, load: f64| watched(PolicyName::Hpa, serving).see_all(cpu(load)).change;
    // ceil(4 * 0.9 / 0.7) = 6.
    assert_eq!(at(4, 0.9), Change::Grow(2));
    // Within 10 % of the target, both ways.
    assert_eq!(at(4, 0.76), Change::Hold);
    assert_eq!(at(4, 0.64), Change::Hold);
    // ceil(10 * 1.0 / 0.7) = 15.
    assert_eq!(at(10, 1.0), Change::Grow(5));
}

#[test]
fn the_hpa_counts_silent_resources_against_acting() {
    let mut level = watched(PolicyName::Hpa, 4);
    // Three at 0.9 and one at 0: 0.675 is within the tolerance.
    assert_eq!(level.see(&[cpu(0.9); 3]).change, Change::Hold);
    // Two that have not started yet count as idle: 3.6 / 6 / 0.7 turns round.
    let mut level = watched(PolicyName::Hpa, 4);
    level.pending = 2;
    assert_eq!(level.see_all(cpu(0.9)).change, Change::Hold);
}

#[test]
fn the_hpa_shrinks_to_its_highest_recent_recommendation() {
    let mut level = watched(PolicyName::Hpa, 10);
    let first = level.see_all(cpu(0.14));
    assert_eq!(first.explanation.wanted, Change::Shrink(8));
    let window = Duration::from_secs(300);
    assert_eq!(first.explanation.held_back, [HeldBack::Stabilisation { recommended: 10, window }]);
    let changes: Vec<Change> = (0..19).map(|_| level.see_all(cpu(0.14)).change).collect();
    assert_eq!(changes.iter().position(|change| *change == Change::Shrink(8)), None);
    assert_eq!(level.see_all(cpu(0.14)).change, Change::Shrink(8));
}

#[test]
fn a_stabilised_hpa_grows_to_its_lowest_recommendation() {
    let mut level = watched(PolicyName::HpaStabilised, 4);
    let changes: Vec<Change> = (0..6).map(|_| level.see_all(cpu(0.9)).change).collect();
    assert_eq!(changes.iter().position(|change| *change == Change::Grow(2)), Some(4));
}

#[test]
fn the_largest_signal_wins() {
    let signals = SignalSettings { waiting: Some(Duration::from_secs(2)), ..SignalSettings::default() };
    let mut level = Watched::new(PolicyName::Hpa, &Settings { signals, ..Settings::default() }, 4);
    let slow = Sample { waiting: Some(Duration::from_secs(2)), ..cpu(0.3) };
    let decision = level.see_all(slow);
    assert_eq!((decision.change, decision.explanation.signal), (Change::Grow(2), Some(Signal::Waiting)));
}

#[test]
fn a_forecast_acts_one_lead_time_ahead() {
    let settings = Settings { season: Duration::from_secs(600), ..Settings::default() };
    // Three seasons of 20 idle and 20 busy observations.
    let seasons = |name| -> Vec<Decision> {
        let mut level = Watched::new(name, &settings, 4);
        (0..100).map(|step| level.see_all(cpu(if step % 40 < 20 { 0.4 } else { 0.95 }))).collect()
    };
    let ahead = seasons(PolicyName::HoltWinters);
    // In the first season nothing is known of the second half. In the third the rise is at observation 100, and a
    // broker takes two observations.
    assert!(ahead[..40].iter().all(|decision| decision.explanation.rule != Rule::Forecast));
    let first = (80..100).find(|step| ahead[*step].explanation.rule == Rule::Forecast);
    assert_eq!(first.map(|step| ahead[step].change), Some(Change::Grow(2)), "{first:?}");
    assert!(first >= Some(95), "{first:?}");
    let shown = seasons(PolicyName::HoltWintersPreview);
    assert!(shown.iter().all(|decision| decision.explanation.rule != Rule::Forecast));
    let held = &shown[first.unwrap()].explanation.held_back;
    assert!(held.iter().any(|held| matches!(held, HeldBack::Preview { .. })), "{held:?}");
}

#[test]
fn a_full_broker_beside_idle_ones_is_not_overlooked() {
    let mut level = watched(PolicyName::Default, 3);
    let mut queued = 0.0;
    let mut skewed = |level: &mut Watched, serving: usize| {
        queued += 50.0;
        let mut samples = vec![full(0.0, 0.0); serving];
        samples[0] = full(1.0, queued);
        level.see(&samples)
    };
    let decisions: Vec<Decision> = (0..4).map(|_| skewed(&mut level, 3)).collect();
    assert!(matches!(decisions[2].explanation.held_back[..], [HeldBack::MayBePeak { .. }]), "{decisions:?}");
    assert_eq!((decisions[3].change, decisions[3].explanation.rule), (Change::Grow(1), Rule::Skew));
    assert_eq!(decisions[3].reason, "messages wait for the hottest of 3, which is at 100 %; the mean is 33 %");
    // Two more do not relieve it: the load is one that cannot be shared.
    level.serving = 4;
    let second = (0..4).map(|_| skewed(&mut level, 4)).last().unwrap();
    assert_eq!(second.change, Change::Grow(1));
    level.serving = 5;
    let third = (0..40).map(|_| skewed(&mut level, 5)).last().unwrap();
    assert_eq!((third.change, third.explanation.held_back), (Change::Hold, vec![HeldBack::Skew]));
}

#[test]
fn growth_for_a_full_broker_counts_when_it_happens() {
    let mut level = watched(PolicyName::Default, 3);
    level.sla = sla(1, 3);
    let mut queued = 0.0;
    let mut skewed = |level: &mut Watched| {
        queued += 50.0;
        let mut samples = vec![full(0.0, 0.0); level.serving as usize];
        samples[0] = full(1.0, queued);
        level.see(&samples)
    };
    for _ in 0..40 {
        let decision = skewed(&mut level);
        assert_eq!(decision.change, Change::Hold);
        assert!(!decision.explanation.held_back.contains(&HeldBack::Skew), "it was not tried: {decision:?}");
    }
    level.sla = sla(1, 20);
    for _ in 0..2 {
        let asked = (0..4).map(|_| skewed(&mut level)).find(|decision| decision.change != Change::Hold);
        assert_eq!(asked.map(|decision| decision.change), Some(Change::Grow(1)));
        level.pending = 1;
        skewed(&mut level);
        (level.pending, level.serving) = (0, level.serving + 1);
    }
    let last = (0..40).map(|_| skewed(&mut level)).last().unwrap();
    assert_eq!((last.change, last.explanation.held_back), (Change::Hold, vec![HeldBack::Skew]));
}

#[test]
fn nothing_is_removed_while_a_broker_is_full() {
    let mut level = watched(PolicyName::Default, 5);
    let mut samples = vec![full(0.0, 0.0); 5];
    samples[0] = full(0.9, 0.0);
    let last = (0..40).map(|_| level.see(&samples)).last().unwrap();
    assert_eq!((last.change, last.explanation.held_back), (Change::Hold, vec![HeldBack::Full { load: 0.9 }]));
}

#[test]
fn growth_is_at_most_twice_the_need_of_the_load() {
    let mut level = watched(PolicyName::Default, 1);
    level.sla = sla(1, 1000);
    level.see_all(full(0.5, 0.0));
    // A peak has left 6 minutes of work for a hundred brokers; the load is 2.5 brokers'.
    let decisions: Vec<Decision> =
        (0..8).map(|step| level.see_all(full(1.0, 34_560.0 + 2_250.0 * f64::from(step)))).collect();
    let most = decisions.iter().map(|decision| decision.change.count()).max();
    assert!((Some(1)..=Some(2 * 4)).contains(&most), "{most:?}");
}

#[test]
fn the_latency_policy_grows_when_messages_wait_too_long() {
    let settings = Settings { latency_target: Duration::from_secs(2), ..Settings::default() };
    let mut level = Watched::new(PolicyName::Latency, &settings, 2);
    let sample = |used: f64, waits: u64| Sample { waiting: Some(Duration::from_secs(waits)), ..full(used, 0.0) };
    assert_eq!(level.see_all(sample(0.8, 1)).change, Change::Hold);
    assert!(matches!(level.see_all(sample(0.8, 3)).explanation.held_back[..], [HeldBack::MayBePeak { .. }]));
    let grown = level.see_all(sample(0.8, 3));
    assert_eq!((grown.change, grown.explanation.rule), (Change::Grow(1), Rule::Latency));
    assert_eq!(grown.reason, "messages wait 3.0 s, the target is 2.0 s: asks for 3");
    level.serving = 3;
    // A demand of 0.9 fits on two at 85 %, once nothing has waited for five minutes.
    let calm: Vec<Change> = (0..40).map(|_| level.see_all(sample(0.3, 0)).change).collect();
    assert_eq!(calm.iter().position(|change| *change == Change::Shrink(1)), Some(20));
}

#[test]
fn the_default_ignores_a_peak_and_grows_by_the_demand() {
    let mut level = watched(PolicyName::Default, 1);
    level.see_all(full(0.5, 0.0));
    // 400/s come, 100/s are handled: 4500 more wait after each 15 s.
    let decisions: Vec<Decision> = (1..=4).map(|step| level.see_all(full(1.0, 4500.0 * f64::from(step)))).collect();
    let (lasted, needed) = (Duration::from_secs(30), Duration::from_secs(45));
    assert_eq!(decisions[2].explanation.held_back, [HeldBack::MayBePeak { lasted, needed }]);
    // A demand of 4 at 70 % needs 6; 18,000 that wait and 9,000 more until it serves, within two minutes, need 7.
    assert_eq!((decisions[3].change, decisions[3].explanation.rule), (Change::Grow(6), Rule::SustainedDemand));
    // The pending resources meet the demand.
    level.pending = 6;
    assert_eq!(level.see_all(full(1.0, 22_500.0)).explanation.rule, Rule::Within);
}

#[test]
fn the_default_does_not_wait_again_when_all_stay_busy() {
    // Publishers wait for acknowledgements, so all that shows is that all brokers are busy.
    let mut level = watched(PolicyName::Default, 1);
    level.see_all(full(0.5, 0.0));
    let changes: Vec<u32> = (0..4).map(|_| level.see_all(full(1.0, 8.0)).change.count()).collect();
    assert_eq!(changes, [0, 0, 0, 1]);
    level.pending = 1;
    assert_eq!(level.see_all(full(1.0, 8.0)).change, Change::Hold);
    // The new one has served for a part of the interval.
    (level.serving, level.pending) = (2, 0);
    assert_eq!(level.see(&[full(1.0, 8.0), full(0.4, 0.0)]).change, Change::Hold);
    assert_eq!(level.see_all(full(1.0, 8.0)).change, Change::Grow(1));
    // One that is not busy shows that there are enough.
    level.serving = 3;
    for _ in 0..2 {
        assert_eq!(level.see(&[full(1.0, 8.0), full(1.0, 8.0), full(0.2, 0.0)]).change, Change::Hold);
    }
    let changes: Vec<u32> = (0..4).map(|_| level.see_all(full(1.0, 8.0)).change.count()).collect();
    assert_eq!(changes[..3], [0, 0, 0]);
}

#[test]
fn a_peak_on_busy_brokers_asks_for_no_more_than_their_work() {
    let grown = || {
        let mut level = watched(PolicyName::Default, 1);
        level.see_all(full(0.5, 0.0));
        let changes: Vec<u32> = (0..4).map(|_| level.see_all(full(1.0, 8.0)).change.count()).collect();
        assert_eq!(changes, [0, 0, 0, 1]);
        level
    };
    // 1200/s more than one broker handles, while another one starts.
    let mut level = grown();
    level.pending = 1;
    assert!(matches!(level.see_all(full(1.0, 18_000.0)).explanation.held_back[..], [HeldBack::MayBePeak { .. }]));
    // The same on two that are busy: their work at 70 % asks for a third, the peak would ask for twenty.
    let mut level = grown();
    level.serving = 2;
    assert_eq!(level.see(&[full(1.0, 8.0), full(0.4, 0.0)]).change, Change::Hold);
    assert_eq!(level.see_all(full(1.0, 9000.0)).change, Change::Grow(1));
    // Brokers that are not busy show their demand, so it must last.
    let mut level = grown();
    level.serving = 2;
    assert_eq!(level.see(&[full(1.0, 8.0), full(0.4, 0.0)]).change, Change::Hold);
    assert!(matches!(level.see_all(full(0.9, 0.0)).explanation.held_back[..], [HeldBack::MayBePeak { .. }]));
}

#[test]
fn the_default_does_not_take_working_off_for_demand() {
    let mut level = watched(PolicyName::Default, 1);
    level.see_all(full(0.6, 0.0));
    // A peak left 3000 waiting; 60/s come and 100/s are handled at full CPU.
    for step in 0..5 {
        assert_eq!(level.see_all(full(1.0, 3000.0 - 600.0 * f64::from(step))).change, Change::Hold, "step {step}");
    }
}

#[test]
fn the_default_acts_ahead_of_a_steady_rise() {
    let mut level = watched(PolicyName::Default, 4);
    let demands = [2.0, 2.2, 2.4, 2.6, 2.8];
    let decisions: Vec<Decision> = demands.into_iter().map(|demand| level.see_all(full(demand / 4.0, 0.0))).collect();
    assert!(decisions[..4].iter().all(|decision| decision.change == Change::Hold));
    // 2.8 and 0.2 more every 15 s make 3.4 in 45 s, more than 4 * 0.77: 3.4 / 0.7 needs 5.
    assert_eq!((decisions[4].change, decisions[4].explanation.rule), (Change::Grow(1), Rule::SteadyRise));
}

#[test]
fn the_default_works_off_the_backlog_of_repeated_peaks() {
    let mut level = watched(PolicyName::Default, 1);
    level.see_all(full(0.5, 0.0));
    // Every other observation is a peak, so none lasts; yet the backlog only grows.
    let mut queued = 0.0;
    let found = (0..80).find_map(|step| {
        queued += if step % 2 == 0 { 6000.0 } else { -600.0 };
        let decision = level.see_all(full(1.0, queued));
        (decision.change != Change::Hold).then_some(decision)
    });
    assert_eq!(found.unwrap().explanation.rule, Rule::Backlog);
}

#[test]
fn the_default_removes_spare_resources_after_five_minutes() {
    let mut level = watched(PolicyName::Default, 10);
    let decisions: Vec<Decision> = (0..21).map(|_| level.see_all(full(0.14, 0.0))).collect();
    // A demand of 1.4 needs 2 of 10.
    let early = &decisions[5];
    assert_eq!((early.change, early.explanation.wanted), (Change::Hold, Change::Shrink(8)));
    assert_eq!(decisions.iter().position(|decision| decision.change != Change::Hold), Some(20));
    assert_eq!(decisions[20].change, Change::Shrink(8));
    level.serving = 4;
    let pause: Vec<Change> = (0..4).map(|_| level.see_all(full(0.35, 0.0)).change).collect();
    assert_eq!(pause, [Change::Hold, Change::Hold, Change::Hold, Change::Shrink(2)]);
}

#[test]
fn a_backlog_or_a_rise_prevents_shrinking() {
    let settled = |last: [Sample; 3]| {
        let mut level = watched(PolicyName::Default, 10);
        for _ in 0..25 {
            level.leaving = 1;
            assert_eq!(level.see_all(full(0.14, 0.0)).change, Change::Hold);
        }
        level.leaving = 0;
        let decisions = last.map(|sample| level.see_all(sample));
        decisions[2].explanation.held_back.clone()
    };
    let waits = settled([full(0.14, 1000.0); 3]);
    assert_eq!(waits, [HeldBack::Backlog { seconds: 10.0 }]);
    assert_eq!(settled([full(0.14, 0.0), full(0.2, 0.0), full(0.3, 0.0)]), [HeldBack::Rising]);
}

#[test]
fn the_default_sees_a_full_signal_at_any_threshold() {
    for upper in [0.85, 0.9, 0.92, 0.95, 0.99, 1.0] {
        let settings = Settings { thresholds: Thresholds::new(0.3, upper).unwrap(), ..Settings::default() };
        // CPU alone is known, and is rarely measured as exactly full.
        for observed in [[1.0, 1.0, 1.0, 1.0], [1.0, 0.97, 0.99, 0.965]] {
            let mut level = Watched::new(PolicyName::Default, &settings, 2);
            let changes = observed.map(|load| level.see_all(cpu(load)).change);
            assert_eq!(changes, [Change::Hold, Change::Hold, Change::Hold, Change::Grow(1)], "{upper}");
            // A level that was full then has spare capacity, and keeps it.
            level.serving = 3;
            let after: Vec<Change> = (0..40).map(|_| level.see_all(cpu(2.0 / 3.0)).change).collect();
            assert!(after.iter().all(|change| *change == Change::Hold), "{upper}: {after:?}");
        }
        let mut busy = Watched::new(PolicyName::Default, &settings, 2);
        let changes: Vec<Change> = (0..40).map(|_| busy.see_all(cpu(upper.min(0.92))).change).collect();
        assert!(changes.iter().all(|change| *change == Change::Hold), "{upper}: {changes:?}");
    }
}

#[test]
fn invalid_settings_are_refused_with_a_remedy() {
    let problem = |settings: Settings| {
        let found = PolicyName::ALL.into_iter().find_map(|name| Decider::new(name, &settings).err());
        found.unwrap().to_string()
    };
    let settings = Settings::default;
    assert!(problem(Settings { interval: Duration::ZERO, ..settings() }).contains("interval is zero"));
    assert!(problem(Settings { tolerance: 1.0, ..settings() }).contains("tolerance is 1"));
    assert!(problem(Settings { smoothing: 0.0, ..settings() }).contains("above 0 and up to 1"));
    assert!(problem(Settings { window: 0, ..settings() }).contains("window is 0 observations"));
    assert!(problem(Settings { violations: 0, ..settings() }).contains("0 observations"));
    assert!(problem(Settings { peak: Duration::from_secs(1_000_000), ..settings() }).contains("choose a shorter one"));
    assert!(
        problem(Settings { season: Duration::from_secs(10_000_000), ..settings() }).contains("choose 40320 or fewer")
    );
    assert!("foo".parse::<PolicyName>().unwrap_err().to_string().contains("default, brokel"));
}

#[test]
fn a_decision_tells_all_of_itself_in_json() {
    let mut level = watched(PolicyName::Brokel, 20);
    level.see_all(cpu(1.0));
    let json = level.see_all(cpu(1.0)).to_json();
    assert_eq!(json["change"], "hold");
    assert_eq!(json["explanation"]["rule"], "above-upper");
    assert_eq!(json["explanation"]["wanted"], "grow");
    assert_eq!(json["explanation"]["signal"], "cpu");
    assert_eq!(json["explanation"]["held_back"][0]["cause"], "sla-maximum");
}

fn any_sample() -> impl Strategy<Value = Sample> {
    let number = prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(0.0), 0.0..1e9, 0.0..2.0];
    (prop::option::of((number.clone(), number.clone())), prop::option::of(number.clone()), prop::option::of(number))
        .prop_map(|(cpu, message_rate, queued)| {
            let cpu = cpu.map(|(used, allocated)| Cpu { used, allocated });
            Sample { cpu, message_rate, queued, ..Sample::default() }
        })
}

proptest! {
    /// Whatever is observed, no decision leads outside the agreement, and the same observations lead to the same
    /// decisions.
    #[test]
    fn decisions_stay_within_the_agreement(
        place in 0..PolicyName::ALL.len(),
        (least, most) in (1_u32..5, 5_u32..9),
        steps in prop::collection::vec((prop::collection::vec(any_sample(), 0..8), 0_u64..40, 0_u32..3), 1..60),
    ) {
        let name = PolicyName::ALL[place];
        let settings = Settings { thresholds: Thresholds::new(0.3, 0.7).unwrap(), ..Settings::default() };
        let mut deciders = [Decider::new(name, &settings).unwrap(), Decider::new(name, &settings).unwrap()];
        let sla = sla(least, most);
        let (mut time, mut serving, mut pending, mut leaving) = (0, least, 0, 0);
        for (samples, seconds, arrive) in steps {
            time += seconds;
            let arrived = arrive.min(pending);
            (serving, pending) = (serving + arrived, pending - arrived);
            leaving = if arrive == 0 { leaving } else { 0 };
            let seen = LevelObservation {
                time: Duration::from_secs(time), level: Level::Broker, serving, pending, leaving, elsewhere: 1,
                lead_time: None, samples: &samples,
            };
            let [first, second] = &mut deciders;
            let decision = first.decide(&seen, &sla);
            prop_assert_eq!(format!("{:?}", &decision), format!("{:?}", second.decide(&seen, &sla)));
            match decision.change {
                Change::Hold => {}
                Change::Grow(count) => {
                    prop_assert!(count > 0);
                    pending += count;
                }
                Change::Shrink(count) => {
                    prop_assert!(count > 0 && count <= serving);
                    (serving, leaving) = (serving - count, leaving + count);
                }
            }
            prop_assert!(serving + pending + leaving <= most, "{} {} {}", serving, pending, leaving);
            prop_assert!(serving + pending >= least);
        }
    }
}
