//! `tidegate cert ...`.

mod dev;

pub(crate) use dev::Args as DevArgs;

use crate::cli::CertCommand;
use tidegate_terminal::Exit;

/// Does what is asked for with certificates.
pub(crate) fn run(command: &CertCommand) -> Exit {
    match command {
        CertCommand::Dev(args) => dev::run(args),
    }
}
