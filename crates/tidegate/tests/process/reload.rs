//! A new configuration for a broker that runs.

use std::time::Instant;

use crate::access::may_publish;
use crate::broker::{Broker, Ended, Folder, PATIENCE, run};

fn reload(broker: &Broker) -> Ended {
    run(&["reload", "--admin", &format!("http://{}", broker.address("admin=http://"))])
}

/// A broker whose rules are in a file.
fn broker(folder: &Folder, rules: &str) -> Broker {
    let acl = folder.write("acl", rules);
    let config = folder.write("t.toml", &format!("[access]\nacl_file = {acl:?}\n"));
    Broker::start(&["--config", &config])
}

#[test]
fn new_rules_are_in_force_after_a_reload() {
    let folder = Folder::new();
    let broker = broker(&folder, "topic write a\n");
    assert!(may_publish(&broker, "a") && !may_publish(&broker, "b"));
    folder.write("acl", "topic write b\n");
    assert!(may_publish(&broker, "a"));
    let ended = reload(&broker);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("access rules") && ended.out.contains("no key"), "{}", ended.out);
    assert!(!may_publish(&broker, "a") && may_publish(&broker, "b"));
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_not_waited_for() {
    let folder = Folder::new();
    let broker = broker(&folder, "topic write a\n");
    std::fs::remove_file(folder.file("acl")).unwrap();
    let pipe = folder.file("acl");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let ended = reload(&broker);
    assert_eq!(ended.code, Some(1));
    assert!(ended.err.contains("it is a pipe"), "{}", ended.err);
    assert!(may_publish(&broker, "a") && !may_publish(&broker, "b"));
    let allow = "[access]\ndefault = 'allow'\n";
    let tls = "[[listener]]\nallow_anonymous = true\naddress = 'mqtts://127.0.0.1:0'\n";
    for keys in [
        format!("[access]\nrules_file = {pipe:?}\n"),
        format!("{allow}[[auth]]\nkind = 'password-file'\nfile = {pipe:?}\n"),
        format!("{allow}[[auth]]\nkind = 'api-key'\nfile = {pipe:?}\n"),
        format!("{tls}certificate = {pipe:?}\nkey = {pipe:?}\n"),
        format!("[admin]\ntoken_file = {pipe:?}\n"),
        format!(
            "[[bridge]]\nname = 'b'\nbroker = 'mqtt://127.0.0.1:1'\ntopics = ['t out']\nusername = 'u'\npassword_file = {pipe:?}\n"
        ),
    ] {
        let ended = run(&["config", "check", &folder.write("t.toml", &keys)]);
        assert_eq!(ended.code, Some(1), "{keys}");
        assert!(ended.err.contains("it is a pipe"), "{keys}: {}", ended.err);
    }
}

#[test]
fn cve_2018_12550_a_failed_reload_keeps_the_old_rules() {
    let folder = Folder::new();
    let broker = broker(&folder, "topic write a\n");
    for broken in ["topic write a/#/b\n", "nonsense\n", "topic write \u{fffd}\ntopic rw a b\n"] {
        folder.write("acl", broken);
        let ended = reload(&broker);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
        assert!(ended.err.contains("refused") && ended.err.contains("acl:"), "{}", ended.err);
        assert!(may_publish(&broker, "a") && !may_publish(&broker, "b"));
    }
    std::fs::remove_file(folder.file("acl")).unwrap();
    assert_eq!(reload(&broker).code, Some(1));
    assert!(may_publish(&broker, "a") && !may_publish(&broker, "b"));
    broker.signal("TERM");
    let ended = broker.wait();
    assert!(ended.err.contains("the old one stays in force"), "{}", ended.err);
}

