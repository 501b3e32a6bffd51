//! `tidegate lab peers`: the brokers to compare with.

use std::fmt::Write as _;

use clap::{Args as ClapArgs, Subcommand};
use tidegate_lab::peer::{Catalogue, PeerError, PeerPaths, install, is_installed};

use super::Folders;
use tidegate_terminal::{Exit, complain, print_and_exit, report};

/// The flags of `tidegate lab peers`.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    folders: Folders,
}

/// The action on them.
#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Install one from its registry
    Install {
        /// Its name
        #[arg(required = true)]
        names: Vec<String>,
    },
}

pub(crate) fn run(args: &Args) -> Exit {
    match done(args) {
        Ok(text) => print_and_exit(&text, Exit::Ok),
        Err(error @ (PeerError::Unknown { .. } | PeerError::Template { .. })) => {
            report(&error);
            Exit::Usage
        }
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn done(args: &Args) -> Result<String, PeerError> {
    let catalogue = Catalogue::with_directory(args.folders.peers.as_deref())?;
    let place = PeerPaths::usual()?;
    if let Some(Action::Install { names }) = &args.action {
        for name in names {
            install(catalogue.get(name)?, &place, |step| complain(format_args!("{step}\n")))?;
        }
        return Ok(String::new());
    }
    let mut out = String::new();
    let width = catalogue.all().map(|template| template.name.len()).max().unwrap_or_default();
    for template in catalogue.all() {
        let state = if is_installed(template, &place) { "installed" } else { "not installed" };
        let protocols = template.protocols.join(", ");
        // Writing to a text does not fail.
        let _ = writeln!(
            out,
            "{:width$}  {:13}  {} ({}): {protocols}",
            template.name, state, template.title, template.language
        );
    }
    Ok(out)
}
