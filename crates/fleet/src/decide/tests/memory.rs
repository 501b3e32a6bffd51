//! The memory of deciders over a restart.

use super::*;

/// The same level with a decider that has restored this one's memory.
fn restarted(level: &Watched, settings: &Settings) -> Watched {
    let memory = level.decider.memory().unwrap();
    let mut decider = Decider::new(level.decider.name(), settings).unwrap();
    decider.recall(&memory).unwrap();
    let (sla, lead_time) = (level.sla, level.lead_time);
    let Watched { time, serving, pending, leaving, .. } = *level;
    Watched { decider, sla, time, serving, pending, leaving, lead_time, early_ms: level.early_ms }
}

#[test]
fn counts_outlive_a_restart_but_not_a_long_gap() {
    let settings = Settings::default();
    for (gap, expected) in [(0, Change::Grow(1)), (60, Change::Hold)] {
        let mut level = watched(PolicyName::Consecutive, 1);
        level.see_all(cpu(0.9));
        level.see_all(cpu(0.9));
        let mut level = restarted(&level, &settings);
        level.time += gap;
        assert_eq!(level.see_all(cpu(0.9)).change, expected, "{gap}");
    }
    let mut level = watched(PolicyName::Brokel, 1);
    level.see_all(cpu(1.0));
    assert_eq!(level.see_all(cpu(1.0)).change, Change::Grow(1));
    let mut level = restarted(&level, &settings);
    let held = level.see_all(cpu(1.0));
    assert_eq!(held.explanation.held_back, [HeldBack::CoolDownObservations { remaining: 2 }]);
}

/// It never acted: each observation came too late to be counted with the one before.
#[test]
fn slow_observations_are_counted_too() {
    // The length of the first gap is known only with the second.
    for (last_gap, expected) in [(6, Change::Grow(1)), (60, Change::Hold)] {
        let mut level = watched(PolicyName::Consecutive, 1);
        for gap in [0, 6, 6] {
            level.time += gap * INTERVAL_S;
            assert_eq!(level.see_all(cpu(0.9)).change, Change::Hold, "{gap}");
        }
        level.time += last_gap * INTERVAL_S;
        assert_eq!(level.see_all(cpu(0.9)).change, expected, "{last_gap}");
    }
}

#[test]
fn an_action_that_ended_after_all_that_is_remembered_counts() {
    let settings = Settings::default();
    let mut level = watched(PolicyName::Brokel, 1);
    level.see_all(cpu(1.0));
    let memory = level.decider.memory().unwrap();
    let held = |ended: u64| {
        let mut decider = Decider::new(PolicyName::Brokel, &settings).unwrap();
        decider.note_action(Duration::from_secs(ended));
        decider.recall(&memory).unwrap();
        let mut level = Watched { decider, time: 15, ..watched(PolicyName::Brokel, 1) };
        level.see_all(cpu(1.0)).explanation.held_back.len()
    };
    assert_eq!((held(10), held(20)), (0, 1));
}

#[test]
fn a_season_continues_after_missed_observations() {
    let settings = Settings { season: Duration::from_secs(600), ..Settings::default() };
    let mut level = Watched::new(PolicyName::HoltWinters, &settings, 4);
    for step in 0..80 {
        level.see_all(cpu(if step % 40 < 20 { 0.4 } else { 0.95 }));
    }
    let mut level = restarted(&level, &settings);
    // 15 observations and a thousand seasons were missed: the next one is the 16th, and the rise is in four.
    level.time += 15 * 15 + 1000 * 600;
    let found = (0..4).map(|_| level.see_all(cpu(0.4)).explanation.rule).find(|rule| *rule == Rule::Forecast);
    assert_eq!(found, Some(Rule::Forecast));
    let memory = level.decider.memory().unwrap();
    assert!(memory["remembered"][2]["place"].as_u64().is_some_and(|place| (16..20).contains(&place)), "{memory}");
    assert_eq!(memory["remembered"][2]["learned"], true);
}

#[test]
fn a_memory_without_peaks_keeps_the_season() {
    let settings = Settings { season: Duration::from_secs(600), ..Settings::default() };
    let mut level = Watched::new(PolicyName::HoltWinters, &settings, 4);
    for _ in 0..80 {
        level.see_all(cpu(0.4));
    }
    // Earlier versions remembered no peaks, and of a point only its time and demand.
    let mut memory = level.decider.memory().unwrap();
    let reactive = memory["remembered"][0].as_array_mut().unwrap();
    assert!(reactive.pop().unwrap().get("past").is_some());
    for point in reactive[1].as_array_mut().unwrap() {
        point.as_object_mut().unwrap().retain(|key, _| key == "time" || key == "demand");
    }
    let mut decider = Decider::new(PolicyName::HoltWinters, &settings).unwrap();
    decider.recall(&memory).unwrap();
    assert_eq!(decider.memory().unwrap()["remembered"][2], memory["remembered"][2]);
    assert_eq!(memory["remembered"][2]["learned"], true);
}

