//! Shorter runs of the same shape.

use crate::load::LoadPlan;
use crate::load::plan::{Disturbance, Pace, Ramp, Role};

/// Runs as short as this only try whether everything works; they wait less for missing messages.
const TRY: f64 = 0.01;
/// Time to wait for them, milliseconds.
const TRY_DRAIN_MS: u64 = 2000;

/// The plan with all its times multiplied by a factor. Rates of messages stay, and so do the times that belong to a
/// message or to a connection: the deadline, the wait for an answer, the pauses of a slow reader. The wait for missing
/// messages at the end stays too, except that it is at most two seconds in runs of a hundredth of their length or less.
#[must_use]
pub fn scaled(mut plan: LoadPlan, factor: f64) -> LoadPlan {
    plan.warm_up_ms = times(plan.warm_up_ms, factor);
    plan.duration_ms = times(plan.duration_ms, factor).max(1);
    if factor <= TRY {
        plan.drain_ms = plan.drain_ms.min(TRY_DRAIN_MS);
    }
    plan.ramp = match plan.ramp {
        Ramp::AtOnce => Ramp::AtOnce,
        Ramp::PerSecond(rate) => Ramp::PerSecond(rate / factor),
        Ramp::Steps { clients, every_ms } => Ramp::Steps { clients, every_ms: times(every_ms, factor) },
    };
    plan.teardown_per_second = plan.teardown_per_second.map(|rate| {
        let rate = (f64::from(rate) / factor).round().clamp(1.0, f64::from(u32::MAX));
        #[expect(clippy::cast_sign_loss, reason = "clamped to what an u32 holds")]
        let rate = rate as u32;
        rate
    });
    for group in &mut plan.groups {
        for disturbance in &mut group.disturbances {
            *disturbance = shorter(*disturbance, factor);
        }
        if let Role::Publisher(publishing) | Role::Requester { requests: publishing, .. } = &mut group.role
            && matches!(publishing.pace, Pace::Closed { .. })
        {
            publishing.messages = publishing.messages.map(|messages| times(messages, factor).max(1));
        }
    }
    plan
}

fn shorter(disturbance: Disturbance, factor: f64) -> Disturbance {
    match disturbance {
        Disturbance::Churn { share, online_ms, offline_ms, abrupt } => Disturbance::Churn {
            share,
            online_ms: times(online_ms, factor).max(1),
            offline_ms: times(offline_ms, factor).max(1),
            abrupt,
        },
        Disturbance::Storm { share, at_ms, offline_ms } => {
            Disturbance::Storm { share, at_ms: times(at_ms, factor), offline_ms: times(offline_ms, factor) }
        }
        Disturbance::Takeover { share, at_ms } => Disturbance::Takeover { share, at_ms: times(at_ms, factor) },
    }
}

#[expect(clippy::cast_precision_loss, reason = "times of hours are far below the exact integers of a float")]
#[expect(clippy::cast_sign_loss, reason = "a factor is positive")]
fn times(value: u64, factor: f64) -> u64 {
    (value as f64 * factor).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan::{ClientGroup, Target};

    #[test]
    fn times_of_phases_shrink_and_times_of_messages_stay() {
        let mut plan = LoadPlan::new(Target::tcp("localhost", 1883), 180_000);
        plan.warm_up_ms = 5_000;
        plan.deadline_ms = Some(1_000);
        plan.ramp = Ramp::Steps { clients: 200, every_ms: 30_000 };
        plan.teardown_per_second = Some(25);
        let mut group = ClientGroup::new("a", 1, Role::Idle);
        group.disturbances.push(Disturbance::Takeover { share: 1.0, at_ms: 10_000 });
        plan.groups.push(group);
        let short = scaled(plan.clone(), 0.1);
        assert_eq!((short.duration_ms, short.warm_up_ms, short.deadline_ms), (18_000, 500, Some(1_000)));
        assert_eq!(short.ramp, Ramp::Steps { clients: 200, every_ms: 3_000 });
        assert_eq!(short.teardown_per_second, Some(250));
        assert_eq!(short.groups[0].disturbances, [Disturbance::Takeover { share: 1.0, at_ms: 1_000 }]);
        assert_eq!(scaled(plan.clone(), 1.0), plan);
    }

    #[test]
    fn only_a_try_waits_less_for_missing_messages() {
        let mut plan = LoadPlan::new(Target::tcp("localhost", 1883), 180_000);
        for (drain_ms, factor, scaled_ms) in
            [(20_000, 0.02, 20_000), (20_000, 0.01, 2_000), (600, 0.001, 600), (5_000, 2.0, 5_000)]
        {
            plan.drain_ms = drain_ms;
            assert_eq!(scaled(plan.clone(), factor).drain_ms, scaled_ms, "{drain_ms} ms at {factor}");
        }
    }
}
