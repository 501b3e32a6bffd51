//! Loads a configuration for a command, and reports its errors.

use tidegate_config::Config;
use tidegate_config::load::LoadError;
use tidegate_terminal::{Exit, complain, report};

use crate::args::ConfigArgs;

/// Loads the configuration that the flags of a command name. An error is reported here.
///
/// # Errors
/// The exit code, when the file cannot be read, or a key or a value is wrong.
pub fn load(args: &ConfigArgs) -> Result<Config, Exit> {
    args.sources().load().map_err(|error| {
        report_load_error(&error);
        Exit::Usage
    })
}

/// Reports why a configuration cannot be loaded.
pub(crate) fn report_load_error(error: &LoadError) {
    let LoadError::Wrong(findings) = error else { return report(error) };
    complain(findings);
    if findings.len() > 1 {
        complain(format_args!("\n{} problems in the configuration\n", findings.len()));
    }
}
