//! The directory of a fleet's state, and the search for it when no flag names it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use tidegate_admin::manager::{GetHealth, GetPlan, GetStatus};
use tidegate_fleet::fleet_file::{FleetFile, FleetFileError};
use tidegate_fleet::manage::driver::{LEFT, MANAGER_FILE, STATUS_FILE, is_running};

use tidegate_admin_cli::admin_client::{AdminArgs, AdminError, shown, time};
use tidegate_terminal::{Exit, print_and_exit, report};

/// Largest file of a status, bytes.
const MAX_STATUS: u64 = 64 * 1024 * 1024;

/// The fleet of a command.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FleetArgs {
    /// Its fleet file
    #[arg(long, value_name = "FILE")]
    fleet: Option<PathBuf>,

    /// Its state directory
    #[arg(long, value_name = "DIR", conflicts_with = "fleet")]
    state: Option<PathBuf>,
}

/// Why there is no answer about a fleet.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    /// The fleet file.
    #[error(transparent)]
    File(#[from] FleetFileError),
    /// None is known.
    #[error(
        "no fleet of this user is known; start one with `tidegate up FLEET.toml`, or name it with --fleet or --state"
    )]
    None,
    /// Several fleets could be meant.
    #[error("several fleets are known: {}; name one with --state", .0.join(", "))]
    Several(Vec<String>),
    /// The state cannot be read.
    #[error("cannot read {}: {source}; is it the state directory of a fleet that has run?", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The state is no JSON.
    #[error("{} is damaged: {problem}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// The manager runs and does not answer.
    #[error("the fleet's manager does not answer: {0}")]
    Silent(String),
}

/// The state directory of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct FleetDirectory {
    pub directory: PathBuf,
}

/// The known state of a fleet.
pub(crate) struct Known {
    pub status: Value,
    pub plan: Value,
    /// The source of that path.
    pub source: String,
    /// The state of the fleet's manager.
    pub manager: ManagerState,
}

/// The state of the manager of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManagerState {
    /// It works.
    Running,
    /// It has stopped its fleet, and ended.
    Stopped,
    /// It has ended on request, and its fleet runs on.
    Left,
    /// It has ended, and its fleet was not stopped, or not all of it.
    Dead,
}

impl ManagerState {
    /// As it is called in `manager.state`.
    fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Left => LEFT,
            Self::Dead => "dead",
        }
    }
}

impl Known {
    /// The age of the known state, for a person: empty while the manager works.
    pub(crate) fn age(&self) -> String {
        let at = |member: &str| time(self.status[member].as_u64().unwrap_or_default());
        match self.manager {
            ManagerState::Running => String::new(),
            ManagerState::Stopped => format!("stopped at {}", at("stopped_ms")),
            ManagerState::Left => {
                let at = time(self.status["manager"]["left_ms"].as_u64().unwrap_or_default());
                format!("manager stopped at {at}, the fleet runs on without it; as it was then")
            }
            ManagerState::Dead if self.status["state"] == "stopping" => {
                format!("manager dead, its stop of the fleet of {} was cut off", at("stopping_since_ms"))
            }
            ManagerState::Dead => format!("manager dead; as it was at {}", at("at_ms")),
        }
    }

    /// Failure where a manager should work and does not.
    pub(crate) fn exit(&self) -> Exit {
        if self.manager == ManagerState::Dead { Exit::Failure } else { Exit::Ok }
    }
}

impl FleetArgs {
    /// Prints a document about the fleet: as JSON, or as text for people.
    pub(crate) fn show(&self, as_json: bool, json: fn(&Known) -> &Value, text: fn(&Known) -> String) -> Exit {
        match self.find().and_then(|place| place.known()) {
            Ok(known) if as_json => print_and_exit(&format!("{}\n", json(&known)), known.exit()),
            Ok(known) => print_and_exit(&text(&known), known.exit()),
            Err(error) => {
                report(&error);
                Exit::Failure
            }
        }
    }

