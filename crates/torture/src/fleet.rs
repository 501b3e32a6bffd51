//! Brokers behind the one under test, where that is an orchestrator: they are struck as well, and return.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::member::Member;
use crate::peers;
use crate::ports::Ports;
use crate::rng::Rng;

/// A member that was struck is away for this long, in milliseconds.
const AWAY: std::ops::Range<u64> = 0..3_000;

/// A strike against a broker of the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberStrike {
    /// kill -9.
    Kill,
    /// SIGSTOP, then SIGCONT.
    Freeze,
}

/// The brokers behind an orchestrator.
pub(crate) struct Fleet {
    members: Vec<Member>,
    rng: Rng,
    /// Members killed so far.
    pub(crate) struck: u64,
}

impl Fleet {
    /// No brokers.
    pub(crate) fn none() -> Self {
        Self { members: Vec::new(), rng: Rng::new(0), struck: 0 }
    }

    /// Brokers that were not started, with folders of their own; each in turn has the next of the commands.
    pub(crate) fn new(
        count: u16,
        commands: &[String],
        folder: &Path,
        seed: u64,
        ports: &mut Ports,
    ) -> Result<Self, Failure> {
        let mut members = Vec::new();
        for number in 0..count {
            let name = format!("member{number}");
            let own = folder.join(&name);
            let data = own.join("data");
            std::fs::create_dir_all(&own).map_err(Failure::file("creating", &own))?;
            let port = ports.next()?;
            let command = commands.get(usize::from(number) % commands.len().max(1)).map_or("", String::as_str);
            let command = peers::command(command, &own, port, ports)?;
            members.push(Member::new(name, command, port, data)?);
        }
        Ok(Self { members, rng: Rng::new(seed ^ 0xf1ee7), struck: 0 })
    }

    /// True if it has a broker.
    pub(crate) fn is_there(&self) -> bool {
        !self.members.is_empty()
    }

    /// The flags that tell an orchestrator of its brokers.
    pub(crate) fn flags(&self) -> String {
        let flag = |member: &Member| format!("--broker {}=mqtt://127.0.0.1:{}", member.name, member.recipe.port);
        self.members.iter().map(flag).collect::<Vec<_>>().join(" ")
    }

    /// Starts the brokers that are due, or lets them continue.
    pub(crate) fn tend(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        self.members.iter_mut().try_for_each(|member| member.tend(now))
    }

    /// Starts all that are away, and waits until all answer.
    pub(crate) fn gather(&mut self, limit: Duration) -> Result<(), Failure> {
        for member in &mut self.members {
            member.return_now();
        }
        self.tend()?;
        for member in &mut self.members {
            let Some(broker) = &mut member.running else { continue };
            // One that is there for long has answered before.
            let fresh = broker.started.elapsed() < limit;
            if fresh && broker.wait_until_listening(member.recipe.port, limit).is_err() {
                let output = broker.output().join(" / ");
                return Err(Failure::Broker(format!("{} does not answer; it said: {output}", member.name)));
            }
        }
        Ok(())
    }

    /// Kills or stops a running broker; it returns after a while. Gives its name.
    pub(crate) fn strike(&mut self, strike: MemberStrike) -> Result<Option<String>, Failure> {
        let running: Vec<usize> = (0..self.members.len()).filter(|at| self.members[*at].is_running()).collect();
        if running.is_empty() {
            return Ok(None);
        }
        let chosen = running[self.rng.index(running.len())];
        let back_at = Instant::now() + Duration::from_millis(self.rng.within(AWAY));
        let Some(member) = self.members.get_mut(chosen) else { return Ok(None) };
        match strike {
            MemberStrike::Kill => member.kill(back_at)?,
            MemberStrike::Freeze => member.freeze(back_at)?,
        }
        self.struck += 1;
        Ok(Some(member.name.clone()))
    }
}
