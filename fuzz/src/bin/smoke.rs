//! Runs every target over its corpus and over mutations of it, for a bounded time and without libFuzzer.
//!
//! Usage: `smoke [MUTATIONS [SEED]]`, where MUTATIONS are for each target. The same seed gives the same run.

use std::fs;
use std::panic::catch_unwind;
use std::process::ExitCode;

use tidegate_fuzz::mutate::Random;
use tidegate_fuzz::{TARGETS, Target};

const MUTATIONS: u64 = 200_000;
const SEED: u64 = 1;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| match arguments.next() {
        None => Ok(default),
        Some(text) => text.parse().map_err(|_| text),
    };
    let (mutations, seed) = match (number(MUTATIONS), number(SEED)) {
        (Ok(mutations), Ok(seed)) => (mutations, seed),
        (Err(text), _) | (_, Err(text)) => {
            eprintln!("{text:?} is not a number; usage: smoke [MUTATIONS [SEED]]");
            return ExitCode::from(2);
        }
    };
    println!("seed {seed}, {mutations} mutations for each target");
    for target in TARGETS {
        match run(target, mutations, seed) {
            Ok(inputs) => println!("{}: {inputs} inputs and {mutations} mutations hold", target.name),
            Err(problem) => {
                eprintln!("{}: {problem} (seed {seed})", target.name);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Runs a target; how many inputs its corpus has, or what went wrong.
fn run(target: &Target, mutations: u64, seed: u64) -> Result<usize, String> {
    let inputs = corpus(target)?;
    for input in &inputs {
        try_one(target, input)?;
    }
    let mut random = Random::new(seed);
    for _ in 0..mutations {
        try_one(target, &random.mutation(&inputs))?;
    }
    Ok(inputs.len())
}

/// The inputs of the corpus, in the order of their names, so that a seed means the same everywhere.
fn corpus(target: &Target) -> Result<Vec<Vec<u8>>, String> {
    let folder = target.corpus();
    let problem = |error| format!("cannot read {}: {error}", folder.display());
    let entries = fs::read_dir(&folder).map_err(problem)?;
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(problem)?;
    paths.sort();
    if paths.is_empty() {
        return Err(format!("{} is empty: run seed_corpus", folder.display()));
    }
    paths.iter().map(|path| fs::read(path).map_err(problem)).collect()
}

/// Tries one input; when it fails, it is kept as an artifact.
#[expect(
    clippy::disallowed_methods,
    reason = "a panic is what is looked for, and no broker runs here that it would leave halved"
)]
fn try_one(target: &Target, input: &[u8]) -> Result<(), String> {
    let fuzz_one = target.fuzz_one;
    if catch_unwind(|| fuzz_one(input)).is_ok() {
        return Ok(());
    }
    let digits: Vec<String> = input.iter().map(|byte| format!("{byte:02x}")).collect();
    let hex = digits.join(" ");
    let path = target.artifacts().join("smoke");
    let written = fs::create_dir_all(target.artifacts()).and_then(|()| fs::write(&path, input));
    let place = match written {
        Ok(()) => format!("written to {}", path.display()),
        Err(error) => format!("could not be written: {error}"),
    };
    Err(format!("the input {hex} fails; it is {place}"))
}
