//! A series of runs.

use std::collections::BTreeMap;
use std::time::Duration;

use super::execute::{execute, planned};
use super::kept::{Kept, KeptError, Series};
use super::order::Order;
use super::progress::{Report, Said};
use super::task::{ExecuteError, Task};
use crate::peer::Peer;
use crate::report::shown;
use crate::results::{Environment, Measure, NotMeasured, PeerInfo, Results, Run, SCHEMA, Settings};
use crate::sample::Cgroups;
use crate::scenario::{Case, ScenarioError, shuffled};
use crate::stop::Stop;

/// Why a series could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Runs cannot be kept.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// No case has that in its name.
    #[error("no case of `{scenario}` has `{only}` in its name; there are: {}", known.join("; "))]
    NoCase {
        /// The scenario.
        scenario: String,
        /// The requested filter.
        only: String,
        /// All cases.
        known: Vec<String>,
    },
}

/// Makes all missing runs of an order. The results list the runs that cannot be made; a request to stop ends the series
/// after the runs that are finished.
///
/// # Errors
/// When nothing can be run, or results cannot be kept.
pub fn run(order: &Order, report: &mut dyn Report, stop: &Stop) -> Result<Results, RunError> {
    let cases = chosen_cases(order)?;
    let cgroups = Cgroups::detect();
    let limits = match &cgroups {
        Cgroups::Unavailable(why) => format!("not kept: {why}"),
        Cgroups::V1 { .. } => "by cgroups of version 1".to_owned(),
        Cgroups::V2(_) => "by cgroups of version 2".to_owned(),
    };
    let board = order.board.map(|board| board.name.to_owned());
    let (time_scale, repeat, seed, base) = (order.time_scale, order.repeat, order.seed, order.base.clone());
    let settings = Settings { time_scale, repeat, seed, base: base.clone(), board };
    let environment = Environment::of_this_machine(order.commit.clone(), limits);
    let series = Series { schema: SCHEMA.to_owned(), scenario: order.scenario.clone(), settings, environment };
    let (kept, series) = Kept::open(&order.out, series)?;
    let tasks = tasks(order, &cases, series.settings.seed);
    let mut results = Results {
        schema: SCHEMA.to_owned(),
        scenario: series.scenario,
        settings: Settings { repeat, base, ..series.settings },
        environment: series.environment,
        peers: BTreeMap::new(),
        runs: Vec::new(),
        not_measured: Vec::new(),
    };
    let mut done = Vec::new();
    for task in &tasks {
        done.push(kept.find(&task.id)?);
    }
    let missing = tasks.iter().zip(&done).filter(|(_, there)| there.is_none());
    let about = missing.map(|(task, _)| planned(order, task)).sum();
    report.say(Said::Begin { runs: tasks.len(), kept: done.iter().flatten().count(), about });
    let mut ports = order.ports.clone();
    for (task, there) in tasks.iter().zip(done) {
        if let Some((run, info)) = there {
            take_in(&mut results, run, info);
            continue;
        }
        let made = if stop.is_asked() {
            Err(ExecuteError::Stopped)
        } else {
            execute(order, task, &cgroups, &mut ports, report, stop)
        };
        match made {
            Ok((run, info)) => {
                if run.load.stopped {
                    results.not_measured.push(cut_short(order, task, &run));
                } else {
                    kept.keep(&task.id, &run, &info)?;
                }
                report.say(Said::Done(summary(&run)));
                take_in(&mut results, run, info);
            }
            Err(error) => {
                if !matches!(error, ExecuteError::Stopped) {
                    report.say(Said::Done(format!("{}, {}: {error}", task.case.name, task.peer.name())));
                }
                results.not_measured.push(NotMeasured {
                    peer: task.peer.name().to_owned(),
                    case: task.case.name.clone(),
                    repetition: task.repetition,
                    why: error.to_string(),
                    broker_ended: error.is_end_of_broker(),
                });
            }
        }
    }
    // The scratch directory is empty unless a broker failed, whose log is then wanted.
    let _ = std::fs::remove_dir(&order.place.scratch);
    Ok(results)
}

/// The missing part of a run that was stopped before its end.
fn cut_short(order: &Order, task: &Task<'_>, run: &Run) -> NotMeasured {
    let load = &run.load;
    let whole = Duration::from_secs(load.measured_to_ns.saturating_sub(load.measured_from_ns) / 1_000_000_000);
    let shown = |time: Duration| humantime::format_duration(time).to_string();
    let due = order.duration.map(|due| format!(" of {}", shown(due))).unwrap_or_default();
    NotMeasured {
        peer: task.peer.name().to_owned(),
        case: task.case.name.clone(),
        repetition: task.repetition,
        why: format!("stopped after {}{due}: the results have the measurements until then", shown(whole)),
        broker_ended: false,
    }
}

fn take_in(results: &mut Results, run: Run, info: PeerInfo) {
    results.peers.insert(run.peer.clone(), info);
    results.runs.push(run);
}

