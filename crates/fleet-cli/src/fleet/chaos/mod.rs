//! `tidegate fleet chaos`: strikes the processes of a running fleet, and keeps books of messages meanwhile.

mod books;
mod error;
mod plan;
mod probe;
mod process;

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use serde_json::{Value, json};
use tidegate_client::{TopicFilterBuf, TopicNameBuf};
use tidegate_process::signals::BrokerSignals;

use super::arguments::time;
use crate::local::{FleetArgs, ManagerState, text_of};
use books::Sums;
use error::ChaosError;
use plan::{Bounds, Chooser, Fault, Member, Strike};
use probe::{Load, Probe};
use process::Held;
use tidegate_terminal::{Exit, print_and_exit, report};

const EXAMPLES: &str = "\
Examples:
  tidegate fleet chaos --for 60s
  tidegate fleet chaos --for 10m --every 20s --faults kill,stop --seed 7 --json

It kills, stops (SIGSTOP, later SIGCONT) and slows processes of a fleet that runs on this machine, one at a time, and publishes and
receives numbered messages of QoS 1 meanwhile. A message that was acknowledged and does not come counts as lost. The next strike waits
until the fleet has recovered from the one before. The same seed draws the same strikes from the same members.
Exit codes: 0 processes were struck, nothing was lost, and the fleet has recovered each time; 1 otherwise; 2 the command line is wrong.
More: docs/manager.md.";

/// How often the fleet is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// A slowed process works for a tenth of this time, again and again.
const SLICE: Duration = Duration::from_millis(50);
/// How long the first message may take.
const BEGIN_LIMIT: Duration = Duration::from_secs(30);

/// The flags of `tidegate fleet chaos`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Kill, stop and slow processes of a running fleet, and report loss and recovery", after_help = EXAMPLES)]
pub struct ChaosArgs {
    #[command(flatten)]
    fleet: FleetArgs,
    /// How long the fleet is struck
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = time)]
    length: Duration,
    /// Mean time between two strikes
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    every: Duration,
    /// Repeats the choices of a run; random when absent
    #[arg(long)]
    seed: Option<u64>,
    /// The faults of processes
    #[arg(long, value_enum, value_delimiter = ',', default_value = "kill,stop,slow")]
    faults: Vec<Fault>,
    /// Whose processes are struck: broker, orchestrator
    #[arg(long, value_delimiter = ',', default_value = "broker,orchestrator", value_parser = ["broker", "orchestrator"])]
    levels: Vec<String>,
    /// Longest stop or slowness
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time)]
    longest: Duration,
    /// How long the fleet may take to recover from a strike, and missing messages to come at the end
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time)]
    recovery: Duration,
    /// Messages per second
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rate: u32,
    /// Bytes of a message
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(24..=1_000_000))]
    size: u32,
    /// User name of the clients
    #[arg(long)]
    username: Option<String>,
    /// A file whose first line is their password
    #[arg(long, value_name = "FILE")]
    password_file: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A strike that was made.
struct Struck {
    strike: Strike,
    /// Since the beginning.
    at: Duration,
    /// Until a message that was sent after the strike came.
    carried: Option<Duration>,
    /// Until the fleet had its size again.
    healed: Option<Duration>,
}