#[test]
fn reload_proves_itself_with_a_token_file() {
    let folder = Folder::new();
    let token = folder.write("token", "0123456789abcdef0123\n");
    let acl = folder.write("acl", "topic write a\n");
    let config = folder.write("t.toml", &format!("[access]\nacl_file = {acl:?}\n[admin]\ntoken_file = {token:?}\n"));
    let broker = Broker::start(&["--config", &config]);
    let admin = format!("http://{}", broker.address("admin=http://"));
    folder.write("acl", "topic write b\n");
    let refused = run(&["reload", "--admin", &admin]);
    assert!(refused.code == Some(1) && refused.err.contains("admin.token_file"), "{}", refused.err);
    assert!(may_publish(&broker, "a") && !may_publish(&broker, "b"));
    let reloaded = run(&["reload", "--admin", &admin, "--token-file", &token]);
    assert_eq!(reloaded.code, Some(0), "{}", reloaded.err);
    assert!(!may_publish(&broker, "a") && may_publish(&broker, "b"));
}

#[test]
fn a_signal_asks_for_the_same() {
    let folder = Folder::new();
    let broker = broker(&folder, "topic write a\n");
    folder.write("acl", "topic write b\n");
    broker.signal("HUP");
    let started = Instant::now();
    while !may_publish(&broker, "b") {
        assert!(started.elapsed() < PATIENCE, "the new rules did not come in force");
    }
    assert!(!may_publish(&broker, "a"));
    broker.signal("TERM");
    let ended = broker.wait();
    assert_eq!(ended.code, Some(0));
    assert!(ended.err.contains("reloaded"), "{}", ended.err);
}

#[test]
fn keys_that_need_a_restart_are_listed() {
    let folder = Folder::new();
    let config = folder.write("t.toml", "[log]\nlevel = 'info'\n");
    let broker = Broker::start(&["--config", &config]);
    folder.write("t.toml", "[log]\nlevel = 'debug'\n[queue]\nmax_messages = 20\nmemory_size = '1MiB'\n");
    let ended = reload(&broker);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("log.level: \"info\" -> \"debug\"\n"), "{}", ended.out);
    assert!(ended.out.contains("queue.max_messages: 0 -> 20\n"), "{}", ended.out);
    assert!(ended.out.contains("queue.memory_size: \"256KiB\" -> \"1MiB\"  (needs a restart)\n"), "{}", ended.out);
}

#[test]
fn limits_hold_from_the_reload_on() {
    let folder = Folder::new();
    let config = folder.write("t.toml", "[retained]\nmax_messages = 1\n[node]\nshards = 1\n");
    let broker = Broker::start(&["--config", &config]);
    let (host, port) = broker.address("mqtt://").rsplit_once(':').unwrap();
    let retain = |topic| run(&["pub", "-V", "5", "-h", host, "-p", port, "-q", "1", "-r", "-t", topic, "-m", topic]);
    let count = |more: &str| broker.get("/metrics").1.lines().any(|line| line == more);
    retain("a");
    retain("b");
    assert!(count("mqtt_retained_messages 1"));
    folder.write("t.toml", "[retained]\nmax_messages = 2\n[node]\nshards = 1\n");
    assert_eq!(reload(&broker).code, Some(0));
    retain("b");
    retain("c");
    assert!(count("mqtt_retained_messages 2"));
}

#[test]
fn a_reload_without_a_broker_fails() {
    let ended = run(&["reload", "--admin", "http://127.0.0.1:1"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""));
    assert!(ended.err.contains("no broker answers at 127.0.0.1:1: Connection refused"), "{}", ended.err);
    let broker = Broker::start(&[]);
    // Without the header that no web page can send.
    let (status, _) = broker.get("/api/v1/reload");
    assert_eq!(status, "405");
}

#[test]
fn the_answer_names_the_differences_of_files() {
    let folder = Folder::new();
    let broker = broker(&folder, "topic write a\ntopic read b\n");
    folder.write("acl", "topic read b\ntopic write c\n");
    let ended = reload(&broker);
    for part in ["access rules: no longer: ", "acl:1: ", "access rules: new: ", "acl:2: "] {
        assert!(ended.out.contains(part), "{part}: {}", ended.out);
    }
    assert!(!reload(&broker).out.contains("new: "), "once");
}