fn chosen_cases(order: &Order) -> Result<Vec<Case>, RunError> {
    let mut cases = order.scenario.cases()?;
    if let Some(only) = &order.only {
        let known: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
        cases.retain(|case| case.name.contains(only.as_str()));
        if cases.is_empty() {
            return Err(RunError::NoCase { scenario: order.scenario.name.clone(), only: only.clone(), known });
        }
    }
    if let Some(board) = &order.board {
        for case in &mut cases {
            case.limits = board.within(case.limits);
            case.network = board.network(case.network);
        }
    }
    cases.truncate(order.cases.map_or(usize::MAX, |cases| cases as usize));
    Ok(cases)
}

/// Every case with every broker, in each repetition in another order.
fn tasks<'a>(order: &'a Order, cases: &'a [Case], seed: u64) -> Vec<Task<'a>> {
    let pairs: Vec<(&Case, &Peer)> =
        cases.iter().flat_map(|case| order.peers.iter().map(move |peer| (case, peer))).collect();
    (1..=order.repeat)
        .flat_map(|repetition| {
            let pairs = &pairs;
            shuffled(pairs.len(), seed.wrapping_add(u64::from(repetition))).into_iter().filter_map(move |place| {
                let (case, peer) = *pairs.get(place)?;
                let id = format!("{}--{}--{repetition}", slug(&case.name), slug(peer.name()));
                // The same load for every broker: its seed depends on the case and the repetition alone.
                let seed = seed ^ id_number(&case.name) ^ u64::from(repetition);
                Some(Task { id, case, peer, repetition, seed })
            })
        })
        .collect()
}

/// A name as part of a file's name.
fn slug(name: &str) -> String {
    let mut slug: String = name
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character.to_ascii_lowercase() } else { '-' })
        .collect();
    while slug.contains("--") {
        slug = slug.replace("--", "-");
    }
    slug.trim_matches('-').to_owned()
}

/// FNV-1a, so that a name always gives the same number.
fn id_number(name: &str) -> u64 {
    name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

fn summary(run: &Run) -> String {
    let numbers = run_measures(run).into_iter().map(|(measure, value)| {
        let (name, unit) = measure.name();
        format!("{} {} {unit}", within(name), shown(value))
    });
    let numbers: Vec<String> = numbers.collect();
    let invalid = run.invalid.as_ref().map(|why| format!("; not valid: {why}")).unwrap_or_default();
    format!("{}, {}, {}: {}{invalid}", run.case, run.peer, run.repetition, numbers.join(", "))
}

/// The name of a measure within a list with commas: without its own comma, and with a small letter where it is not an
/// abbreviation.
fn within(name: &str) -> String {
    let mut letters = name.chars().filter(|letter| *letter != ',');
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

fn run_measures(run: &Run) -> Vec<(Measure, f64)> {
    let shown = [Measure::Throughput, Measure::Lost, Measure::LatencyP99, Measure::CpuPerDelivery, Measure::MemoryPeak];
    shown.into_iter().filter_map(|measure| Some((measure, measure.of(run)?))).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::peer::Catalogue;
    use crate::peer::{PeerPaths, Ports};
    use crate::scenario::Library;

    #[test]
    fn each_repetition_runs_every_pair_with_one_load() {
        let catalogue = Catalogue::shipped().unwrap();
        let peers = ["tidegate", "mosquitto"].map(|name| Peer::read(name, &catalogue).unwrap());
        let scenario = Library::shipped().unwrap().get("smoke").unwrap();
        let cases = scenario.cases().unwrap();
        let order = Order {
            scenario,
            peers: peers.to_vec(),
            only: None,
            cases: None,
            board: None,
            out: PathBuf::new(),
            time_scale: 1.0,
            repeat: 3,
            duration: None,
            keep_stopped: false,
            base: None,
            seed: 1,
            processes: 1,
            sources: Vec::new(),
            place: PeerPaths::usual().unwrap(),
            host: "127.0.0.1".to_owned(),
            ports: Ports::default(),
            commit: None,
        };
        let tasks = tasks(&order, &cases, 1);
        assert_eq!(tasks.len(), 2 * 3 * cases.len());
        let ids: std::collections::BTreeSet<&String> = tasks.iter().map(|task| &task.id).collect();
        assert_eq!(ids.len(), tasks.len());
        let seeds: std::collections::BTreeSet<u64> = tasks.iter().map(|task| task.seed).collect();
        assert_eq!(seeds.len(), 3 * cases.len());
    }

    #[test]
    fn a_listed_measure_has_no_comma_and_keeps_abbreviations() {
        assert_eq!(within(Measure::LatencyP99.name().0), "latency p99");
        assert_eq!(within(Measure::CpuPerDelivery.name().0), "broker CPU per delivery");
    }

    #[test]
    fn a_name_becomes_part_of_a_file_name() {
        assert_eq!(slug("1000 devices, QoS 1 (JSON)"), "1000-devices-qos-1-json");
    }
}
