//! From a template to a process.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tidegate_proc::program::find;

use super::left_behind;
use super::placeholder::fill;
use super::{PeerError, Template};

/// Standard output and error of a peer.
pub(super) const LOG: &str = "output.log";

/// The user of a broker if this program runs as root: `nobody`.
const UNPRIVILEGED: u32 = 65_534;

/// Takes as many open files as the first word says, or as are allowed when it is `all`; joins the cgroups named before
/// `--`, and becomes the program after it: the same process, so that nothing of it ever runs outside its limits.
const BECOME: &str = "if [ \"$1\" = all ]; then ulimit -n \"$(ulimit -H -n)\" 2> /dev/null; else ulimit -n \"$1\" || exit 72; fi; shift; \
                      while [ \"$1\" != -- ]; do echo 0 > \"$1\" || exit 71; shift; done; shift; \
                      exec \"$@\"";

/// The directories of installed peers and of their files while they run.
#[derive(Clone, Debug)]
pub struct PeerPaths {
    /// Installed programs, a directory for each peer.
    pub peers: PathBuf,
    /// Configuration, data and logs of the running ones, a directory for each.
    pub scratch: PathBuf,
    /// This program. It starts itself as load generator, as watchdog and as holder of a network.
    pub executable: PathBuf,
    /// The broker `tidegate`: beside this program, else in `PATH`. The file may be missing.
    pub broker: PathBuf,
}

impl PeerPaths {
    /// The usual places: programs in the user's cache (in `/var/cache` for root, so that brokers need not be root to
    /// read them), files in a directory of this process below the system's temporary one.
    ///
    /// # Errors
    /// When this program does not know where it is.
    pub fn usual() -> Result<Self, PeerError> {
        let executable = std::env::current_exe().map_err(PeerError::io("find", Path::new("this program")))?;
        let cache = if is_root() {
            PathBuf::from("/var/cache/tidegate-lab")
        } else {
            let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
            let home = std::env::var_os("HOME").map_or_else(std::env::temp_dir, PathBuf::from);
            own.unwrap_or_else(|| home.join(".cache")).join("tidegate-lab")
        };
        let scratch = std::env::temp_dir().join(format!("tidegate-lab-{}", std::process::id()));
        let broker = broker_of(&executable);
        Ok(Self { peers: cache.join("peers"), scratch, executable, broker })
    }

    pub(super) fn installed(&self, template: &Template) -> PathBuf {
        self.peers.join(&template.name)
    }

    /// The placeholders that need no running peer.
    pub(super) fn values(&self, template: &Template) -> BTreeMap<String, String> {
        let text = |path: &Path| path.display().to_string();
        BTreeMap::from([
            ("lab".to_owned(), text(&self.executable)),
            ("exe".to_owned(), text(&self.broker)),
            ("peers".to_owned(), text(&self.peers)),
            ("install".to_owned(), text(&self.installed(template))),
            ("name".to_owned(), template.name.clone()),
            ("path".to_owned(), std::env::var("PATH").unwrap_or_default()),
        ])
    }
}

/// The broker that belongs to this program: the file beside it, else the first one in `PATH`. Where neither exists, it
/// is the path beside this program, which the error then names.
pub fn broker_of(lab: &Path) -> PathBuf {
    let beside = lab.with_file_name("tidegate");
    if beside.exists() { beside } else { find("tidegate").unwrap_or(beside) }
}

/// The place of a broker: its network and its limits.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The address that it listens on.
    pub host: String,
    /// Files whose writers join a cgroup: its limits.
    pub cgroups: Vec<PathBuf>,
    /// Maximum number of open files of each of its processes; the system's limit by default.
    pub descriptors: Option<u32>,
    /// The file of the network namespace that it runs in; `None` is the namespace of this program.
    pub namespace: Option<PathBuf>,
}

/// The complete description of a process before its start.
pub(super) struct Plan<'a> {
    pub(super) template: &'a Template,
    pub(super) directory: &'a Path,
    pub(super) values: &'a BTreeMap<String, String>,
    /// Its place.
    pub(super) site: &'a Site,
}

/// A process and its user.
pub(super) struct Spawned {
    pub(super) child: Child,
    pub(super) program: PathBuf,
    /// Why it runs as root, when it does and need not.
    pub(super) note: Option<String>,
}

