//! The section [policy]: which policy decides, and its settings.

use std::time::Duration;

use crate::decide::{PolicyName, Settings, Wait};
use crate::level::Level;
use crate::load::{SignalSettings, Thresholds};
use tidegate_document::Keys;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// The policy and its settings; missing ones are as in [`Settings::default`].
pub(super) fn read(keys: &mut Keys<'_>, interval: Duration) -> (PolicyName, Settings) {
    let mut name = PolicyName::Default;
    let mut settings = Settings { interval, ..Settings::default() };
    keys.table("policy", |keys| {
        let names: Vec<(&str, PolicyName)> = PolicyName::ALL.iter().map(|policy| (policy.name(), *policy)).collect();
        name = keys.word("name", &names).unwrap_or(name);
        thresholds(&mut settings, keys);
        counts(&mut settings, keys);
        durations(&mut settings, keys);
        if let Some(signals) = keys.table("signals", |keys| Some(signals(None, keys))) {
            settings.signals = signals;
        }
        if let Err(error) = settings.validate() {
            keys.refuse(
                "name",
                &format!("cannot work with these settings: {error}"),
                "correct the setting that is named",
            );
        }
        Some(())
    });
    (name, settings)
}

fn thresholds(settings: &mut Settings, keys: &mut Keys<'_>) {
    let lower = keys.fraction("lower", 0.0..=1.0).unwrap_or(settings.thresholds.lower());
    let upper = keys.fraction("upper", 0.0..=1.0).unwrap_or(settings.thresholds.upper());
    match Thresholds::new(lower, upper) {
        Ok(thresholds) => settings.thresholds = thresholds,
        Err(error) => {
            keys.refuse("upper", &format!("is wrong: {error}"), "write, for example, lower = 0.3 and upper = 0.7");
        }
    }
}

fn counts(settings: &mut Settings, keys: &mut Keys<'_>) {
    settings.smoothing = keys.fraction("smoothing", 0.01..=1.0).unwrap_or(settings.smoothing);
    settings.tolerance = keys.fraction("tolerance", 0.0..=0.99).unwrap_or(settings.tolerance);
    let mut count = |key: &str, most: u64| keys.number(key, 1..=most).and_then(|count| u32::try_from(count).ok());
    settings.view = count("view", 3600).unwrap_or(settings.view);
    settings.violations = count("violations", 3600).unwrap_or(settings.violations);
    settings.window = count("window", 3600).unwrap_or(settings.window);
    if let Some(wait) = keys.number("cool_down_observations", 0..=3600) {
        settings.cool_down = Wait::Observations(u32::try_from(wait).unwrap_or(u32::MAX));
    }
}

fn durations(settings: &mut Settings, keys: &mut Keys<'_>) {
    let mut read = |key: &str, value: &mut Duration| {
        if let Some(length) = keys.duration(key, Duration::ZERO..=DAY * 7) {
            *value = length;
        }
    };
    read("shrink_stabilisation", &mut settings.shrink_stabilisation);
    read("grow_stabilisation", &mut settings.grow_stabilisation);
    read("lead_time", &mut settings.lead_time);
    read("peak", &mut settings.peak);
    read("backlog_target", &mut settings.backlog_target);
    read("backlog_limit", &mut settings.backlog_limit);
    read("latency_target", &mut settings.latency_target);
    read("shrink_pause", &mut settings.shrink_pause);
    read("season", &mut settings.season);
}

/// The full value of each signal of a level, or of both. An unnamed signal does not count, except CPU. A signal
/// that a level cannot have would prevent it from shrinking for good.
#[expect(clippy::cast_precision_loss, reason = "what counts as full needs no more than 52 bits")]
pub(super) fn signals(level: Option<Level>, keys: &mut Keys<'_>) -> SignalSettings {
    let signals = SignalSettings {
        cpu: keys.truth("cpu").unwrap_or(true),
        message_rate: keys.fraction("message_rate", 0.001..=1e12),
        queue_depth: keys.fraction("queue_depth", 0.001..=1e12),
        loop_lag: keys.duration("loop_lag", SECOND / 1000..=SECOND * 600),
        waiting: keys.duration("waiting", SECOND / 1000..=DAY),
        drops: keys.fraction("drops", 0.001..=1e12),
        memory: keys.bytes("memory", 1 << 20..=1 << 50).map(|bytes| bytes as f64),
    };
    if signals.loop_lag.is_some() && level != Some(Level::Orchestrator) {
        let hint = "set it in [orchestrators.signals], with the other signals of orchestrators, and leave it out here";
        keys.refuse("loop_lag", "is not known of brokers: only orchestrators report it", hint);
    }
    if let Err(error) = signals.validate() {
        keys.refuse("cpu", &format!("leaves nothing to decide by: {error}"), "choose at least one signal");
    }
    signals
}
