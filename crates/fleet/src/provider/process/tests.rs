use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::level::Level;
use tidegate_document::FileText;

/// A directory that is removed after the test, with everything that still runs for it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-fleet-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(fs::canonicalize(path).unwrap())
    }

    fn open(&self, script: &str) -> Processes {
        let text = format!(
            "level = \"broker\"\ncommand = \"/bin/sh\"\nargs = [\"-c\", {script:?}]\nprobe = {{ kind = \"process\" }}\n\
             stop = {{ limit = \"200ms\" }}\n[files]\nport = \"{{port}} {{name}}\"\n"
        );
        let template = Template::read("sh", &FileText::new("sh.toml", text)).unwrap();
        Processes::open(Settings {
            directory: self.0.clone(),
            places: BTreeMap::new(),
            routing: "round-robin".to_owned(),
            bus: "embedded://../../bus".to_owned(),
            bus_max_bytes: 64 << 20,
            templates: BTreeMap::from([("sh".to_owned(), template)]),
            executable: std::env::current_exe().unwrap(),
            claims: claims_of_this_machine(),
        })
        .unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let mut processes = self.open("");
        for name in processes.records.keys().cloned().collect::<Vec<_>>() {
            let _ = release(&mut processes, &name);
        }
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn wanted(name: &str) -> Allocation {
    Allocation { name: name.parse().unwrap(), level: Level::Broker, template: "sh".to_owned(), cores: 0.5 }
}

/// Repeats until it is gone; a release that never ends is a failure after many turns of the scheduler.
fn release(processes: &mut Processes, name: &ResourceName) -> bool {
    (0..1_000_000).any(|_| {
        thread::yield_now();
        processes.release(name).unwrap() == Release::Gone
    })
}

fn condition(processes: &mut Processes) -> Option<Condition> {
    processes.observe(Look::Everything).unwrap().pop().map(|observed| observed.condition)
}

#[test]
fn a_second_allocation_of_a_process_changes_nothing() {
    let folder = Folder::new();
    let mut processes = folder.open("exec sleep 1000");
    let first = processes.allocate(&wanted("broker-1")).unwrap();
    let again = processes.allocate(&wanted("broker-1")).unwrap();
    assert_eq!(first, again);
    let written = fs::read_to_string(folder.0.join("broker-1/port")).unwrap();
    assert_eq!(format!("mqtt://127.0.0.1:{written}"), format!("{} broker-1", first.address));
    assert_eq!(condition(&mut processes), Some(Condition::Online));
    let other = processes.allocate(&wanted("broker-2")).unwrap();
    assert_ne!(first.address, other.address);
    assert!(release(&mut processes, &first.name) && release(&mut processes, &other.name));
    assert_eq!((processes.list().unwrap().len(), folder.0.join("broker-1").exists()), (0, false));
    assert_eq!(processes.release(&first.name).unwrap(), Release::Gone);
}

#[test]
fn a_later_manager_finds_and_removes_the_processes() {
    let folder = Folder::new();
    let mut before = folder.open("exec sleep 1000");
    let resource = before.allocate(&wanted("broker-1")).unwrap();
    let child = before.children.remove(&resource.name);
    drop(before);
    let mut after = folder.open("exec sleep 1000");
    assert_eq!(after.list().unwrap(), std::slice::from_ref(&resource));
    assert_eq!(after.allocate(&wanted("broker-1")).unwrap(), resource);
    // In this test the process has this one as its parent, which a real manager's death would change.
    after.children.extend(child.map(|child| (resource.name.clone(), child)));
    assert!(release(&mut after, &resource.name));
    assert!(!Path::new(&format!("/proc/{}/cwd/port", resource.pid.unwrap())).exists());
}

#[test]
fn a_process_without_a_recorded_id_is_found_by_its_mark() {
    let folder = Folder::new();
    let mut before = folder.open("exec sleep 1000");
    let resource = before.allocate(&wanted("broker-1")).unwrap();
    let child = before.children.remove(&resource.name);
    let mut record = before.records[&resource.name].clone();
    record.process = None;
    record.write(&folder.0.join("broker-1")).unwrap();
    drop(before);
    // While it becomes another program, its environment cannot be read for a moment.
    let found = (0..1_000).any(|_| {
        thread::yield_now();
        folder.open("exec sleep 1000").list().unwrap() == std::slice::from_ref(&resource)
    });
    assert!(found);
    let mut child = child.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_dead_process_is_down_and_restarts_in_place() {
    let folder = Folder::new();
    let mut processes = folder.open("exec sleep 1000");
    let resource = processes.allocate(&wanted("broker-1")).unwrap();
    let child = processes.children.get_mut(&resource.name).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(condition(&mut processes), Some(Condition::Ended(_))));
    // Its child processes may take a moment to end.
    let again = (0..1_000_000).find_map(|_| {
        thread::yield_now();
        processes.allocate(&wanted("broker-1")).ok().filter(|again| again.pid != resource.pid)
    });
    assert_eq!((again.unwrap().address, condition(&mut processes)), (resource.address, Some(Condition::Online)));
}

#[test]
fn the_end_of_a_process_shows_without_a_look() {
    let folder = Folder::new();
    let mut processes = folder.open("exec sleep 1000");
    let resource = processes.allocate(&wanted("broker-1")).unwrap();
    assert_eq!(condition(&mut processes), Some(Condition::Online));
    assert!(!processes.has_ended());
    let process = processes.records[&resource.name].process.clone().unwrap();
    process.signal(Signal::KILL);
    assert!((0..1_000_000).any(|_| {
        thread::yield_now();
        processes.has_ended()
    }));
    assert!(matches!(condition(&mut processes), Some(Condition::Ended(_))));
    assert!(!processes.has_ended(), "a look has shown it");
    // One that is stopped on request ends as it should.
    processes.allocate(&wanted("broker-1")).unwrap();
    assert_eq!(condition(&mut processes), Some(Condition::Online));
    assert!(release(&mut processes, &resource.name) && !processes.has_ended());
}

#[test]
fn a_stopped_resource_keeps_its_stored_state() {
    let folder = Folder::new();
    let mut processes = folder.open("exec sleep 1000");
    let resource = processes.allocate(&wanted("broker-1")).unwrap();
    fs::write(folder.0.join("broker-1/stored"), "kept").unwrap();
    let stopped = (0..1_000_000).any(|_| {
        thread::yield_now();
        processes.stop(&resource.name).unwrap() == Release::Gone
    });
    assert!(stopped && !Path::new(&format!("/proc/{}/cwd/stored", resource.pid.unwrap())).exists());
    let mut processes = folder.open("exec sleep 1000");
    assert!(matches!(condition(&mut processes), Some(Condition::Ended(_))));
    let again = processes.allocate(&wanted("broker-1")).unwrap();
    assert_eq!((again.address, condition(&mut processes)), (resource.address, Some(Condition::Online)));
    assert_eq!(fs::read_to_string(folder.0.join("broker-1/stored")).unwrap(), "kept");
}

#[test]
fn one_that_hung_before_this_manager_is_down_and_starts_again() {
    let folder = Folder::new();
    let mut before = folder.open("exec sleep 1000");
    let resource = before.allocate(&wanted("broker-1")).unwrap();
    let child = before.children.remove(&resource.name);
    drop(before);
    let mut after = folder.open("exec sleep 1000");
    after.children.extend(child.map(|child| (resource.name.clone(), child)));
    after.settings.templates.get_mut("sh").unwrap().probe = Probe::Tcp("mqtt".to_owned());
    assert!(matches!(condition(&mut after), Some(Condition::Down(_))));
    let again = (0..1_000_000).any(|_| {
        thread::yield_now();
        after.allocate(&wanted("broker-1")).unwrap().pid != resource.pid
    });
    assert!(again);
    assert_eq!(condition(&mut after), Some(Condition::Starting));
}

#[test]
fn children_and_processes_that_ignore_the_signal_end() {
    let folder = Folder::new();
    let mut processes = folder.open("trap '' TERM; sleep 1000 & echo $! > child; wait; wait");
    let resource = processes.allocate(&wanted("broker-1")).unwrap();
    let file = folder.0.join("broker-1/child");
    let read = || fs::read_to_string(&file).ok().and_then(|text| text.trim().parse::<u32>().ok());
    let child = (0..1_000_000).find_map(|_| {
        thread::yield_now();
        read()
    });
    let child = Identity::of(child.unwrap()).unwrap();
    assert!(child.lives());
    assert!(release(&mut processes, &resource.name));
    assert!(!child.lives());
}

#[test]
fn cpu_is_a_fraction_of_the_share() {
    let folder = Folder::new();
    let mut processes = folder.open("while :; do :; done");
    processes.allocate(&wanted("broker-1")).unwrap();
    assert_eq!(processes.observe(Look::Everything).unwrap()[0].cpu, None);
    let busy = (0..1_000_000).any(|_| {
        thread::yield_now();
        processes.observe(Look::Everything).unwrap()[0].cpu.is_some_and(|cpu| cpu > 0.1)
    });
    assert!(busy);
}

#[test]
fn memory_counts_the_whole_group_without_ended_processes() {
    let folder = Folder::new();
    let mut processes = folder.open("sleep 600 & wait");
    let resource = processes.allocate(&wanted("broker-1")).unwrap();
    // A shell and its child process take some hundred KiB at least.
    assert!(processes.observe(Look::Everything).unwrap()[0].memory.is_some_and(|bytes| bytes > 100 * 1024));
    assert_eq!(processes.observe(Look::Conditions).unwrap()[0].memory, None);
    let process = Identity::of(resource.pid.unwrap()).unwrap();
    assert!(process.group_memory().is_some());
    assert!(release(&mut processes, &resource.name));
    assert_eq!(process.group_memory(), None);
}

#[test]
fn the_shipped_templates_are_right() {
    for (name, _) in SHIPPED {
        let template = Template::shipped(name).unwrap().unwrap_or_else(|findings| panic!("{name}: {findings}"));
        assert_eq!(template.admin.is_some(), template.level == Level::Orchestrator, "{name}");
    }
    assert!(Template::shipped("unknown").is_none());
}

#[test]
fn faults_of_a_template_are_reported_with_their_place() {
    let read = |text: &str| {
        let document = FileText::new("t.toml", text);
        Template::read("t", &document).unwrap_err().to_string()
    };
    let text = read("command = \"x\"\nargs = [\"{prot}\"]\nprobe = { kind = \"mqtt\" }\n");
    assert!(text.contains("t.toml:2:8") && text.contains("{prot}") && text.contains("{port}"), "{text}");
    let text = read("comand = \"x\"\nprobe = { kind = \"mqtt\" }\n");
    assert!(text.contains("`command` is missing") && text.contains("did you mean `command`?"), "{text}");
    let text = read("command = \"x\"\nprobe = { kind = \"udp\" }\n");
    assert!(text.contains("one of process, tcp, mqtt, http"), "{text}");
    let text = read("command = \"x\"\nprobe = { kind = \"tcp\" }\n[files]\n\"../x\" = \"\"\n");
    assert!(text.contains("../x"), "{text}");
}

#[test]
fn a_program_that_is_not_installed_is_named() {
    let folder = Folder::new();
    let mut processes = folder.open("");
    let template = processes.settings.templates.get_mut("sh").unwrap();
    template.commands = vec!["no-such-broker".to_owned()];
    let error = processes.allocate(&wanted("broker-1")).unwrap_err().to_string();
    assert!(error.contains("no-such-broker") && error.contains("install"), "{error}");
    assert_eq!(processes.release(&"broker-1".parse().unwrap()).unwrap(), Release::Gone);
}

#[test]
fn a_restarted_process_gets_new_ports_of_its_template() {
    let folder = Folder::new();
    let mut processes = folder.open("exit 0");
    let name = processes.allocate(&wanted("broker-1")).unwrap().name;
    let before = processes.records[&name].ports.clone();
    let template = processes.settings.templates.get_mut("sh").unwrap();
    template.ports.push("admin".to_owned());
    template.admin = Some("http://{host}:{port.admin}".to_owned());
    template.args.push("{port.admin}".to_owned());
    // It is spawned again once all processes of the first one have ended.
    let admin = (0..1_000_000).find_map(|_| {
        thread::yield_now();
        processes.allocate(&wanted("broker-1")).unwrap().admin.filter(|admin| !admin.is_empty())
    });
    let ports = &processes.records[&name].ports;
    assert_eq!(admin, Some(format!("http://127.0.0.1:{}", ports["admin"])));
    assert_eq!((ports["mqtt"], ports.len()), (before["mqtt"], 2));
    assert_ne!(ports["admin"], ports["mqtt"]);
}

#[test]
fn a_dead_process_is_killed_without_a_request() {
    let folder = Folder::new();
    // It would continue without end; its template limits it to an hour.
    let mut processes = folder.open("trap '' TERM; : > ready; while :; do sleep 1000; done");
    processes.settings.templates.get_mut("sh").unwrap().stop_limit = Duration::from_secs(3600);
    let resource = processes.allocate(&wanted("broker-1")).unwrap();
    assert!((0..10_000_000).any(|_| {
        thread::yield_now();
        folder.0.join("broker-1/ready").exists()
    }));
    assert_eq!(processes.release(&resource.name).unwrap(), Release::Stopping);
    let gone = (0..1_000_000).any(|_| {
        thread::yield_now();
        processes.discard(&resource.name).unwrap() == Release::Gone
    });
    assert!(gone && !folder.0.join("broker-1").exists());
}

/// Processes without listeners, which have all ports of a small range.
fn silent(folder: &Folder, ports: &RangeInclusive<u16>) -> Processes {
    let mut settings = folder.open("exec sleep 1000").settings;
    settings.places =
        BTreeMap::from([(Level::Broker, ListenRange { hosts: "127.0.0.9".parse().unwrap(), ports: ports.clone() })]);
    Processes::open(settings).unwrap()
}

#[test]
fn two_fleets_share_no_port_even_without_listeners() {
    let (one, other) = (Folder::new(), Folder::new());
    // No other process uses this address.
    let ports = 40_000..=40_001;
    let (mut first, mut second) = (silent(&one, &ports), silent(&other, &ports));
    let mut addresses = [&mut first, &mut second].map(|fleet| fleet.allocate(&wanted("broker-1")).unwrap().address);
    addresses.sort();
    assert_eq!(addresses, ["mqtt://127.0.0.9:40000", "mqtt://127.0.0.9:40001"]);
    assert!(matches!(second.allocate(&wanted("broker-2")), Err(ProviderError::NoPorts { .. })));
    // A fleet that rests keeps its ports, also for the manager after this one.
    assert!((0..1_000_000).any(|_| {
        thread::yield_now();
        first.stop(&"broker-1".parse().unwrap()).unwrap() == Release::Gone
    }));
    drop(first);
    let mut first = silent(&one, &ports);
    assert!(matches!(second.allocate(&wanted("broker-2")), Err(ProviderError::NoPorts { .. })));
    // Released, it is free again.
    assert!(release(&mut first, &"broker-1".parse().unwrap()));
    second.allocate(&wanted("broker-2")).unwrap();
    // So are the ports of a fleet whose state a person has removed.
    assert!(matches!(first.allocate(&wanted("broker-3")), Err(ProviderError::NoPorts { .. })));
    assert!(release(&mut second, &"broker-2".parse().unwrap()));
    assert!(release(&mut second, &"broker-1".parse().unwrap()));
    first.allocate(&wanted("broker-1")).unwrap();
    assert!(release(&mut first, &"broker-1".parse().unwrap()));
}

#[test]
fn processes_with_their_own_addresses_have_the_same_ports() {
    let folder = Folder::new();
    let ports = 40_010..=40_019;
    let mut processes = silent(&folder, &ports);
    let place = ListenRange { hosts: "127.0.0.10-127.0.0.12".parse().unwrap(), ports: ports.clone() };
    processes.settings.places.insert(Level::Broker, place);
    processes.check(std::iter::empty()).unwrap();
    let names = ["broker-1", "broker-2", "broker-3"];
    let addresses = names.map(|name| processes.allocate(&wanted(name)).unwrap().address);
    assert_eq!(addresses, [10, 11, 12].map(|last| format!("mqtt://127.0.0.{last}:40010")));
    let fourth = processes.allocate(&wanted("broker-4")).unwrap_err();
    assert!(fourth.to_string().contains("127.0.0.10-127.0.0.12"), "{fourth}");
    // A later manager knows the addresses, with any fleet file.
    let mut settings = processes.settings.clone();
    drop(processes);
    settings.places.clear();
    let mut later = Processes::open(settings).unwrap();
    let observed: Vec<String> =
        later.observe(Look::Everything).unwrap().into_iter().map(|it| it.resource.address).collect();
    assert_eq!(observed, addresses);
    // The address of a removed one is free again.
    later.settings.places.insert(Level::Broker, ListenRange { hosts: "127.0.0.10-127.0.0.12".parse().unwrap(), ports });
    assert!(release(&mut later, &"broker-2".parse().unwrap()));
    assert_eq!(later.allocate(&wanted("broker-5")).unwrap().address, "mqtt://127.0.0.11:40010");
    for name in ["broker-1", "broker-3", "broker-5"] {
        assert!(release(&mut later, &name.parse().unwrap()));
    }
}

/// Ends a process, and starts it again.
fn start_again(processes: &mut Processes, name: &str) -> String {
    assert!((0..1_000_000).any(|_| {
        thread::yield_now();
        processes.stop(&name.parse().unwrap()).unwrap() == Release::Gone
    }));
    processes.allocate(&wanted(name)).unwrap().address
}

#[test]
fn a_process_starts_again_at_the_host_of_a_changed_file() {
    let folder = Folder::new();
    let ports = 40_020..=40_029;
    let mut before = silent(&folder, &ports);
    assert_eq!(before.allocate(&wanted("broker-1")).unwrap().address, "mqtt://127.0.0.9:40020");
    let (mut settings, child) = (before.settings.clone(), before.children.remove(&"broker-1".parse().unwrap()));
    drop(before);
    let place = ListenRange { hosts: "127.0.0.8".parse().unwrap(), ports };
    settings.places.insert(Level::Broker, place);
    let mut later = Processes::open(settings).unwrap();
    later.children.extend(child.map(|child| ("broker-1".parse().unwrap(), child)));
    // It listens there until it ends, and is not ended for the change.
    let observed = later.observe(Look::Everything).unwrap().remove(0);
    assert_eq!((observed.resource.address.as_str(), observed.condition), ("mqtt://127.0.0.9:40020", Condition::Online));
    assert!(observed.resource.note.contains("127.0.0.9") && observed.resource.note.contains("127.0.0.8"));
    assert_eq!(start_again(&mut later, "broker-1"), "mqtt://127.0.0.8:40020");
    assert_eq!(later.list().unwrap()[0].note.find("127.0.0"), None);
    assert!(release(&mut later, &"broker-1".parse().unwrap()));
}

#[test]
fn a_record_without_a_host_stays_where_it_listens() {
    let folder = Folder::new();
    let ports = 40_030..=40_039;
    let mut before = silent(&folder, &ports);
    let address = before.allocate(&wanted("broker-1")).unwrap().address;
    let mut record = before.records[&"broker-1".parse().unwrap()].clone();
    record.host = None;
    record.write(&folder.0.join("broker-1")).unwrap();
    let (mut settings, child) = (before.settings.clone(), before.children.remove(&"broker-1".parse().unwrap()));
    drop(before);
    settings.places.insert(Level::Broker, ListenRange { hosts: "127.0.0.14-127.0.0.15".parse().unwrap(), ports });
    let mut later = Processes::open(settings).unwrap();
    later.children.extend(child.map(|child| ("broker-1".parse().unwrap(), child)));
    assert_eq!(later.list().unwrap()[0].address, address, "a new range does not end a healthy process");
    assert_eq!(later.allocate(&wanted("broker-2")).unwrap().address, "mqtt://127.0.0.14:40030");
    assert_eq!(start_again(&mut later, "broker-1"), "mqtt://127.0.0.15:40030");
    for name in ["broker-1", "broker-2"] {
        assert!(release(&mut later, &name.parse().unwrap()));
    }
}

#[test]
fn an_address_with_a_taken_port_is_passed_over() {
    let folder = Folder::new();
    let mut processes = silent(&folder, &(40_040..=40_049));
    let place = ListenRange { hosts: "127.0.0.16-127.0.0.18".parse().unwrap(), ports: 40_040..=40_049 };
    processes.settings.places.insert(Level::Broker, place);
    processes.allocate(&wanted("broker-1")).unwrap();
    let other = std::net::TcpListener::bind("127.0.0.17:40040").unwrap();
    assert_eq!(processes.allocate(&wanted("broker-2")).unwrap().address, "mqtt://127.0.0.18:40040");
    let refused = processes.allocate(&wanted("broker-3")).unwrap_err().to_string();
    assert!(refused.contains("port 40040 of 127.0.0.17"), "{refused}");
    drop(other);
    assert_eq!(processes.allocate(&wanted("broker-3")).unwrap().address, "mqtt://127.0.0.17:40040");
    for name in ["broker-1", "broker-2", "broker-3"] {
        assert!(release(&mut processes, &name.parse().unwrap()));
    }
}

#[test]
fn claims_of_ports_end_with_the_records_that_they_name() {
    use super::claims::Claims;
    let folder = Folder::new();
    let (at, own, other) = (folder.0.join("claims"), folder.0.join("a"), folder.0.join("b"));
    let mut claims = Claims::hold(&at).unwrap();
    for (host, resource) in [("127.0.0.1", &own), ("0.0.0.0", &other)] {
        claims.claim(host, 7, resource).unwrap();
    }
    // Neither has a record.
    assert!(claims.is_free("127.0.0.1", 7, &folder.0) && claims.is_free("127.0.0.2", 7, &folder.0));
    fs::create_dir_all(&own).unwrap();
    let ports = BTreeMap::from([("mqtt".to_owned(), 7)]);
    let (process, cgroup, stopping_since_ms, note) = (None, Vec::new(), None, String::new());
    let record = Record { wanted: wanted("a"), host: None, ports, process, cgroup, stopping_since_ms, note };
    record.write(&own).unwrap();
    claims.claim("127.0.0.1", 7, &own).unwrap();
    assert!(claims.is_free("127.0.0.1", 7, &own) && !claims.is_free("127.0.0.1", 7, &other));
    assert!(claims.is_free("127.0.0.2", 7, &other) && !claims.is_free("0.0.0.0", 7, &other));
    fs::write(own.join(record::FILE), "damaged").unwrap();
    assert!(!claims.is_free("127.0.0.1", 7, &other), "what cannot be read may have it");
    claims.give_back([7], &other);
    assert!(!claims.is_free("127.0.0.1", 7, &other));
    claims.give_back([7], &own);
    assert!(claims.is_free("127.0.0.1", 7, &other));
    drop(claims);
    fs::remove_dir_all(&own).unwrap();
    // A link to somewhere else is not followed.
    let link = folder.0.join("link");
    std::os::unix::fs::symlink(&at, &link).unwrap();
    assert!(matches!(Claims::hold(&link), Err(ProviderError::Io { .. })));
}

#[test]
fn the_last_line_of_an_ended_process_is_reported() {
    let folder = Folder::new();
    for (script, wanted_text) in [
        (
            "echo first; echo 'no room on the disk' >&2; echo; exit 1",
            "its process has ended; the last line of its output: no room on the disk",
        ),
        ("exit 1", "its process has ended and has written nothing"),
    ] {
        let mut processes = folder.open(script);
        let resource = processes.allocate(&wanted("broker-1")).unwrap();
        processes.children.get_mut(&resource.name).unwrap().wait().unwrap();
        assert_eq!(condition(&mut processes), Some(Condition::Ended(wanted_text.to_owned())));
        assert!(release(&mut processes, &resource.name));
    }
}
