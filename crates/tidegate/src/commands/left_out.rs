//! Commands that a lean build leaves out: each is there to say so.

use tidegate_terminal::{Exit, report};

/// A command that names the feature that it needs, whatever its arguments are.
macro_rules! left_out {
    ($command:ident, $arguments:ident, $feature:literal) => {
        pub(crate) mod $command {
            use std::ffi::OsString;

            /// Not in this program
            #[derive(Clone, Debug, clap::Args)]
            #[command(disable_help_flag = true)]
            pub(crate) struct $arguments {
                #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
                rest: Vec<OsString>,
            }

            pub(crate) fn run(_: &$arguments) -> tidegate_terminal::Exit {
                super::refuse(stringify!($command), $feature)
            }
        }
    };
}

#[cfg(not(feature = "fleet"))]
left_out!(dns, Args, "fleet");
#[cfg(not(feature = "fleet"))]
left_out!(up, Args, "fleet");
#[cfg(not(feature = "fleet"))]
left_out!(manager, Args, "fleet");
#[cfg(not(feature = "fleet"))]
left_out!(fleet, FleetCommand, "fleet");
#[cfg(not(feature = "pipelines"))]
left_out!(hub, Args, "pipelines");
#[cfg(not(feature = "lab"))]
left_out!(lab, Args, "lab");

fn refuse(command: &str, feature: &str) -> Exit {
    report(&format_args!(
        "`tidegate {command}` needs the feature `{feature}`, and this program was built without it; take the full program, \
         or build this one with `--features {feature}`"
    ));
    Exit::Usage
}

#[cfg(all(test, not(any(feature = "fleet", feature = "pipelines", feature = "lab"))))]
mod tests {
    use clap::Parser;

    use crate::cli::{Cli, Command};

    #[test]
    fn a_command_left_out_takes_any_arguments() {
        for command in ["dns", "up", "manager", "fleet", "hub", "lab"] {
            let read = Cli::try_parse_from(["tidegate", command, "--help", "-c", "x", "status"]);
            assert!(matches!(
                read.unwrap().command,
                Some(
                    Command::Dns(_)
                        | Command::Up(_)
                        | Command::Manager(_)
                        | Command::Fleet(_)
                        | Command::Hub(_)
                        | Command::Lab(_)
                )
            ));
        }
    }
}