/// Strikes the fleet.
pub(super) fn run(args: &ChaosArgs) -> Exit {
    match strike_all(args) {
        Ok((text, true)) => print_and_exit(&text, Exit::Ok),
        Ok((text, false)) => print_and_exit(&text, Exit::Failure),
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

/// The report, and whether all went well.
fn strike_all(args: &ChaosArgs) -> Result<(String, bool), ChaosError> {
    let mut signals = BrokerSignals::catch().map_err(ChaosError::Signals)?;
    let seed = args.seed.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
    let first = status(args)?;
    if members(&first).is_empty() {
        return Err(ChaosError::NoMember);
    }
    let probe = Probe::start(endpoints(&first), &load(args, seed)?)?;
    let struck = strike_for(args, seed, &first, &probe, &mut signals);
    probe.shared.fall_silent();
    let end = Instant::now() + args.recovery;
    while Instant::now() < end && !(probe.shared.is_settled() && probe.shared.books().sums().lost == 0) {
        rest(LOOK);
    }
    let settled = probe.shared.is_settled();
    let sums = probe.shared.books().sums();
    probe.stop();
    let struck = struck?;
    let well = is_well(&struck, sums, settled);
    let text =
        if args.json { format!("{}\n", as_json(seed, &struck, sums, settled)) } else { shown(seed, &struck, sums) };
    Ok((text, well))
}

/// Whether the fleet has stood the strikes. Without a strike nothing is known of it.
fn is_well(struck: &[Struck], sums: Sums, settled: bool) -> bool {
    let is_stood = |it: &Struck| it.carried.is_some() && it.healed.is_some();
    !struck.is_empty() && settled && sums.lost == 0 && struck.iter().all(is_stood)
}

fn load(args: &ChaosArgs, seed: u64) -> Result<Load, ChaosError> {
    let password = args.password_file.as_ref().map(|file| {
        let text = std::fs::read_to_string(file);
        let text = text.map_err(|source| ChaosError::Password { path: file.clone(), source })?;
        Ok::<_, ChaosError>(text.lines().next().unwrap_or_default().as_bytes().to_vec())
    });
    let name = format!("chaos/{seed:x}-{}", std::process::id());
    Ok(Load {
        topic: TopicNameBuf::new(name.clone())?,
        filter: TopicFilterBuf::new(name)?,
        user_name: args.username.clone(),
        password: password.transpose()?,
        rate: args.rate,
        size: usize::try_from(args.size).unwrap_or(usize::MAX),
    })
}

/// The status of the manager.
fn status(args: &ChaosArgs) -> Result<Value, ChaosError> {
    let known = args.fleet.find().and_then(|place| place.known())?;
    if known.manager != ManagerState::Running {
        return Err(ChaosError::NoManager);
    }
    Ok(known.status)
}

fn endpoints(status: &Value) -> Vec<String> {
    status["endpoints"].as_array().into_iter().flatten().map(text_of).collect()
}

/// The processes of this machine.
fn members(status: &Value) -> Vec<Member> {
    let mut found = Vec::new();
    for level in ["broker", "orchestrator"] {
        for resource in status["levels"][level]["resources"].as_array().into_iter().flatten() {
            if let Some(pid) = resource["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()) {
                found.push(Member { name: text_of(&resource["name"]), level: level.to_owned(), pid });
            }
        }
    }
    found
}

/// How many of each level serve, and whether nothing is under way.
fn size(status: &Value) -> ([u64; 2], bool) {
    let serving =
        ["broker", "orchestrator"].map(|level| status["levels"][level]["serving"].as_u64().unwrap_or_default());
    let is_quiet = status["actions"].as_array().is_none_or(Vec::is_empty);
    (serving, is_quiet)
}

fn strike_for(
    args: &ChaosArgs,
    seed: u64,
    first: &Value,
    probe: &Probe,
    signals: &mut BrokerSignals,
) -> Result<Vec<Struck>, ChaosError> {
    let shared = &probe.shared;
    let begin = Instant::now();
    while !shared.books().has_begun() {
        if begin.elapsed() > BEGIN_LIMIT {
            return Err(ChaosError::NoMessage);
        }
        rest(LOOK);
    }
    let (faults, levels) = (args.faults.clone(), args.levels.clone());
    let mut chooser = Chooser::new(seed, Bounds { faults, levels, every: args.every, longest: args.longest });
    let (full, mut struck, mut now) = (size(first).0, Vec::new(), first.clone());
    let end = Instant::now() + args.length;
    while let Some(strike) = chooser.next(&members(&now)) {
        if Instant::now() + strike.pause >= end || !pause(strike.pause, signals) {
            break;
        }
        // The process may have ended during the pause, and its id may be that of another one. The held process is the
        // member if the status still names it.
        let held = Held::open(&strike.member)?;
        now = status(args)?;
        let Some(held) = held.filter(|_| members(&now).contains(&strike.member)) else { continue };
        let at = shared.now();
        shared.books().expect_news();
        if !held.strike(&strike, signals)? {
            continue;
        }
        let (mut carried, mut healed) = (None, None);
        let limit = Instant::now() + args.recovery;
        while (carried.is_none() || healed.is_none()) && Instant::now() < limit && !signals.stop_is_asked() {
            now = status(args)?;
            shared.set_endpoints(endpoints(&now));
            carried = shared.books().news().map(|news| news.saturating_sub(at));
            let (serving, is_quiet) = size(&now);
            let is_gone = strike.fault == Fault::Kill && members(&now).iter().any(|it| it.pid == strike.member.pid);
            let is_whole = is_quiet && !is_gone && serving.iter().zip(full).all(|(now, full)| *now >= full);
            healed = healed.or_else(|| is_whole.then(|| shared.now().saturating_sub(at)));
            rest(LOOK);
        }
        struck.push(Struck { strike, at, carried, healed });
    }
    Ok(struck)
}

/// Does nothing for some time.
#[expect(
    clippy::disallowed_methods,
    reason = "pauses are what chaos consists of, and a fleet is looked at now and then"
)]
fn rest(length: Duration) {
    std::thread::sleep(length);
}

