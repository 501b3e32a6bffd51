//! Damage to files between two runs of the broker: it may refuse or recover with a report, but never lose in silence.
//!
//! Each cycle begins with an empty folder and empty books: load, an end, a start without damage to learn what the
//! broker says when all is well, then the same files with damage.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::broker::NotUp;
use crate::failure::Failure;
use crate::ledger::{Finding, Findings};
use crate::power::{Item, Snapshot};
use crate::rng::Rng;
use crate::run::{Fault, Run, Settings};

/// Words by which a broker reports damage.
const WORDS: &[&str] = &[
    "damage",
    "corrupt",
    "checksum",
    "recover",
    "torn",
    "truncat",
    "lost",
    "discard",
    "salvag",
    "missing",
    "repair",
    "invalid",
    "incomplete",
    "skipp",
];
/// The exit code of a Rust program that panicked.
const PANICKED: i32 = 101;

/// Runs the cycles, each for itself.
pub(crate) fn run(settings: &Settings, command: &str, port: u16) -> Result<Findings, Failure> {
    let mut all = Findings::default();
    let mut rng = Rng::new(settings.seed);
    for cycle in 1..=settings.cycles {
        let own = Settings { seed: settings.seed.wrapping_add(cycle), ..settings.clone() };
        let text = one(own, command, port, &mut rng, &mut all)?;
        if settings.verbose {
            eprintln!("cycle {cycle:>4} {text}");
        }
    }
    Ok(all)
}

/// One cycle; adds its findings, and returns a line about it.
fn one(settings: Settings, command: &str, port: u16, rng: &mut Rng, all: &mut Findings) -> Result<String, Failure> {
    let data = settings.folder.join("data");
    Snapshot::default().restore(&data)?;
    let mut run = Run::new(settings, command.to_owned(), port)?;
    let Some(mut broker) = run.start()? else {
        all.merge(&run.world.ledger.findings);
        return Ok("did not start".to_owned());
    };
    run.load(&mut broker)?;
    let fault = if rng.chance(50) { Fault::Kill } else { Fault::Terminate };
    run.strike(fault, &mut broker)?;
    let sound = Snapshot::take(&data)?;
    let usual = match run.start()? {
        Some(mut broker) => {
            let usual = reports(&broker.output());
            run.strike(Fault::Kill, &mut broker)?;
            usual
        }
        None => BTreeSet::new(),
    };
    let (damaged, description) = damage(sound, rng);
    damaged.restore(&data)?;
    let clean = run.world.ledger.findings.clone();
    let outcome = outcome(&mut run, &usual, &description)?;
    let mut findings = clean;
    findings.totals = run.world.ledger.findings.totals.clone();
    match outcome {
        DamageOutcome::Refused => findings.totals.damage_refused += 1,
        DamageOutcome::Reported => findings.totals.damage_reported += 1,
        DamageOutcome::Harmless => findings.totals.damage_harmless += 1,
        DamageOutcome::Wrong(finding, text, lines) => findings.add(finding, text, lines),
    }
    all.merge(&findings);
    Ok(format!("{description}: {}", if findings.total() == 0 { "as it should be" } else { "found" }))
}

/// The outcome of a start with damage.
enum DamageOutcome {
    Refused,
    Reported,
    Harmless,
    Wrong(Finding, String, Vec<String>),
}

