//! `tidegate lab list`: the scenarios.

use std::fmt::Write as _;

use clap::Args as ClapArgs;
use serde_json::json;
use tidegate_lab::scenario::{Library, Scenario};

use super::Folders;
use tidegate_terminal::{Exit, print_and_exit, report};

/// The flags of `tidegate lab list`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    folders: Folders,
}

pub(crate) fn run(args: &Args) -> Exit {
    let library = match Library::with_directory(args.folders.scenarios.as_deref()) {
        Ok(library) => library,
        Err(error) => {
            report(&error);
            return Exit::Usage;
        }
    };
    let cases = |scenario: &Scenario| scenario.cases().map_or(0, |cases| cases.len());
    if args.json {
        let list: Vec<_> = library
            .all()
            .iter()
            .map(|scenario| {
                json!({
                    "name": scenario.name, "title": scenario.title, "question": scenario.question,
                    "ids": scenario.ids, "cases": cases(scenario),
                })
            })
            .collect();
        return print_and_exit(&format!("{}\n", json!(list)), Exit::Ok);
    }
    let width = library.all().iter().map(|scenario| scenario.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for scenario in library.all() {
        let cases = cases(scenario);
        let cases = if cases == 1 { "1 case".to_owned() } else { format!("{cases} cases") };
        // Writing to a text does not fail.
        let _ = writeln!(out, "{:width$}  {} ({cases})", scenario.name, scenario.title);
        let _ = writeln!(out, "{:width$}  {}", "", scenario.question);
    }
    print_and_exit(&out, Exit::Ok)
}
