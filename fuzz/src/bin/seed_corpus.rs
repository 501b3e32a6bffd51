//! Writes the seeds of every target into its corpus.

use std::fs;
use std::process::ExitCode;

use tidegate_fuzz::{TARGETS, Target};

fn main() -> ExitCode {
    for target in TARGETS {
        match write(target) {
            Ok(count) => println!("{}: {count} seeds", target.name),
            Err(error) => {
                eprintln!("cannot write {}: {error}", target.corpus().display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn write(target: &Target) -> std::io::Result<usize> {
    let folder = target.corpus();
    fs::create_dir_all(&folder)?;
    let seeds = (target.seeds)();
    for (name, input) in &seeds {
        fs::write(folder.join(name), input)?;
    }
    Ok(seeds.len())
}