impl Plan<'_> {
    pub(super) fn write_files(&self) -> Result<(), PeerError> {
        fs::create_dir_all(self.directory).map_err(PeerError::io("make", self.directory))?;
        for (name, text) in &self.template.files {
            let path = self.directory.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(PeerError::io("make", parent))?;
            }
            fs::write(&path, fill(text, self.values)).map_err(PeerError::io("write", &path))?;
        }
        if is_root() {
            give_away(self.directory)?;
        }
        Ok(())
    }

    /// Runs the commands before it, each to its end.
    pub(super) fn prepare(&self) -> Result<(), PeerError> {
        for step in &self.template.prepare {
            let words: Vec<String> = step.iter().map(|word| fill(word, self.values)).collect();
            let failed = |message: String| PeerError::Step {
                peer: self.template.name.clone(),
                command: words.join(" "),
                message,
            };
            let Some((program, args)) = words.split_first() else { continue };
            let program = find(program).ok_or_else(|| failed("is not there".to_owned()))?;
            let (mut command, _) = self.command(&program, args);
            let log = self.log()?;
            command.stdout(log.try_clone().map_err(PeerError::io("open", self.directory))?).stderr(log);
            let status = command.status().map_err(|error| failed(error.to_string()))?;
            if !status.success() {
                return Err(failed(format!("ended with {status}; see {}", self.directory.join(LOG).display())));
            }
        }
        Ok(())
    }

    /// Spawns it in its own process group: keys typed at the terminal reach this program only, which stops it in
    /// order.
    pub(super) fn spawn(&self) -> Result<Spawned, PeerError> {
        let program = self.program()?;
        let args: Vec<String> = self.template.args.iter().map(|word| fill(word, self.values)).collect();
        let (mut command, note) = self.command(&program, &args);
        let log = self.log()?;
        command.stdout(log.try_clone().map_err(PeerError::io("open", self.directory))?).stderr(log);
        let child = command.spawn().map_err(PeerError::io("run", &program))?;
        Ok(Spawned { child, program, note })
    }

    fn command(&self, program: &Path, args: &[String]) -> (Command, Option<String>) {
        let mut command = within(&self.site.cgroups, self.site.descriptors);
        if let Some(namespace) = &self.site.namespace {
            command.arg("nsenter").arg(format!("--net={}", namespace.display())).arg("--");
        }
        let note = self.as_unprivileged(&mut command, program);
        command.arg(program).args(args);
        for (name, value) in &self.template.environment {
            command.env(name, fill(value, self.values));
        }
        command.env(left_behind::MARK, self.directory);
        command.current_dir(self.directory).stdin(Stdio::null()).process_group(0);
        (command, note)
    }

    /// Has the process change to another user, when this one is root and the other one can read the program.
    fn as_unprivileged(&self, command: &mut Command, program: &Path) -> Option<String> {
        if !is_root() {
            return None;
        }
        let Some(setpriv) = find("setpriv") else {
            return Some("it runs as root, since `setpriv` is not installed".to_owned());
        };
        if let Some(closed) = closed_to_others(program).or_else(|| closed_to_others(self.directory)) {
            return Some(format!("it runs as root, since {} is closed to other users", closed.display()));
        }
        let user = UNPRIVILEGED.to_string();
        command.arg(setpriv).args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"]);
        None
    }

    fn log(&self) -> Result<File, PeerError> {
        let path = self.directory.join(LOG);
        File::options().create(true).append(true).open(&path).map_err(PeerError::io("open", &path))
    }

    fn program(&self) -> Result<PathBuf, PeerError> {
        let commands: Vec<String> = self.template.command.iter().map(|command| fill(command, self.values)).collect();
        let found = commands.iter().find_map(|command| find(command));
        found.ok_or_else(|| self.template.missing(commands))
    }
}

/// A command that becomes the program which is added to it, after it has joined the cgroups whose files these are, with
/// as many open files, or all that are allowed.
pub(crate) fn within(cgroups: &[PathBuf], descriptors: Option<u32>) -> Command {
    let mut command = Command::new("/bin/sh");
    let files = descriptors.map_or_else(|| "all".to_owned(), |files| files.to_string());
    command.args(["-c", BECOME, "tidegate-lab", &files]).args(cgroups).arg("--");
    command
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The first directory or file on the way to a path that other users may not enter.
fn closed_to_others(path: &Path) -> Option<PathBuf> {
    let real = path.canonicalize().ok()?;
    real.ancestors().find(|part| part.metadata().is_ok_and(|metadata| metadata.mode() & 0o001 == 0)).map(Path::to_owned)
}

/// Makes the unprivileged user the owner of a directory and its content.
fn give_away(directory: &Path) -> Result<(), PeerError> {
    let failed = || PeerError::io("change the owner of", directory);
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        chown(&path, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).map_err(failed())?;
        if path.is_dir() {
            for entry in fs::read_dir(&path).map_err(failed())? {
                left.push(entry.map_err(failed())?.path());
            }
        }
    }
    Ok(())
}
