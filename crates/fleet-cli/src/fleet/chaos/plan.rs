//! The next strike: its member, time and kind, choices that a seed repeats.

use std::time::Duration;

use clap::ValueEnum;
use tidegate_random::SplitMix64;

/// A fault of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Fault {
    /// SIGKILL
    Kill,
    /// SIGSTOP for some time, and SIGCONT
    Stop,
    /// A tenth of its processor time, for some time
    Slow,
}

impl Fault {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Slow => "slow",
        }
    }
}

/// A process of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) level: String,
    pub(super) pid: i32,
}

/// The next act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strike {
    /// Time before it.
    pub(super) pause: Duration,
    pub(super) member: Member,
    pub(super) fault: Fault,
    /// How long it lasts; not for a kill.
    pub(super) length: Duration,
}

/// The bounds of the choices.
#[derive(Clone, Debug)]
pub(super) struct Bounds {
    pub(super) faults: Vec<Fault>,
    /// The levels whose members are struck.
    pub(super) levels: Vec<String>,
    /// The mean time between two strikes.
    pub(super) every: Duration,
    /// The longest stop or slowness.
    pub(super) longest: Duration,
}

/// Draws strikes.
#[derive(Clone, Debug)]
pub(super) struct Chooser {
    series: SplitMix64,
    bounds: Bounds,
}

impl Chooser {
    pub(super) const fn new(seed: u64, bounds: Bounds) -> Self {
        Self { series: SplitMix64::new(seed), bounds }
    }

    /// The next 64 bits.
    const fn draw(&mut self) -> u64 {
        self.series.number()
    }

    /// A time from a half to one and a half of `mean`.
    fn around(&mut self, mean: Duration) -> Duration {
        mean / 2 + mean * (self.draw() % 1_000) as u32 / 1_000
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let at = self.draw() % u64::try_from(all.len()).ok().filter(|len| *len > 0)?;
        all.get(usize::try_from(at).ok()?).cloned()
    }

    /// The next strike at one of these members; `None` where none of them may be struck. The order of the members makes
    /// no difference.
    pub(super) fn next(&mut self, members: &[Member]) -> Option<Strike> {
        let may = |member: &&Member| self.bounds.levels.contains(&member.level);
        let mut members: Vec<Member> = members.iter().filter(may).cloned().collect();
        members.sort();
        let (every, longest, faults) = (self.bounds.every, self.bounds.longest, self.bounds.faults.clone());
        let pause = self.around(every);
        let length = longest / 10 + longest * 9 / 10 * (self.draw() % 1_000) as u32 / 1_000;
        let (member, fault) = (self.one_of(&members)?, self.one_of(&faults)?);
        Some(Strike { pause, member, fault, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, level: &str) -> Member {
        Member { name: name.to_owned(), level: level.to_owned(), pid: 1 }
    }

    fn chooser(seed: u64) -> Chooser {
        let faults = vec![Fault::Kill, Fault::Stop, Fault::Slow];
        let (every, longest) = (Duration::from_secs(4), Duration::from_secs(2));
        Chooser::new(seed, Bounds { faults, levels: vec!["broker".to_owned()], every, longest })
    }

    #[test]
    fn a_seed_repeats_its_strikes() {
        let members = [member("b1", "broker"), member("b2", "broker"), member("o1", "orchestrator")];
        let mut turned = members.clone();
        turned.reverse();
        let strikes = |seed, members: &[Member]| {
            let mut chooser = chooser(seed);
            (0..50).filter_map(|_| chooser.next(members)).collect::<Vec<_>>()
        };
        let first = strikes(7, &members);
        assert_eq!(first, strikes(7, &turned));
        assert_ne!(first, strikes(8, &members));
        for fault in [Fault::Kill, Fault::Stop, Fault::Slow] {
            assert!(first.iter().any(|strike| strike.fault == fault), "{fault:?}");
        }
        assert!(first.iter().all(|strike| strike.member.level == "broker"), "the others are left alone");
        let (pauses, lengths) =
            (Duration::from_secs(2)..Duration::from_secs(6), Duration::ZERO..Duration::from_secs(2));
        assert!(first.iter().all(|strike| pauses.contains(&strike.pause) && lengths.contains(&strike.length)));
    }

    #[test]
    fn nothing_is_struck_where_nothing_may_be() {
        assert_eq!(chooser(1).next(&[member("o1", "orchestrator")]), None);
    }
}