fn outcome(run: &mut Run, usual: &BTreeSet<String>, description: &str) -> Result<DamageOutcome, Failure> {
    let before = run.world.ledger.findings.total();
    let mut broker = run.launch(None)?;
    let limit = run.settings.start_limit;
    match broker.wait_until_listening(run.recipe.port, limit) {
        Err(NotUp::Ended(status)) => {
            let output = broker.output();
            let crashed = status.code().is_none_or(|code| code == PANICKED || code == 0);
            return Ok(if crashed || output.is_empty() {
                DamageOutcome::Wrong(Finding::Restart, format!("{description}: the broker ended with {status}"), output)
            } else {
                DamageOutcome::Refused
            });
        }
        Err(NotUp::TooSlow) => {
            return Ok(DamageOutcome::Wrong(
                Finding::Restart,
                format!("{description}: the broker hangs"),
                broker.output(),
            ));
        }
        Ok(()) => {}
    }
    let answers = run.greet()?;
    if answers {
        run.look(&mut broker)?;
    }
    let crashed = broker.ended();
    let output = broker.output();
    let reported = !reports(&output).is_subset(usual);
    run.strike(Fault::Kill, &mut broker)?;
    if let Some(status) = crashed {
        return Ok(if reported && status.code().is_some_and(|code| code != PANICKED) {
            DamageOutcome::Refused
        } else {
            DamageOutcome::Wrong(
                Finding::Restart,
                format!("{description}: the broker ended under use with {status}"),
                output,
            )
        });
    }
    let changed = run.world.ledger.findings.total() > before || !answers;
    Ok(match (reported, changed) {
        (true, _) => DamageOutcome::Reported,
        (false, false) => DamageOutcome::Harmless,
        (false, true) => {
            let mut lines: Vec<String> =
                run.world.ledger.findings.cases().map(|(check, text, _)| format!("{check}: {text}")).collect();
            lines.extend(output.into_iter().map(|line| format!("it said: {line}")));
            DamageOutcome::Wrong(Finding::Silent, description.to_owned(), lines)
        }
    })
}

/// The lines that report damage, without their numbers, which differ from start to start.
fn reports(output: &[String]) -> BTreeSet<String> {
    let telling =
        output.iter().map(|line| line.to_lowercase()).filter(|line| WORDS.iter().any(|word| line.contains(word)));
    telling.map(|line| line.chars().filter(|letter| !letter.is_ascii_digit()).collect()).collect()
}

/// Damages one file, and says how.
fn damage(mut sound: Snapshot, rng: &mut Rng) -> (Snapshot, String) {
    let files: Vec<(PathBuf, usize)> = sound
        .items
        .iter()
        .filter_map(|(path, item)| match item {
            Item::File { bytes, .. } if !bytes.is_empty() => Some((path.clone(), bytes.len())),
            _ => None,
        })
        .collect();
    if files.is_empty() {
        return (sound, "nothing to damage".to_owned());
    }
    // Half of the time by size, half of the time any: small files matter, too.
    let total: usize = files.iter().map(|(_, length)| length).sum();
    let mut place = rng.index(total);
    let by_size = files.iter().find(|(_, length)| {
        let here = place < *length;
        place = place.saturating_sub(*length);
        here
    });
    let (path, length) = match by_size {
        Some(file) if rng.chance(50) => file.clone(),
        _ => files[rng.index(files.len())].clone(),
    };
    let name = path.display().to_string();
    let at = rng.index(length);
    let text = match (rng.within(0..8), sound.items.get_mut(&path)) {
        (0..4, Some(Item::File { bytes, .. })) => {
            let bit = rng.within(0..8);
            bytes[at] ^= 1 << bit;
            format!("bit {bit} of byte {at} of {length} of {name} flipped")
        }
        (4, Some(Item::File { bytes, .. })) => {
            let (start, end) = (at & !511, ((at & !511) + 512).min(length));
            bytes[start..end].fill(0);
            format!("bytes {start} to {end} of {length} of {name} zeroed")
        }
        (5, Some(Item::File { bytes, .. })) => {
            bytes.truncate(at);
            format!("{name} cut to {at} of {length} bytes")
        }
        (6, Some(Item::File { bytes, .. })) => {
            let end = (at + 1 + rng.index(64)).min(length);
            bytes[at..end].iter_mut().for_each(|byte| *byte = rng.next() as u8);
            format!("bytes {at} to {end} of {length} of {name} replaced")
        }
        _ => {
            sound.items.remove(&path);
            format!("{name} of {length} bytes removed")
        }
    };
    (sound, text)
}
