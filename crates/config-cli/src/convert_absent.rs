//! `tidegate config convert` in a program without the feature `convert`: it names the feature.

use std::ffi::OsString;

use clap::Args;
use tidegate_terminal::Exit;

/// The arguments of `config convert`, whatever they are.
#[derive(Clone, Debug, Args)]
#[command(disable_help_flag = true)]
pub struct ConvertArgs {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// The arguments of `config keys`, whatever they are.
pub type KeysArgs = ConvertArgs;

/// Refuses to print keys.
pub(crate) fn keys(_: &KeysArgs) -> Exit {
    tidegate_terminal::refuse_left_out("tidegate config keys", "convert")
}

/// Refuses to convert.
pub(crate) fn run(_: &ConvertArgs) -> Exit {
    tidegate_terminal::refuse_left_out("tidegate config convert", "convert")
}