/// Waits; false when the user ends it.
fn pause(length: Duration, signals: &mut BrokerSignals) -> bool {
    let end = Instant::now() + length;
    while Instant::now() < end && !signals.stop_is_asked() {
        rest(LOOK.min(end.saturating_duration_since(Instant::now())));
    }
    !signals.stop_is_asked()
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

fn as_json(seed: u64, struck: &[Struck], sums: Sums, settled: bool) -> Value {
    let strike = |it: &Struck| {
        json!({
            "at_ms": millis(it.at), "member": it.strike.member.name, "level": it.strike.member.level,
            "fault": it.strike.fault.name(),
            "length_ms": (it.strike.fault != Fault::Kill).then(|| millis(it.strike.length)),
            "carried_ms": it.carried.map(millis), "healed_ms": it.healed.map(millis),
        })
    };
    json!({
        "seed": seed, "strikes": struck.iter().map(strike).collect::<Vec<_>>(),
        "sent": sums.sent, "acknowledged": sums.acknowledged, "received": sums.received, "twice": sums.twice,
        "lost": sums.lost, "settled": settled, "longest_silence_ms": millis(sums.longest_silence),
    })
}

fn shown(seed: u64, struck: &[Struck], sums: Sums) -> String {
    let mut text = format!("seed {seed}\n");
    let time = |length: Option<Duration>| length.map_or_else(|| "never".to_owned(), |it| format!("{} ms", millis(it)));
    for it in struck {
        let Struck { strike, at, carried, healed } = it;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:>8} ms  {:<4} {:<18} messages again after {}, whole again after {}",
            millis(*at),
            strike.fault.name(),
            strike.member.name,
            time(*carried),
            time(*healed)
        );
    }
    if struck.is_empty() {
        text.push_str("no process was struck: let it run for longer (--for), or strike more often (--every)\n");
    }
    let Sums { sent, acknowledged, received, twice, lost, longest_silence } = sums;
    let _ = writeln!(
        text,
        "{} strikes; {sent} messages sent, {acknowledged} acknowledged, {received} received, {twice} twice, {lost} lost; longest silence {} ms",
        struck.len(),
        millis(longest_silence)
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, pid: i32) -> Member {
        Member { name: name.to_owned(), level: "broker".to_owned(), pid }
    }

    fn struck(healed: Option<Duration>) -> Struck {
        let pause = Duration::ZERO;
        let strike = Strike { pause, member: member("broker-1", 7), fault: Fault::Kill, length: pause };
        Struck { strike, at: pause, carried: Some(pause), healed }
    }

    #[test]
    fn a_member_is_known_by_its_name_and_its_process() {
        let status =
            |name: &str, pid: i32| json!({ "levels": { "broker": { "resources": [{ "name": name, "pid": pid }] } } });
        let chosen = member("broker-1", 7);
        assert!(members(&status("broker-1", 7)).contains(&chosen));
        assert!(!members(&status("broker-1", 8)).contains(&chosen), "it was replaced during the pause");
        assert!(!members(&status("broker-2", 7)).contains(&chosen));
        assert!(!members(&json!({})).contains(&chosen));
    }

    #[test]
    fn a_run_without_a_strike_does_not_go_well() {
        let mut books = books::Books::default();
        let number = books.send();
        books.acknowledge(number);
        let lost = books.sums();
        books.receive(number, Duration::ZERO);
        let sums = books.sums();
        let well = [struck(Some(Duration::ZERO))];
        assert!(is_well(&well, sums, true));
        assert!(!is_well(&[], sums, true));
        assert!(!is_well(&well, sums, false) && !is_well(&well, lost, true) && !is_well(&[struck(None)], sums, true));
        assert!(shown(1, &[], sums).contains("no process was struck"));
    }
}
