//! Help, completions and exit codes.

use crate::broker::run;

#[test]
fn help_teaches() {
    let ended = run(&["--help"]);
    assert_eq!(ended.code, Some(0));
    for part in [
        "--listen",
        "--config",
        "--shards",
        "--admin",
        "--log ",
        "--log-format",
        "--allow-anonymous",
        "--set",
        "Examples:",
        "127.0.0.1:1883",
        "http://127.0.0.1:18083",
        "Exit codes: 0",
        "docs/configuration.md",
    ] {
        assert!(ended.out.contains(part), "{part}\n{}", ended.out);
    }
    let widest = ended.out.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 130, "{widest}");
}

#[test]
fn the_version_is_one_line() {
    let ended = run(&["--version"]);
    assert_eq!((ended.code, ended.out), (Some(0), concat!("tidegate ", env!("CARGO_PKG_VERSION"), "\n").to_owned()));
}

#[test]
fn a_wrong_flag_is_a_usage_error_with_a_suggestion() {
    let ended = run(&["--lisen", "1883"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("'--listen'"), "{}", ended.err);
    assert_eq!(ended.out, "");
}

#[test]
fn a_wrong_command_is_a_usage_error_with_a_suggestion() {
    let ended = run(&["confg"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("'config'"), "{}", ended.err);
}

#[test]
fn a_setting_without_a_value_is_a_usage_error() {
    let ended = run(&["--set", "queue.max_messages"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("KEY=VALUE"), "{}", ended.err);
}

#[test]
fn every_shell_gets_its_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = run(&["completions", shell]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(ended.out.contains("tidegate") && ended.out.contains("listen"), "{shell}");
    }
    assert_eq!(run(&["completions", "command.com"]).code, Some(2));
}
