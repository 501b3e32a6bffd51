//! Two brokers with a bridge between them: each of them and the link are struck while clients work at both.

mod link;

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;

use self::link::{Link, State};
use crate::accounts;
use crate::checks::{self, Look};
use crate::failure::Failure;
use crate::ledger::{Finding, Findings};
use crate::member::Member;
use crate::peers;
use crate::ports::Ports;
use crate::rng::Rng;
use crate::run::Settings;
use crate::world::{Mood, Size, World};

/// How long a broker or the link is away, in milliseconds.
const AWAY: std::ops::Range<u64> = 50..3_000;
/// How long the link is silent, in milliseconds: some times longer than the bridge waits for a sign of life.
const SILENT: std::ops::Range<u64> = 500..9_000;
/// The places of the two brokers among the ports of the clients. The bridge is part of the near one.
const NEAR: usize = 0;
const FAR: usize = 1;

/// The flags of `tidegate-torture bridge`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BridgeArguments {
    /// The command that starts the broker with the bridge; {port}, {data} and {dir} are filled in. The bridge is in
    /// {dir}/near.toml.
    #[arg(
        long,
        default_value = "tidegate --config {dir}/near.toml --listen 127.0.0.1:{port} --admin off --data {data} --log warn"
    )]
    near: String,
    /// The command that starts the other broker, as for --broker. One whose name begins with `mosquitto` is not killed:
    /// it would lose acknowledged messages.
    #[arg(long, default_value = "tidegate --listen 127.0.0.1:{port} --admin off --data {data} --log warn")]
    far: String,
    /// Carries each topic both ways, instead of from the side of its publisher to the other one.
    #[arg(long)]
    both: bool,
    /// `window` of the bridge.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    window: u16,
}

/// The strike of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BridgeStrike {
    /// kill -9 of a broker.
    Kill(usize),
    /// SIGTERM of a broker.
    Stop(usize),
    /// SIGSTOP of a broker, then SIGCONT.
    Freeze(usize),
    /// A state of the link.
    Link(State),
}

/// A run in progress.
struct BridgeRun {
    settings: Settings,
    strikes: Vec<BridgeStrike>,
    world: World,
    members: [Member; 2],
    link: Link,
    rng: Rng,
    round: u64,
}

/// Plays all rounds and gives the findings.
pub(crate) fn run(settings: Settings, arguments: &BridgeArguments, ports: &mut Ports) -> Result<Findings, Failure> {
    let (port, far_port, link_port) = (ports.next()?, ports.next()?, ports.next()?);
    let folder = settings.folder.clone();
    let far_command = peers::command(&arguments.far, &folder, far_port, ports)?;
    write_bridge(&folder.join("near.toml"), arguments, settings.size.publishers, link_port)?;
    let near = Member::new("near".to_owned(), arguments.near.clone(), port, folder.join("near"))?;
    let far = Member::new("far".to_owned(), far_command, far_port, folder.join("data"))?;
    // The members of a group would be at both sides, and each side has groups of its own.
    let size = Size { members: 0, ..settings.size };
    let mut world = World::new(size, vec![port, far_port], settings.seed)?;
    // A message that a bridge sends again may come behind later ones.
    world.ledger.keeps_order = false;
    for (place, publisher) in world.publishers.iter_mut().enumerate() {
        publisher.session.home = Some(side_of(place));
    }
    for (place, subscriber) in world.subscribers.iter_mut().enumerate() {
        // Each kind of filter at each side.
        let is_watcher = place >= usize::from(settings.size.subscribers);
        let home = if is_watcher { NEAR } else { (place + place / 2) % 2 };
        subscriber.session.home = Some(home);
        subscriber.expects_old_releases = home == FAR && is_mosquitto(&arguments.far);
    }
    for mortal in &mut world.mortals {
        mortal.session.home = Some(NEAR);
    }
    let strikes = strikes(is_mosquitto(&arguments.far));
    let rng = Rng::new(settings.seed ^ 0xb41d);
    let link = Link::start(link_port, far_port)?;
    let mut rounds = BridgeRun { settings, strikes, world, members: [near, far], link, rng, round: 0 };
    if !rounds.heal()? {
        return Err(Failure::Broker(format!("the bridge does not carry; the brokers said: {}", rounds.output())));
    }
    while rounds.round < rounds.settings.cycles {
        rounds.round += 1;
        if !rounds.play()? {
            return Ok(rounds.world.ledger.findings);
        }
    }
    if rounds.look()? {
        for member in &mut rounds.members {
            if let Some(mut process) = member.running.take() {
                process.terminate(rounds.settings.start_limit)?;
            }
        }
    }
    Ok(rounds.world.ledger.findings)
}

