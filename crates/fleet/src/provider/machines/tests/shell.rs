//! The provider with real commands, whose machines are entries of a directory.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, test_kill_process};

use super::super::call::Call;
use super::super::runner::Outcome;
use super::super::*;
use super::cloud::{name, settings, wanted};

/// A cloud in a directory: a file for each machine.
const CLOUD: &str = r#"#!/bin/sh
set -eu
case "$1" in
  allocate) [ ! -e refuse ] || { echo "no quota" >&2; exit 4; }
            : > "vm-$3" ;;
  list) [ ! -e fails-once ] || { rm fails-once; exit 5; }
        [ ! -e fails ] || { echo "try later" >&2; exit 6; }
        echo "[]"
        for vm in vm-*; do
          [ ! -e "$vm" ] || echo "{\"name\": \"${vm#vm-}\", \"host\": \"127.0.0.1\", \"port\": $(cat port), \"cpu\": 0.25}"
        done ;;
  release) rm -f "vm-$2" ;;
esac
"#;

fn cloud(folder: &Path, port: u16) -> MachineSettings {
    fs::write(folder.join("cloud"), CLOUD).unwrap();
    fs::write(folder.join("port"), port.to_string()).unwrap();
    let mut settings = settings();
    for command in [&mut settings.commands.allocate, &mut settings.commands.list, &mut settings.commands.release] {
        command.insert(0, "sh".to_owned());
    }
    let (second, ms) = (Duration::from_secs(1), Duration::from_millis(1));
    settings.limits = Limits { time_limit: second * 300, backoff: ms * 10, list_interval: ms * 10, ..settings.limits };
    MachineSettings { directory: folder.to_owned(), ..settings }
}

/// Opens machines, and no signal comes.
fn open(settings: MachineSettings, state: PathBuf) -> Result<Machines, ProviderError> {
    Machines::open(settings, state, &mut || false)
}

/// The folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(of: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-machines-{}-{of}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn observed(machines: &mut Machines, holds: impl Fn(&[Observed]) -> bool) -> Vec<Observed> {
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        let all = machines.observe(Look::Everything).unwrap();
        if holds(&all) {
            return all;
        }
        assert!(Instant::now() < deadline, "{all:#?}");
        std::thread::yield_now();
    }
}

#[test]
fn commands_make_list_and_remove_a_machine() {
    let folder = Folder::new("life");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = cloud(&folder.0, listener.local_addr().unwrap().port());
    // A TCP connection is an answer then.
    settings.levels.get_mut(&crate::level::Level::Broker).unwrap().secure = true;
    let state = folder.0.join("state");
    let mut machines = open(settings.clone(), state.clone()).unwrap();
    machines.allocate(&wanted("broker-1")).unwrap();
    let all = observed(&mut machines, |all| all.iter().any(|it| it.condition == Condition::Online));
    let port = listener.local_addr().unwrap().port();
    assert_eq!((all[0].resource.address.clone(), all[0].cpu), (format!("mqtts://127.0.0.1:{port}"), Some(0.25)));
    drop(machines);

    // A later manager knows it, and one that no longer answers is down.
    drop(listener);
    let mut machines = open(settings, state).unwrap();
    let all = observed(&mut machines, |all| matches!(all[0].condition, Condition::Down(_)));
    assert_eq!(all.len(), 1);
    let refused = machines.allocate(&wanted("broker-1")).unwrap_err().to_string();
    assert!(refused.contains("runs and does not answer"), "{refused}");
    let deadline = Instant::now() + Duration::from_secs(300);
    while machines.release(&name("broker-1")).unwrap() == Release::Stopping {
        assert!(Instant::now() < deadline);
        machines.observe(Look::Everything).unwrap();
    }
    assert!(!folder.0.join("vm-broker-1").exists());
    assert!(machines.observe(Look::Conditions).unwrap().is_empty());
}

#[test]
fn an_error_of_a_command_reaches_the_manager() {
    let folder = Folder::new("error");
    let settings = cloud(&folder.0, 1);
    fs::write(folder.0.join("refuse"), "").unwrap();
    let mut machines = open(settings.clone(), folder.0.join("state")).unwrap();
    let deadline = Instant::now() + Duration::from_secs(300);
    let error = loop {
        if let Err(error) = machines.allocate(&wanted("broker-1")) {
            break error.to_string();
        }
        assert!(Instant::now() < deadline);
        machines.observe(Look::Everything).unwrap();
    };
    let command = "sh ./cloud allocate demo broker-1 broker small 1";
    assert_eq!(error, format!("`{command}` ended with exit code 4: no quota"));

    let mut wrong = settings;
    wrong.commands.list = ["sh", "-c", "echo all is well"].map(str::to_owned).to_vec();
    let error = open(wrong, folder.0.join("other")).unwrap_err().to_string();
    assert!(error.contains("is no list of machines: expected value"), "{error}");
}

