//! Commands that a lean build leaves out: each is there to say so.

/// A command that names the feature that it needs, whatever its arguments are.
macro_rules! left_out {
    ($module:ident, $arguments:ident, $command:literal, $feature:literal) => {
        left_out!($module, $arguments, $command, $feature, &$arguments => tidegate_terminal::Exit);
    };
    ($module:ident, $arguments:ident, $command:literal, $feature:literal, $taken:ty => $exit:ty) => {
        pub(crate) mod $module {
            use std::ffi::OsString;

            /// Not in this program
            #[derive(Clone, Debug, clap::Args)]
            #[command(disable_help_flag = true)]
            pub(crate) struct $arguments {
                #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
                rest: Vec<OsString>,
            }

            pub(crate) fn run(_: $taken) -> $exit {
                tidegate_terminal::refuse_left_out(concat!("tidegate ", $command), $feature).into()
            }
        }
    };
}

#[cfg(not(feature = "fleet"))]
left_out!(dns, Args, "dns", "fleet");
#[cfg(not(feature = "fleet"))]
left_out!(up, Args, "up", "fleet");
#[cfg(not(feature = "fleet"))]
left_out!(manager, Args, "manager", "fleet");
#[cfg(not(feature = "fleet"))]
left_out!(fleet, FleetCommand, "fleet", "fleet");
#[cfg(not(feature = "pipelines"))]
left_out!(hub, Args, "hub", "pipelines");
#[cfg(not(feature = "mobile"))]
left_out!(core, Args, "core", "mobile");
#[cfg(not(feature = "lab"))]
left_out!(lab, Args, "lab", "lab");
#[cfg(not(feature = "clients"))]
left_out!(publish, Args, "pub", "clients", Args => std::process::ExitCode);
#[cfg(not(feature = "clients"))]
left_out!(subscribe, Args, "sub", "clients", Args => std::process::ExitCode);
#[cfg(not(feature = "clients"))]
left_out!(request, Args, "rr", "clients", Args => std::process::ExitCode);
#[cfg(not(feature = "admin"))]
left_out!(why, Args, "why", "admin");
#[cfg(not(feature = "admin"))]
left_out!(clients, Args, "clients", "admin");
#[cfg(not(feature = "admin"))]
left_out!(ban, Args, "ban", "admin");
#[cfg(not(feature = "admin"))]
left_out!(kick, Args, "kick", "admin");
#[cfg(not(feature = "admin"))]
left_out!(drain, Args, "drain", "admin");
#[cfg(not(feature = "admin"))]
left_out!(ready, ReadyArgs, "ready", "admin");
#[cfg(not(feature = "admin"))]
left_out!(meter, MeterArgs, "meter", "admin");
#[cfg(not(feature = "admin"))]
left_out!(reload, Args, "reload", "admin");

#[cfg(test)]
mod tests {
    use clap::Parser;

    use tidegate_terminal::Exit;

    left_out!(example, Args, "example", "lab");

    #[derive(Parser)]
    enum Line {
        Example(example::Args),
    }

    #[test]
    fn a_command_left_out_is_refused_with_any_arguments() {
        let read = Line::try_parse_from(["tidegate", "example", "--help", "-c", "x", "status"]);
        let Line::Example(args) = read.unwrap();
        assert_eq!(example::run(&args), Exit::Usage);
    }
}
