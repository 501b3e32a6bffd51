//! The call of the function of each command.

use std::process::ExitCode;

use tidegate_access_cli::{acl, cert, key, passwd};

use crate::commands::run;

use super::{
    Cli, Command, ban, clients, completions, core, dns, drain, fleet, hub, kick, lab, manager, manual, meter, publish,
    ready, reload, request, subscribe, up, why,
};

/// Runs the command of the command line.
pub(crate) fn dispatch(cli: Cli) -> ExitCode {
    match cli.command {
        None => run::run(&cli.run).into(),
        Some(Command::Run(sources)) => run::run(&sources).into(),
        Some(Command::Orchestrator(args)) => run::run(&args.sources()).into(),
        Some(Command::Pub(args)) => publish::run(*args),
        Some(Command::Sub(args)) => subscribe::run(*args),
        Some(Command::Rr(args)) => request::run(*args),
        Some(Command::Why(args)) => why::run(&args).into(),
        Some(Command::Clients(args)) => clients::run(&args).into(),
        Some(Command::Ban(args)) => ban::run(&args).into(),
        Some(Command::Kick(args)) => kick::run(&args).into(),
        Some(Command::Meter(args)) => meter::run(&args).into(),
        Some(Command::Dns(args)) => dns::run(&args).into(),
        Some(Command::Drain(args)) => drain::run(&args).into(),
        Some(Command::Ready(args)) => ready::run(&args).into(),
        Some(Command::Cert(command)) => cert::run(&command).into(),
        Some(Command::Acl(command)) => acl::run(&command).into(),
        Some(Command::Fleet(command)) => fleet::run(&command).into(),
        Some(Command::Core(args)) => core::run(&args).into(),
        Some(Command::Hub(args)) => hub::run(&args).into(),
        Some(Command::Lab(args)) => lab::run(&args).into(),
        Some(Command::Up(args)) => up::run(&args).into(),
        Some(Command::Manager(args)) => manager::run(&args).into(),
        Some(Command::Store(command)) => tidegate_store_cli::run(&command).into(),
        Some(Command::Passwd(args)) => passwd::run(&args).into(),
        Some(Command::Key(command)) => key::run(&command).into(),
        Some(Command::Reload(args)) => reload::run(&args).into(),
        Some(Command::Config(command)) => tidegate_config_cli::command::run(&command).into(),
        Some(Command::Completions { shell }) => completions::run(shell).into(),
        Some(Command::Manual { subject }) => manual::run(subject).into(),
    }
}