fn is_mosquitto(command: &str) -> bool {
    command.starts_with("mosquitto")
}

/// At which broker a publisher is.
fn side_of(publisher: usize) -> usize {
    publisher % 2
}

/// The possible strikes. A far broker that forgets must not be ended.
fn strikes(far_forgets: bool) -> Vec<BridgeStrike> {
    let mut strikes = vec![
        BridgeStrike::Kill(NEAR),
        BridgeStrike::Stop(NEAR),
        BridgeStrike::Freeze(NEAR),
        BridgeStrike::Freeze(FAR),
        BridgeStrike::Link(State::Cut),
        BridgeStrike::Link(State::Silent),
        BridgeStrike::Link(State::Slow),
    ];
    if !far_forgets {
        strikes.extend([BridgeStrike::Kill(FAR), BridgeStrike::Stop(FAR)]);
    }
    strikes
}

/// Writes the configuration of the near broker.
fn write_bridge(path: &Path, arguments: &BridgeArguments, publishers: u16, link: u16) -> Result<(), Failure> {
    let mut lines = Vec::new();
    if arguments.both {
        lines.extend(["t", "c", "r"].map(|kind| format!("\"{kind}/# both 2\"")));
    } else {
        for publisher in 0..publishers {
            let direction = if side_of(usize::from(publisher)) == NEAR { "out" } else { "in" };
            lines.extend(["t", "c", "r"].map(|kind| format!("\"{kind}/{publisher}/# {direction} 2\"")));
        }
    }
    lines.extend(["\"w/out out\"".to_owned(), "\"w/in in\"".to_owned()]);
    let text = format!(
        "[[bridge]]\nname = \"torture\"\nbroker = \"mqtt://127.0.0.1:{link}\"\nkeep_alive = \"5s\"\nwindow = {}\n\
         client_id = \"torture-bridge\"\ntopics = [\n    {}\n]\n",
        arguments.window,
        lines.join(",\n    ")
    );
    std::fs::write(path, text).map_err(Failure::file("writing", path))
}

impl BridgeRun {
    /// One round. False when the bridge does not carry any more, so that nothing can follow.
    fn play(&mut self) -> Result<bool, Failure> {
        let load = self.settings.load.as_millis() as u64;
        let before = Duration::from_millis(self.rng.within(load / 10..load + 1));
        self.load(before)?;
        let strike = self.strikes[self.rng.index(self.strikes.len())];
        let away = if strike == BridgeStrike::Link(State::Silent) { SILENT } else { AWAY };
        let away = Duration::from_millis(self.rng.within(away));
        self.strike(strike, away)?;
        let after = Duration::from_millis(self.rng.within(load / 10..load + 1));
        self.load(after)?;
        let continues = if self.rng.chance(60) { self.look()? } else { true };
        if self.settings.verbose {
            let findings = &self.world.ledger.findings;
            eprintln!(
                "round {:>4} {:<14} {:>5} ms sent {:>8} delivered {:>8} found {:>6}",
                self.round,
                format!("{strike:?}"),
                away.as_millis(),
                findings.totals.sent,
                findings.totals.delivered,
                findings.total()
            );
        }
        Ok(continues)
    }

    fn strike(&mut self, strike: BridgeStrike, away: Duration) -> Result<(), Failure> {
        let back_at = Instant::now() + away;
        match strike {
            BridgeStrike::Kill(side) => self.members[side].kill(back_at)?,
            BridgeStrike::Stop(side) => self.members[side].stop(back_at)?,
            BridgeStrike::Freeze(side) => self.members[side].freeze(back_at)?,
            BridgeStrike::Link(state) => self.link.strike(state, back_at),
        }
        self.world.ledger.note_strike();
        let clock = self.world.ledger.tick();
        self.world.ledger.trace.mark_strike(clock, format!("round {}: {strike:?} for {away:?}", self.round));
        Ok(())
    }

    fn load(&mut self, time: Duration) -> Result<(), Failure> {
        self.world.wake();
        let begun = Instant::now();
        while begun.elapsed() < time {
            self.world.turn(Mood::Load)?;
            self.tend()?;
        }
        Ok(())
    }