#[test]
fn a_relative_directory_of_the_fleet_file_has_its_programs() {
    let folder = Folder::new("relative");
    std::os::unix::fs::symlink("/bin/sh", folder.0.join("cloud")).unwrap();
    let here = std::env::current_dir().unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(folder.0.strip_prefix("/").unwrap());
    assert!(relative.is_relative() && relative.join("cloud").exists(), "{relative:?}");
    let mut settings = settings().below(&relative);
    settings.commands.list = ["./cloud", "-c", "echo []; [ -e cloud ]"].map(str::to_owned).to_vec();
    open(settings, folder.0.join("state")).unwrap();
}

#[test]
fn a_list_that_fails_once_does_not_end_the_start() {
    let folder = Folder::new("once");
    let settings = cloud(&folder.0, 1);
    fs::write(folder.0.join("fails-once"), "").unwrap();
    open(settings.clone(), folder.0.join("state")).unwrap();
    fs::write(folder.0.join("fails"), "").unwrap();
    let error = open(settings, folder.0.join("state")).unwrap_err().to_string();
    assert!(error.contains("ended with exit code 6: try later"), "{error}");
}

#[test]
fn machines_are_observed_while_list_fails() {
    let folder = Folder::new("blind");
    // Nothing listens there: the machine is starting.
    let settings = cloud(&folder.0, 1);
    let mut machines = open(settings, folder.0.join("state")).unwrap();
    machines.allocate(&wanted("broker-1")).unwrap();
    observed(&mut machines, |all| all.iter().any(|it| it.cpu.is_some()));
    fs::write(folder.0.join("fails"), "").unwrap();
    observed(&mut machines, |all| all[0].resource.note.contains("exit code 6: try later"));
    assert!(machines.list().is_ok_and(|all| all.len() == 1));
}

#[test]
fn a_signal_ends_the_wait_for_the_first_list() {
    let folder = Folder::new("signal");
    let mut settings = cloud(&folder.0, 1);
    let script = "echo $$ > pid; touch begun; sleep 3000";
    settings.commands.list = ["sh", "-c", script].map(str::to_owned).to_vec();
    let begun = folder.0.join("begun");
    let error = Machines::open(settings, folder.0.join("state"), &mut || begun.exists()).unwrap_err();
    assert!(error.is_interruption(), "{error}");
    assert!(error.to_string().contains("a signal ended the manager before `list`"), "{error}");
    let pid = fs::read_to_string(folder.0.join("pid")).unwrap().trim().parse().ok().and_then(Pid::from_raw).unwrap();
    assert!(test_kill_process(pid).is_err(), "the command is under way");
}

/// Calls fail at once.
#[derive(Default)]
struct Failing {
    begun: Vec<Call>,
    /// Looks since the first call has failed.
    looks: Arc<AtomicU32>,
}

impl Runner for Failing {
    fn begin(&mut self, call: Call, _: Vec<String>, _: String) {
        self.begun.push(call);
    }

    fn ended(&mut self, patience: Duration) -> Vec<(Call, Outcome)> {
        let ended: Vec<Call> = std::mem::take(&mut self.begun);
        if ended.is_empty() {
            assert!(patience <= SIGNAL_LOOK, "a signal is not seen for {patience:?}");
            self.looks.fetch_add(1, Ordering::Relaxed);
        }
        let failed = MachineError::Exited { command: "list".to_owned(), code: 5, stderr: String::new() };
        ended.into_iter().map(|call| (call, Err(failed.clone()))).collect()
    }

    fn end_all(&mut self) {
        assert!(self.begun.is_empty(), "a call is under way");
    }
}

#[test]
fn a_signal_ends_the_pause_after_a_failed_list() {
    let mut settings = settings();
    settings.limits.backoff = Duration::from_secs(3000);
    settings.limits.backoff_limit = settings.limits.backoff;
    let looks = Arc::new(AtomicU32::new(0));
    let runner = Box::new(Failing { looks: looks.clone(), ..Failing::default() });
    let (probes, answered, hanging) = Default::default();
    let (inventory, directory) = (Inventory::new(settings, Vec::new()), PathBuf::new());
    let mut machines = Machines { inventory, runner, clock: Clock::start(), directory, probes, answered, hanging };
    // A look without a call under way is in the pause.
    let mut is_stopped = || looks.load(Ordering::Relaxed) > 2;
    let error = machines.first_list(Duration::from_secs(300), &mut is_stopped).unwrap_err();
    assert!(error.is_interruption(), "{error}");
    assert!(!machines.inventory.is_listing() && !machines.inventory.has_listed());
}

#[test]
fn an_error_of_a_command_has_no_configured_secret() {
    let folder = Folder::new("secret");
    let mut settings = cloud(&folder.0, 1);
    fs::write(folder.0.join("password"), "of-the-broker\n").unwrap();
    settings.secret_files = vec![folder.0.join("password")];
    settings.bus = "nats://fleet:of-the-bus@127.0.0.1:1".to_owned();
    let script = "echo \"$0 $(cat password)\" >&2; exit 3";
    settings.commands.list = ["sh", "-c", script, "{bus}"].map(str::to_owned).to_vec();
    settings.limits.tries = 1;
    let error = open(settings, folder.0.join("state")).unwrap_err().to_string();
    assert!(error.ends_with("exit code 3: nats://***@127.0.0.1:1 ***"), "{error}");
}
