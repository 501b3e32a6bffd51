//! Rules: asked from the command line, and in force in a broker.

use crate::broker::{Broker, Folder, run};

const ACL: &str = "topic read public/#\n\nuser alice\ntopic readwrite alice/#\ntopic deny alice/secret\n";

#[test]
fn the_rule_that_decides_is_named_with_its_line() {
    let folder = Folder::new();
    let acl = folder.write("acl", ACL);
    let set = format!("access.acl_file={acl}");
    let test = |words: &[&str]| run(&[&["acl", "test"], words, &["--set", &set]].concat());
    let ended = test(&["alice", "c", "publish", "alice/secret"]);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert_eq!(ended.out, format!("denied: {acl}:5: topic deny alice/secret (user alice)\n"));
    let ended = test(&["-", "c", "subscribe", "#", "--explain"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.starts_with(&format!("allowed, message by message: {acl}:1: topic read")), "{}", ended.out);
    assert!(ended.out.contains("it is for another user name"), "{}", ended.out);
    assert_eq!(test(&["bob", "c", "publish", "x"]).out, "denied: no rule is about it\n");
    assert_eq!(test(&["bob", "c", "publish", "x/#"]).code, Some(2));
    assert_eq!(run(&["acl", "test", "-", "c", "publish", "x"]).out, "allowed: there are no rules\n");
}

#[test]
fn cve_2018_12550_a_broken_file_of_rules_prevents_the_start() {
    let folder = Folder::new();
    let broken = folder.write("acl", "topic read public/#\nnonsense\n");
    for path in [broken, folder.file("missing")] {
        let set = format!("access.acl_file={path}");
        let ended = run(&["--listen", "127.0.0.1:0", "--admin", "off", "--set", &set]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{}", ended.err);
        assert!(ended.err.contains(&path), "{}", ended.err);
        let config = folder.write("t.toml", &format!("[access]\nacl_file = {path:?}\n"));
        let ended = run(&["config", "check", &config]);
        assert_eq!((ended.code, ended.out.as_str()), (Some(1), ""), "{}", ended.err);
        assert!(ended.err.contains(&path), "{}", ended.err);
    }
}

#[test]
fn config_check_warns_of_rules_for_no_listener() {
    let folder = Folder::new();
    let rules = folder.write("rules", "[[rule]]\nallow = false\nlisteners = ['wbe']\ntopics = ['#']\n");
    let config = folder.write("t.toml", &format!("[access]\nrules_file = {rules:?}\n"));
    let ended = run(&["config", "check", &config]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("there is no listener `wbe`"), "{}", ended.err);
}

#[test]
fn users_without_rights_in_the_settings_prevent_the_start() {
    let folder = Folder::new();
    let users = folder.write("users", "");
    let auth = format!("[[auth]]\nkind = 'password-file'\nfile = {users:?}\n");
    let check = |text: &str| run(&["config", "check", &folder.write("t.toml", text)]);
    let ended = check(&auth);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("no rule sets their rights") && ended.err.contains("default = \"allow\""),
        "{}",
        ended.err
    );
    for default in ["allow", "deny"] {
        let ended = check(&format!("{auth}[access]\ndefault = '{default}'\n"));
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }
}

#[test]
fn cve_2018_12550_an_empty_file_of_rules_denies_everything() {
    let folder = Folder::new();
    let set = format!("access.acl_file={}", folder.write("acl", ""));
    let broker = Broker::start(&["--set", &set]);
    assert!(!may_publish(&broker, "a"));
}

#[test]
fn rules_hold_from_the_first_connection_on() {
    let folder = Folder::new();
    let set = format!("access.acl_file={}", folder.write("acl", "topic write in/#\n"));
    let broker = Broker::start(&["--set", &set]);
    assert!(may_publish(&broker, "in/a"));
    assert!(!may_publish(&broker, "out/a"));
}

/// Whether a message with QoS 1 is acknowledged without an error.
pub(crate) fn may_publish(broker: &Broker, topic: &str) -> bool {
    let (host, port) = broker.address("mqtt://").rsplit_once(':').unwrap();
    let ended = run(&["pub", "-V", "5", "-h", host, "-p", port, "-q", "1", "-t", topic, "-m", "x"]);
    ended.code == Some(0) && ended.err.is_empty()
}
