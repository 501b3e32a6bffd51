//! From a template to a process.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tidegate_proc::program;

use super::LOG;
use super::placeholder::{self, Unknown};
use super::template::Template;
use crate::provider::ProviderError;

/// The environment variable that marks the processes of a resource, for a later manager.
pub(super) const MARK: &str = "TIDEGATE_FLEET_RESOURCE";

/// Joins the cgroups named before `--`, raises the limit of open files, and executes the program after it: in the same
/// process, so that no part of it ever runs outside its limits.
const BECOME: &str = "while [ \"$1\" != -- ]; do echo 0 > \"$1\" || exit 71; shift; done; shift; \
                      ulimit -n \"$(ulimit -H -n)\" 2> /dev/null; exec \"$@\"";

/// The data for spawning a process.
pub(super) struct Plan<'a> {
    pub(super) template: &'a Template,
    pub(super) directory: &'a Path,
    pub(super) values: BTreeMap<String, String>,
    pub(super) cgroup: &'a [PathBuf],
    pub(super) mark: &'a str,
}

impl Plan<'_> {
    /// Writes its files and spawns it, in its own process group: signals of the manager's terminal, and the
    /// manager's end, do not reach it.
    ///
    /// # Errors
    /// When the program is missing, or the system refuses.
    pub(super) fn spawn(&self) -> Result<Child, ProviderError> {
        for (name, text) in &self.template.files {
            let path = self.directory.join(name);
            fs::write(&path, self.fill(text)?).map_err(|source| failed("write", &path, source))?;
        }
        let program = self.program()?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", BECOME, "tidegate-fleet"]);
        command.args(self.cgroup.iter().map(|directory| directory.join("cgroup.procs")));
        command.arg("--").arg(&program);
        for text in &self.template.args {
            command.arg(self.fill(text)?);
        }
        // systemd monitors the manager, not its brokers.
        command.env_remove("NOTIFY_SOCKET");
        for (name, text) in &self.template.environment {
            command.env(name, self.fill(text)?);
        }
        command.env(MARK, self.mark);
        let log = self.open_log().map_err(|source| failed("open", &self.directory.join(LOG), source))?;
        let error = log.try_clone().map_err(|source| failed("open", &self.directory.join(LOG), source))?;
        command.current_dir(self.directory).stdin(Stdio::null()).stdout(log).stderr(error).process_group(0);
        command.spawn().map_err(|source| failed("run", &program, source))
    }

    /// Appending, so that it can be cut while it is written to.
    fn open_log(&self) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).open(self.directory.join(LOG))
    }

    fn fill(&self, text: &str) -> Result<String, ProviderError> {
        // A template whose placeholders are unknown is refused when it is read; this is for templates made in code.
        placeholder::fill(text, &self.values).map_err(|Unknown(name)| {
            let source = io::Error::new(io::ErrorKind::InvalidInput, format!("unknown placeholder {{{name}}}"));
            failed("fill in the template of", self.directory, source)
        })
    }

    fn program(&self) -> Result<PathBuf, ProviderError> {
        let commands: Vec<String> =
            self.template.commands.iter().map(|command| self.fill(command)).collect::<Result<_, _>>()?;
        let found = commands.iter().find_map(|command| program::find(command));
        found.ok_or_else(|| ProviderError::MissingCommand { template: self.template.name.clone(), commands })
    }
}

fn failed(attempt: &'static str, path: &Path, source: io::Error) -> ProviderError {
    ProviderError::Io { attempt, path: path.to_owned(), source }
}
