//! All or nothing, and the reports.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidegate_admin::read_listener_token;
use tidegate_config::path::KeyPath;
use tidegate_config::reload::{PrepareError, Prepared};
use tidegate_console::api::Access;

use super::*;

/// A part that counts its calls.
#[derive(Clone, Default)]
struct Part {
    refuses: bool,
    /// Its report about its files.
    tells: &'static [&'static str],
    prepared: Arc<AtomicU32>,
    committed: Arc<AtomicU32>,
}

impl Reloadable for Part {
    fn name(&self) -> &'static str {
        "part"
    }

    fn takes(&self, key: &KeyPath) -> bool {
        key.section == "log"
    }

    fn prepare(&self, _: &Config) -> Result<Box<dyn Prepared>, PrepareError> {
        self.prepared.fetch_add(1, Ordering::Relaxed);
        if self.refuses { Err("it is broken".into()) } else { Ok(Box::new(self.clone())) }
    }
}

impl Prepared for Part {
    fn commit(self: Box<Self>) -> Vec<String> {
        self.committed.fetch_add(1, Ordering::Relaxed);
        self.tells.iter().map(|line| (*line).to_owned()).collect()
    }
}

/// A configuration file that is removed after the test.
struct File(PathBuf);

impl File {
    fn new(text: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = Self(std::env::temp_dir().join(format!("tidegate-reload-{}-{number}.toml", std::process::id())));
        file.write(text);
        file
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    fn reloader(&self, parts: &[&Part]) -> Reloader {
        let sources = Sources { file: Some(self.0.clone()), ..Sources::default() };
        let config = sources.load().unwrap();
        let tenancy = Tenancy::of(&config);
        Reloader::new(sources, &config, tenancy, parts.iter().map(|part| Box::new((*part).clone()) as Box<_>).collect())
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn changes_and_settings_that_need_a_restart_are_named() {
    let file = File::new("[log]\nlevel = 'info'\n[queue]\nmax_messages = 10\n");
    let part = Part::default();
    let reloader = file.reloader(&[&part]);
    assert_eq!(reloader.reload().to_string(), "reloaded: part\nno key of the configuration has changed\n");
    file.write("[log]\nlevel = 'debug'\n[queue]\nmax_messages = 20\n");
    let waiting = "queue.max_messages: 10 -> 20  (needs a restart)\n";
    assert_eq!(reloader.reload().to_string(), format!("reloaded: part\nlog.level: \"info\" -> \"debug\"\n{waiting}"));
    assert_eq!(reloader.reload().to_string(), format!("reloaded: part\n{waiting}"));
    assert_eq!(part.committed.load(Ordering::Relaxed), 3);
}

#[test]
fn a_wrong_configuration_changes_nothing() {
    let file = File::new("");
    let part = Part::default();
    let reloader = file.reloader(&[&part]);
    file.write("[log]\nlevel = 'loud'\n");
    let Outcome::Refused { problem } = reloader.reload() else { panic!("it was applied") };
    assert!(problem.contains("log.level") && problem.contains(":2:9"), "{problem}");
    std::fs::remove_file(&file.0).unwrap();
    let Outcome::Refused { problem } = reloader.reload() else { panic!("it was applied") };
    assert!(problem.contains("cannot read"), "{problem}");
    assert_eq!(part.prepared.load(Ordering::Relaxed), 0);
}

#[test]
fn one_part_that_objects_stops_all_of_them() {
    let file = File::new("");
    let (good, broken) = (Part::default(), Part { refuses: true, ..Part::default() });
    let reloader = file.reloader(&[&good, &broken]);
    file.write("[log]\nlevel = 'debug'\n");
    assert_eq!(reloader.reload(), Outcome::Refused { problem: "part: it is broken".to_owned() });
    assert_eq!(good.prepared.load(Ordering::Relaxed), 1);
    assert_eq!((good.committed.load(Ordering::Relaxed), broken.committed.load(Ordering::Relaxed)), (0, 0));
}

#[test]
fn a_listener_that_comes_or_goes_needs_a_restart() {
    let file = File::new("[[listener]]\n");
    let reloader = file.reloader(&[&Part::default()]);
    file.write("[[listener]]\n[[listener]]\naddress = '2883'\n");
    let text = reloader.reload().to_string();
    assert!(text.contains("listener.1.address: (not there) -> \"127.0.0.1:2883\"  (needs a restart)"), "{text}");
    let json: serde_json::Value = serde_json::to_value(reloader.reload().to_answer()).unwrap();
    assert_eq!(json["applied"], true);
    assert_eq!(json["changes"][0]["needs_restart"], true);
}

#[test]
fn differences_in_files_are_reported_as_well() {
    let file = File::new("");
    let part = Part { tells: &["users removed: 4"], ..Part::default() };
    let outcome = file.reloader(&[&part]).reload();
    let text = "reloaded: part\npart: users removed: 4\nno key of the configuration has changed\n";
    assert_eq!(outcome.to_string(), text);
    assert_eq!(outcome.to_answer().files, ["part: users removed: 4"]);
}

/// A part that keeps the listeners of each configuration that it prepares.
#[derive(Clone, Default)]
struct Listeners(Arc<std::sync::Mutex<Vec<String>>>);

impl Reloadable for Listeners {
    fn name(&self) -> &'static str {
        "listeners"
    }

    fn takes(&self, key: &KeyPath) -> bool {
        key.section == "listener" && key.key == "client_certificate"
    }

    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, PrepareError> {
        let seen = new.listeners.iter().map(|it| format!("{} {:?}", it.address, it.client_certificate));
        *self.0.lock().unwrap() = seen.collect();
        Ok(Box::new(Part::default()))
    }
}

const USERS: &str = "[[auth]]\nfile = 'users'\n[access]\ndefault = 'allow'\n";
/// A configuration that is about no listener.
const LEVEL: &str = "[log]\nlevel = 'debug'\n";
const OPEN: &str = "[[listener]]\naddress = '0.0.0.0:1883'\nname = 'plain'\n";

fn refusal(start: &str, then: &str) -> Option<String> {
    let file = File::new(start);
    let reloader = file.reloader(&[&Part::default()]);
    file.write(then);
    match reloader.reload() {
        Outcome::Refused { problem } => Some(problem),
        Outcome::Applied { .. } => None,
    }
}

#[test]
fn a_listener_in_force_keeps_its_authentication() {
    let asking = format!("{OPEN}{USERS}");
    // A file that was cut off, and a listener that moved to loopback.
    let loopback = "[[listener]]\naddress = '127.0.0.1:1883'\nname = 'plain'\n";
    // Certificates or keys of devices that another listener asks for.
    let keys = "[[listener]]\naddress = 'mqtts://0.0.0.0:8883'\nname = 'tls'\ncertificate = 'a'\nkey = 'b'\n\
                client_ca = 'c'\nclient_certificate = 'required'\n";
    for then in [LEVEL, loopback, keys] {
        let problem = refusal(&asking, then).unwrap();
        assert!(problem.contains("listener `plain` at 0.0.0.0:1883 stays open until a restart"), "{problem}");
    }
    // Said for the address where clients are, or no worse than before.
    assert_eq!(refusal(&asking, &format!("{OPEN}allow_anonymous = true\n{USERS}")), None);
    assert_eq!(refusal(&asking, &format!("{loopback}{USERS}")), None);
    assert_eq!(refusal(&asking, &format!("{loopback}allow_anonymous = true\n{USERS}")), None);
    assert_eq!(refusal(&format!("{OPEN}allow_anonymous = true\n"), LEVEL), None);
    // A listener on loopback may stand behind a proxy.
    assert!(refusal(USERS, LEVEL).unwrap().contains("listener `tcp-1883` at 127.0.0.1:1883"));
    assert_eq!(refusal(USERS, "[[listener]]\nallow_anonymous = true\n"), None);
}

#[test]
fn a_listener_in_force_keeps_access_rules() {
    let open = format!("{OPEN}allow_anonymous = true\n");
    let ruled = format!("{open}[access]\nacl_file = 'acl'\n");
    for then in [LEVEL, &open, "[access]\ndefault = 'allow'\n"] {
        let problem = refusal(&ruled, then).unwrap();
        assert!(problem.contains("the new configuration has no access rules"), "{problem}");
    }
    assert_eq!(refusal(&ruled, &format!("{open}[access]\ndefault = 'allow'\n")), None);
    assert_eq!(refusal(&ruled, "[access]\nacl_file = 'acl'\n"), None);
    let problem = refusal(&ruled, &ruled.replace("plain", "door")).unwrap();
    assert!(problem.contains("listener `plain` at 0.0.0.0:1883 has the name `door`"), "{problem}");
}

#[test]
fn a_file_without_keys_is_refused_after_one_with_keys() {
    let file = File::new("[queue]\nmax_messages = 10\n");
    let reloader = file.reloader(&[&Part::default()]);
    for emptied in ["", "# [queue]\n", "[queue]\n"] {
        file.write(emptied);
        let Outcome::Refused { problem } = reloader.reload() else { panic!("it was applied") };
        assert!(problem.contains(&*file.0.to_string_lossy()) && problem.contains("has no key"), "{problem}");
    }
    file.write(LEVEL);
    assert!(matches!(reloader.reload(), Outcome::Applied { .. }));
}

#[test]
fn parts_get_listeners_in_the_order_of_the_start() {
    let tls = |name: &str, port: u16, more: &str| {
        format!(
            "[[listener]]\naddress = 'mqtts://127.0.0.1:{port}'\nname = '{name}'\ncertificate = 'a'\nkey = 'b'\n{more}"
        )
    };
    let asks = "client_ca = 'c'\nclient_certificate = 'required'\n";
    let (strict, plain) = (tls("strict", 8883, asks), tls("plain", 8884, ""));
    let file = File::new(&format!("{strict}{plain}"));
    let part = Listeners::default();
    let sources = Sources { file: Some(file.0.clone()), ..Sources::default() };
    let config = sources.load().unwrap();
    let reloader = Reloader::new(sources, &config, Tenancy::of(&config), vec![Box::new(part.clone())]);
    let expected = ["mqtts://127.0.0.1:8883 Required", "mqtts://127.0.0.1:8884 None"];
    // In another order, with a new one before, and without the first one.
    for (then, changes) in
        [(format!("{plain}{strict}"), 0), (format!("{}{strict}{plain}", tls("new", 8885, "")), 4), (plain.clone(), 6)]
    {
        file.write(&then);
        let Outcome::Applied { changes: told, .. } = reloader.reload() else { panic!("it was refused") };
        assert_eq!(*part.0.lock().unwrap(), expected, "{then}");
        assert_eq!(told.len(), changes, "{told:#?}");
        assert!(told.iter().all(|change| !change.live), "{told:#?}");
    }
    // A section for another address is that of another listener: without TLS, or with exchanged names.
    let without = format!("[[listener]]\naddress = '127.0.0.1:8883'\nname = 'strict'\n{plain}");
    for then in [without, format!("{}{}", tls("strict", 8884, ""), tls("plain", 8883, asks))] {
        file.write(&then);
        let Outcome::Applied { changes: told, .. } = reloader.reload() else { panic!("it was refused") };
        assert_eq!(*part.0.lock().unwrap(), expected, "{then}");
        assert!(!told.is_empty() && told.iter().all(|change| !change.live), "{told:#?}");
    }
}

#[test]
fn a_listener_in_force_keeps_its_tenant() {
    let tenant = "[[tenant]]\nname = 'a'\nlisteners = ['door']\n";
    let doors = format!("[[listener]]\n[[listener]]\naddress = '127.0.0.1:2883'\nname = 'door'\n{tenant}");
    let problem = refusal(&doors, LEVEL).unwrap();
    assert!(problem.contains("its clients would leave tenant `a`"), "{problem}");
    assert!(refusal(&doors, &doors.replace("door", "gate")).is_some());
    assert_eq!(refusal(&doors, &doors.replace(tenant, "")), None);
    assert_eq!(refusal(&doors, &doors.replace("2883", "2884")), None);
}

#[test]
fn another_admin_token_is_asked_for_after_a_reload() {
    let token = std::env::temp_dir().join(format!("tidegate-reload-token-{}", std::process::id()));
    let write = |text: &str| std::fs::write(&token, text).unwrap();
    write("0123456789abcdef");
    let file = File::new(&format!("[admin]\ntoken_file = \"{}\"\n", token.display()));
    let access = Access::local().with_token(&read_listener_token(&token).unwrap());
    let sources = || Sources { file: Some(file.0.clone()), ..Sources::default() };
    let started_with = sources().load().unwrap();
    let part: Box<dyn Reloadable> = Box::new(AdminToken::of(&access).unwrap());
    let reloader = Reloader::new(sources(), &started_with, Tenancy::of(&started_with), vec![part]);
    let lines = || match reloader.reload() {
        Outcome::Applied { files, .. } => files,
        Outcome::Refused { problem } => vec![problem],
    };
    assert!(lines().is_empty(), "it is the same");
    write("fedcba9876543210");
    assert_eq!(lines(), ["admin token: another one is asked for from now on"]);
    assert!(!access.replace_token("fedcba9876543210".parse().unwrap()), "it is in force");
    for wrong in ["", "short"] {
        write(wrong);
        assert!(lines().concat().starts_with("admin token: cannot use the token in "));
    }
    assert!(!access.replace_token("fedcba9876543210".parse().unwrap()), "it stays");
    write("0123456789abcdef");
    let moved = token.with_extension("moved");
    std::fs::rename(&token, &moved).unwrap();
    file.write(&format!("[admin]\ntoken_file = \"{}\"\n", moved.display()));
    let told = reloader.reload().to_string();
    assert!(told.contains("another one is asked for") && !told.contains("restart"), "{told}");
    file.write(LEVEL);
    assert!(lines().concat().contains("a reload never opens the API"));
    assert!(!access.replace_token("0123456789abcdef".parse().unwrap()), "it stays");
    assert!(AdminToken::of(&Access::local()).is_none());
    std::fs::remove_file(&moved).unwrap();
}
