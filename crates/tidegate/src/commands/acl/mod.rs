//! `tidegate acl ...`.

mod test;

use crate::cli::AclCommand;
use tidegate_terminal::Exit;

/// Does what is asked for with rules.
pub(crate) fn run(command: &AclCommand) -> Exit {
    match command {
        AclCommand::Test(args) => test::run(args),
    }
}

pub(crate) use test::Args as TestArgs;
