//! A fleet whose brokers are machines of a cloud: network namespaces that the example's script makes, or plain processes
//! where namespaces are not permitted.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::broker::{Folder, until};
use crate::up::{Fleet, kill};

/// The cloud of a test, whose machines end with it.
struct Cloud {
    script: PathBuf,
    directory: PathBuf,
}

impl Cloud {
    /// The script of the example, for this program and in a folder, with a fault that a file switches on.
    fn new(folder: &Folder) -> Self {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/machines/cloud");
        let (directory, program) = (folder.file("cloud"), env!("CARGO_BIN_EXE_tidegate"));
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = allocate ] && [ -e '{directory}.refuses' ]; then echo no quota >&2; exit 4; fi\n\
             export CLOUD_DIR='{directory}' TIDEGATE='{program}'\nexec sh '{}' \"$@\"\n",
            example.display()
        );
        Self { script: folder.write("cloud.sh", &text).into(), directory: directory.into() }
    }

    fn call(&self, arguments: &[&str]) -> String {
        let output = Command::new("sh").arg(&self.script).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn machines(&self) -> Vec<serde_json::Value> {
        serde_json::from_str(&self.call(&["list", "test"])).unwrap()
    }

    fn names(&self) -> Vec<String> {
        self.machines().iter().map(|machine| machine["name"].as_str().unwrap().to_owned()).collect()
    }

    fn refuses(&self) -> PathBuf {
        self.directory.with_extension("refuses")
    }

    /// Kills the broker of a machine.
    fn crash(&self, name: &str) {
        let id = std::fs::read_to_string(self.directory.join("test").join(name).join("pid")).unwrap();
        kill("KILL", id.trim().parse().unwrap());
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        for name in self.names() {
            self.call(&["release", "test", &name]);
        }
    }
}

fn file(fleet: &Fleet, brokers: &str, signals: &str) -> String {
    let text = format!(
        "[fleet]\nname = \"test\"\ninterval = \"200ms\"\ncheck = \"50ms\"\ndrain_limit = \"60s\"\n\
         [policy]\nname = \"consecutive\"\nsignals = {{ {signals} }}\n\
         [sla]\nbrokers = {brokers}\norchestrators = {{ min = 1, max = 1 }}\n\
         [machines]\nallocate = [\"sh\", \"cloud.sh\", \"allocate\", \"{{fleet}}\", \"{{name}}\", \"{{size}}\"]\n\
         list = [\"sh\", \"cloud.sh\", \"list\", \"{{fleet}}\"]\n\
         release = [\"sh\", \"cloud.sh\", \"release\", \"{{fleet}}\", \"{{name}}\"]\n\
         time_limit = \"30s\"\ntries = 1\nbackoff = \"100ms\"\nbackoff_limit = \"1s\"\nlist_interval = \"100ms\"\nlag = \"2s\"\n\
         [machines.brokers]\nsize = \"small\"\n"
    );
    fleet.folder.write("fleet.toml", &text)
}

#[test]
fn machines_are_made_healed_and_removed_by_commands() {
    let mut fleet = Fleet::new();
    let cloud = Cloud::new(&fleet.folder);
    let fixed = "message_rate = 100000";
    let two = file(&fleet, "{ min = 2, max = 3 }", fixed);
    fleet.start(&["up", &two]);
    let status = fleet.sized(2, 1);
    Fleet::carries_messages(&status);
    let brokers = status["levels"]["broker"]["resources"].as_array().unwrap();
    let hosts: Vec<String> =
        cloud.machines().iter().map(|it| format!("mqtt://{}:{}", it["host"].as_str().unwrap(), it["port"])).collect();
    assert!(brokers.iter().all(|it| it["template"] == "machine" && it["pid"].is_null()), "{brokers:?}");
    assert!(brokers.iter().all(|it| hosts.iter().any(|host| it["address"] == host.as_str())), "{brokers:?} {hosts:?}");

    cloud.crash("broker-1");
    fleet.status_when("healing a broker", |status| status["totals"]["healed"] == 1);
    Fleet::carries_messages(&fleet.sized(2, 1));
    assert_eq!(cloud.names(), ["broker-2", "broker-3"]);
    fleet.signal("INT");
    assert_eq!(fleet.wait(), Some(0));
    assert_eq!(cloud.names(), Vec::<String>::new());
}

#[test]
fn a_fleet_of_machines_grows_and_shrinks_with_the_load() {
    let mut fleet = Fleet::new();
    let cloud = Cloud::new(&fleet.folder);
    // Any broker holds more memory than that, and then less.
    let growing = file(&fleet, "{ min = 1, max = 2 }", "cpu = false, memory = \"1MiB\"");
    fleet.start(&["manager", "--fleet", &growing]);
    Fleet::carries_messages(&fleet.sized(2, 1));
    fleet.signal("TERM");
    assert_eq!(fleet.wait(), Some(0));
    assert_eq!(cloud.names().len(), 2);
    let shrinking = file(&fleet, "{ min = 1, max = 2 }", "cpu = false, memory = \"100GiB\"");
    fleet.start(&["manager", "--fleet", &shrinking]);
    Fleet::carries_messages(&fleet.sized(1, 1));
    assert_eq!(cloud.names().len(), 1);
    fleet.signal("TERM");
    assert_eq!(fleet.wait(), Some(0));
    let stopped = fleet.fleet(&["stop", &shrinking]);
    assert_eq!((stopped.code, cloud.names().len()), (Some(0), 0), "{}", stopped.err);
}

#[test]
fn a_killed_manager_leaves_no_machine_unknown() {
    let mut fleet = Fleet::new();
    let cloud = Cloud::new(&fleet.folder);
    let fixed = "message_rate = 100000";
    let one = file(&fleet, "{ min = 1, max = 1 }", fixed);
    fleet.start(&["manager", "--fleet", &one]);
    fleet.sized(1, 1);
    fleet.signal("TERM");
    assert_eq!(fleet.wait(), Some(0));

    // The cloud refuses; the manager says so, and has the machine when it no longer does.
    std::fs::write(cloud.refuses(), "").unwrap();
    let three = file(&fleet, "{ min = 3, max = 3 }", fixed);
    fleet.start(&["manager", "--fleet", &three]);
    fleet.status_when("a refused growth", |status| status["totals"]["failed"].as_u64() > Some(0));
    let history = fleet.fleet(&["history", "--actions", "--json"]).out;
    assert!(history.contains("ended with exit code 4: no quota"), "{history}");
    std::fs::remove_file(cloud.refuses()).unwrap();
    // As soon as the first of the two is there: the second one may be under way.
    until("a second machine", || (cloud.names().len() > 1).then_some(()));
    fleet.signal("KILL");
    fleet.wait();
    fleet.start(&["manager", "--fleet", &three]);
    Fleet::carries_messages(&fleet.sized(3, 1));
    let names = cloud.names();
    assert_eq!(names.len(), 3, "{names:?}");
    fleet.signal("TERM");
    assert_eq!(fleet.wait(), Some(0));
    assert_eq!(fleet.fleet(&["stop", &three]).code, Some(0));
    assert_eq!(cloud.names(), Vec::<String>::new());
}
