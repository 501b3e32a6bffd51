//! A panic of any thread ends the process, so that a supervisor starts it again. Builds with debug assertions panic
//! when a test says so.

#![cfg(debug_assertions)]

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::time::Instant;

use crate::broker::{Ended, Folder, PATIENCE, command, pause};

/// Runs a command with a thread that panics once it runs; kills the process if the panic does not end it.
fn panicking(arguments: &[&str]) -> Ended {
    let folder = Folder::new();
    let place = folder.file("word.sock");
    let listener = UnixListener::bind(&place).unwrap();
    std::thread::spawn(move || listener.accept().unwrap().0.write_all(b"!").unwrap());
    let mut command = command(arguments);
    command.env("TIDEGATE_TEST_PANIC", &place).env_remove("RUST_BACKTRACE");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > PATIENCE {
            child.kill().unwrap();
        }
        pause(20);
    }
    child.wait_with_output().unwrap().into()
}

#[test]
fn a_panic_of_any_thread_ends_every_command_that_serves() {
    let anywhere = ["--listen", "127.0.0.1:0"];
    for arguments in [
        &[&["run", "--admin", "127.0.0.1:0"], &anywhere[..]].concat()[..],
        &[&["orchestrator", "--admin", "off", "--broker", "mqtt://127.0.0.1:1"], &anywhere[..]].concat(),
        // It waits for its bus meanwhile.
        &["core", "--bus", "nats://127.0.0.1:1", "--member", "c1"],
        &[&["dns", "--zone", "mqtt.example", "--endpoint=a=192.0.2.1"], &anywhere[..]].concat(),
    ] {
        let ended = panicking(arguments);
        assert_eq!(ended.code, Some(101), "{arguments:?}: {}", ended.err);
        let line = ended.err.lines().find(|line| line.contains("a thread panicked; the process ends"));
        let line = line.unwrap_or_else(|| panic!("{arguments:?}: {}", ended.err));
        let parts = [" ERROR ", " thread=of-a-test ", " place=crates/logging/src/", " said=\"a test asked for it\""];
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
}