#[test]
fn the_memory_of_another_policy_is_discarded() {
    let remembered = |name: PolicyName, settings: &Settings| {
        let mut level = Watched::new(name, settings, 1);
        level.see_all(cpu(0.9));
        level.decider.memory().unwrap()
    };
    let settings = Settings { season: Duration::from_secs(60), ..Settings::default() };
    let refusal = |name: PolicyName, memory: &serde_json::Value| {
        Decider::new(name, &settings).unwrap().recall(memory).unwrap_err().to_string()
    };
    let other = remembered(PolicyName::Brokel, &settings);
    assert!(refusal(PolicyName::Live, &other).contains("remembered by brokel"));
    let often = Settings { interval: Duration::from_secs(1), ..settings.clone() };
    assert!(refusal(PolicyName::Brokel, &remembered(PolicyName::Brokel, &often)).contains("every 1s"));
    let mut strange = remembered(PolicyName::HoltWinters, &settings);
    assert!(Decider::new(PolicyName::HoltWinters, &settings).unwrap().recall(&strange).is_ok());
    for (key, value) in [("place", 7.into()), ("learned", true.into()), ("season", vec![1.0; 99].into())] {
        let kept = strange["remembered"][2][key].clone();
        strange["remembered"][2][key] = value;
        assert!(refusal(PolicyName::HoltWinters, &strange).contains("another length"), "{key}");
        strange["remembered"][2][key] = kept;
    }
    for name in PolicyName::ALL {
        let mut memory = remembered(name, &settings);
        memory["remembered"] = serde_json::json!({"a": 1});
        assert!(refusal(name, &memory).contains("cannot be understood"), "{name}");
    }
}

proptest! {
    /// A decider that restores the memory of another one decides as that one, at any point of the series.
    #[test]
    fn a_restart_changes_no_decision(
        place in 0..PolicyName::ALL.len(),
        steps in prop::collection::vec((prop::collection::vec(any_sample(), 0..6), 1_u64..40, 0_u32..5, any::<bool>()), 1..60),
    ) {
        let name = PolicyName::ALL[place];
        // Seasons of four observations, so that they are learned.
        let settings = Settings { season: Duration::from_secs(60), ..Settings::default() };
        let mut deciders = [Decider::new(name, &settings).unwrap(), Decider::new(name, &settings).unwrap()];
        let sla = sla(1, 20);
        let mut time = 0;
        for (samples, seconds, pending, restart) in steps {
            time += seconds;
            let serving = u32::try_from(samples.len()).unwrap().max(1);
            let seen = LevelObservation {
                time: Duration::from_secs(time), level: Level::Broker, serving, pending: pending.saturating_sub(3),
                leaving: 0, elsewhere: 1, lead_time: None, samples: &samples,
            };
            let [going_on, restarted] = &mut deciders;
            let (expected, found) = (going_on.decide(&seen, &sla), restarted.decide(&seen, &sla));
            prop_assert_eq!((expected.change, expected.explanation.rule), (found.change, found.explanation.rule));
            if restart {
                let memory = restarted.memory().unwrap().to_string();
                *restarted = Decider::new(name, &settings).unwrap();
                restarted.recall(&serde_json::from_str(&memory).unwrap()).unwrap();
            }
        }
    }
}

#[test]
fn a_rhythm_of_peaks_outlives_a_restart() {
    let settings = Settings::default();
    let mut level = watched(PolicyName::Default, 1);
    // A peak of three brokers' load each five minutes.
    let mut queued = 0.0;
    let mut period = |level: &mut Watched, observations: u32| -> Option<Decision> {
        let decisions = (0..observations).map(|step| {
            queued = if step == 0 { 3_000.0 } else { (queued - 750.0_f64).max(0.0) };
            level.see_all(full(if queued > 0.0 { 1.0 } else { 0.5 }, queued))
        });
        decisions.last()
    };
    for _ in 0..3 {
        assert_eq!(period(&mut level, 20).unwrap().change, Change::Hold);
    }
    assert_eq!(period(&mut level, 16).unwrap().change, Change::Hold);
    let mut level = restarted(&level, &settings);
    let (next, then) = (level.see_all(full(0.5, 0.0)), level.see_all(full(0.5, 0.0)));
    assert_eq!([next.change, then.change].map(Change::count).iter().sum::<u32>(), 3, "{next:?} {then:?}");
    let asked = if next.change == Change::Hold { then } else { next };
    assert_eq!(asked.explanation.rule, Rule::ReturningPeak);
}