    /// The named fleet, else the only running fleet, else the only known fleet.
    ///
    /// # Errors
    /// When it cannot be said which.
    pub(crate) fn find(&self) -> Result<FleetDirectory, PlaceError> {
        if let Some(directory) = &self.state {
            return Ok(FleetDirectory { directory: directory.clone() });
        }
        if let Some(path) = &self.fleet {
            return Ok(FleetDirectory { directory: state_directory(&FleetFile::load(path)?) });
        }
        let known = registered();
        let running: Vec<&PathBuf> = known.iter().filter(|directory| is_running(directory)).collect();
        let candidates = if running.is_empty() { known.iter().collect() } else { running };
        match candidates.as_slice() {
            [] => Err(PlaceError::None),
            [only] => Ok(FleetDirectory { directory: (*only).clone() }),
            several => Err(PlaceError::Several(several.iter().map(|path| path.display().to_string()).collect())),
        }
    }
}

impl FleetDirectory {
    /// The manager's answers or, when it is dead or has stopped the fleet, its last ones.
    ///
    /// # Errors
    /// When neither can be had.
    pub(crate) fn known(&self) -> Result<Known, PlaceError> {
        if is_running(&self.directory) {
            let about = read(&self.directory.join(MANAGER_FILE))?;
            let admin = about["http"].as_str().unwrap_or_default().to_owned();
            let api = AdminArgs { admin: admin.clone(), token_file: None };
            let silent = |error: AdminError| PlaceError::Silent(error.to_string());
            // A hanging manager still answers with its last state: its health says that it hangs.
            api.send(&GetHealth).map_err(silent)?;
            let (status, plan) = (api.send(&GetStatus).map_err(silent)?, api.send(&GetPlan).map_err(silent)?);
            return Ok(Known { status, plan, source: admin, manager: ManagerState::Running });
        }
        let mut kept = read(&self.directory.join(STATUS_FILE))?;
        let (mut status, plan) = (kept["status"].take(), kept["plan"].take());
        let stopped = status.get("state").is_some_and(|state| state == "stopped");
        let manager = match status["manager"]["state"].as_str() {
            _ if stopped => ManagerState::Stopped,
            Some(LEFT) => ManagerState::Left,
            _ => ManagerState::Dead,
        };
        if let Some(about) = status.get_mut("manager").and_then(Value::as_object_mut) {
            about.insert("state".to_owned(), json!(manager.name()));
        }
        Ok(Known { status, plan, source: self.directory.display().to_string(), manager })
    }
}

/// The state directory of a fleet: that of its file, else below the user's state directory.
pub(super) fn state_directory(file: &FleetFile) -> PathBuf {
    file.directory.clone().unwrap_or_else(|| fleets().join(&file.settings.fleet))
}

/// `$XDG_STATE_HOME/tidegate/fleets`, or `~/.local/state/tidegate/fleets`, or without a home `tidegate-fleets` here.
fn fleets() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(set("HOME")?.join(".local/state")));
    state.map_or_else(|| PathBuf::from("tidegate-fleets"), |state| state.join("tidegate/fleets"))
}

/// Notes where a fleet's state is, so that it is found without being named.
///
/// # Errors
/// When the note cannot be written.
pub(super) fn register(name: &str, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(fleets())?;
    let directory = fs::canonicalize(directory)?;
    fs::write(note(name, &directory), format!("{}\n", json!({"fleet": name, "directory": directory})))
}

/// Two fleets of one name in different directories have notes of their own.
fn note(name: &str, directory: &Path) -> PathBuf {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    directory.hash(&mut hasher);
    fleets().join(format!("{name}-{:08x}.json", hasher.finish() & 0xffff_ffff))
}

fn registered() -> Vec<PathBuf> {
    let entries = fs::read_dir(fleets()).into_iter().flatten().flatten();
    let notes = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "json"));
    let directories = notes.filter_map(|path| Some(PathBuf::from(read(&path).ok()?["directory"].as_str()?)));
    let mut directories: Vec<PathBuf> = directories.filter(|directory| directory.exists()).collect();
    directories.sort();
    directories
}

fn read(path: &Path) -> Result<Value, PlaceError> {
    use std::io::Read;
    let mut text = String::new();
    fs::File::open(path)
        .and_then(|file| file.take(MAX_STATUS).read_to_string(&mut text))
        .map_err(|source| PlaceError::Read { path: path.to_owned(), source })?;
    serde_json::from_str(&text)
        .map_err(|error| PlaceError::Damaged { path: path.to_owned(), problem: error.to_string() })
}

/// A value of an answer for a terminal.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => shown(text),
        other => other.to_string(),
    }
}
