//! `tidegate lab`: starts `tidegate-lab`, the program that measures brokers.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args as ClapArgs;
use tidegate_terminal::{Exit, report};

/// The program's file name.
const PROGRAM: &str = "tidegate-lab";

/// Measure any message broker from outside: load, sampling, reports (the program `tidegate-lab`)
#[derive(Clone, Debug, ClapArgs)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// Passed to `tidegate-lab`; `tidegate lab --help` lists its commands
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes `tidegate-lab`: the same process, so that signals and the exit code are the lab's.
pub(crate) fn run(args: &Args) -> Exit {
    let program = beside(std::env::current_exe().ok().as_deref());
    let error = Command::new(&program).args(&args.arguments).exec();
    if error.kind() == io::ErrorKind::NotFound {
        report(&format_args!(
            "`{PROGRAM}` lies neither beside `tidegate` nor on the path; build it with `cargo build --release -p {PROGRAM}`"
        ));
    } else {
        report(&format_args!("cannot start {}: {error}", program.display()));
    }
    Exit::Failure
}

/// The file beside this program if it exists, else the name, which is then looked up in `PATH`.
fn beside(own: Option<&Path>) -> PathBuf {
    let file = own.map(|path| path.with_file_name(PROGRAM)).filter(|path| path.is_file());
    file.unwrap_or_else(|| PathBuf::from(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lab_beside_this_program_comes_before_the_path() {
        let directory = std::env::temp_dir().join(format!("tidegate-beside-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let own = directory.join("tidegate");
        assert_eq!(beside(Some(&own)), PathBuf::from(PROGRAM));
        std::fs::write(directory.join(PROGRAM), "").unwrap();
        assert_eq!(beside(Some(&own)), directory.join(PROGRAM));
        assert_eq!(beside(None), PathBuf::from(PROGRAM));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