    /// Starts the brokers and opens the link when they are due. A bridge keeps nothing: messages that were under way when
    /// its process ended may come twice.
    fn tend(&mut self) -> Result<(), Failure> {
        let started = |members: &[Member; 2]| members[NEAR].running.as_ref().map(|process| process.started);
        let before = started(&self.members);
        tend(&mut self.members, &mut self.link)?;
        if started(&self.members) != before {
            self.world.ledger.allow_repeats();
        }
        Ok(())
    }

    /// Waits until both brokers are there and the bridge carries both ways. False when that takes longer than a start
    /// may.
    fn heal(&mut self) -> Result<bool, Failure> {
        let begun = Instant::now();
        let limit = self.settings.start_limit;
        let is_whole = |rounds: &Self| rounds.members.iter().all(Member::is_running) && rounds.link.is_open();
        while !is_whole(self) && begun.elapsed() < limit {
            self.world.turn(if self.round == 0 { Mood::Over } else { Mood::Load })?;
            self.tend()?;
        }
        let out = checks::crosses(&mut self.world, "w/out", NEAR, FAR, limit)?;
        if !out || !checks::crosses(&mut self.world, "w/in", FAR, NEAR, limit)? {
            let text = format!("round {}: the bridge does not carry after {:?}", self.round, begun.elapsed());
            let said = self.output();
            self.world.ledger.findings.add(Finding::Restart, text, vec![said]);
            return Ok(false);
        }
        let totals = &mut self.world.ledger.findings.totals;
        totals.starts += 1;
        totals.slowest_heal_ms = totals.slowest_heal_ms.max(begun.elapsed().as_millis() as u64);
        Ok(true)
    }

    /// Waits until the bridge carries, lets everything finish, and settles the accounts.
    fn look(&mut self) -> Result<bool, Failure> {
        if !self.heal()? {
            return Ok(false);
        }
        self.world.wake();
        let patience = self.settings.patience;
        let (members, link) = (&mut self.members, &mut self.link);
        accounts::settle(&mut self.world, self.round, patience, &mut || tend(members, link).map(|()| false))?;
        self.await_repeats()?;
        for side in [NEAR, FAR] {
            let name = format!("visitor-{}", self.world.ledger.tick());
            let look = Look::BehindABridge(side);
            if checks::retained(&mut self.world, &name, look, self.settings.start_limit, patience)?.is_none() {
                let text = format!("round {}: a new client gets no retained values at side {side}", self.round);
                self.world.ledger.findings.add(Finding::Unanswered, text, Vec::new());
            }
        }
        for member in &mut self.members {
            if std::mem::take(&mut member.gave_up) > 0 {
                let text = format!("round {}: the {} broker ended without a signal", self.round, member.name);
                self.world.ledger.findings.add(Finding::Restart, text, vec![member.output()]);
            }
        }
        let clock = self.world.ledger.tick();
        self.world.ledger.trace.mark_strike(clock, format!("round {}: accounts settled", self.round));
        Ok(true)
    }

    /// Waits until the messages that come again have come: a round trip of each subscriber brings nothing new. If that
    /// takes longer than the patience, it is a finding, and the messages may come again until the next look.
    fn await_repeats(&mut self) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut asked = None;
        let patience = self.settings.patience;
        while begun.max(self.world.last_news).elapsed() < patience
            && begun.elapsed() < patience * accounts::DRAIN_PATIENCES
        {
            let subscribers = &mut self.world.subscribers;
            if subscribers.iter().all(|subscriber| subscriber.is_settled() && subscriber.session.pings == 0) {
                if asked.replace(self.world.last_news) == Some(self.world.last_news) {
                    self.world.ledger.forbid_repeats();
                    return Ok(());
                }
                subscribers.iter_mut().try_for_each(|subscriber| subscriber.session.ping())?;
            }
            self.world.turn(Mood::Drain)?;
            self.tend()?;
        }
        let text = format!("round {}: subscribers do not come to rest within {:?}", self.round, begun.elapsed());
        self.world.ledger.findings.add(Finding::Unanswered, text, Vec::new());
        Ok(())
    }

    fn output(&mut self) -> String {
        let said: Vec<String> = self.members.iter_mut().map(Member::output).collect();
        said.join(" ")
    }
}

fn tend(members: &mut [Member; 2], link: &mut Link) -> Result<(), Failure> {
    let now = Instant::now();
    link.tend(now);
    members.iter_mut().try_for_each(|member| member.tend(now))
}
