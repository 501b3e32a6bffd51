//! A process whose threads and tasks panic. Each test runs itself once more as the process that is to end.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at the first surprise, and these are about panics"
)]

use std::process::{Command, Output};
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

use tidegate_panics::{EXIT_CODE, contain, end_process, is_ending};

/// Set in the process that is to end.
const CHILD: &str = "TIDEGATE_PANICS_CHILD";

/// Has `child` run in its own process, by the test of this name; there it does not return.
fn in_a_process(test: &str, child: impl FnOnce()) -> Output {
    if std::env::var_os(CHILD).is_some() {
        end_process(|panic| {
            eprintln!("<{}> <{}> <{}> {} {}", panic.thread, panic.place, panic.said, panic.contained, is_ending());
        });
        child();
        // No panic has ended it.
        std::process::exit(0);
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap()
}

fn fall(text: &str) {
    panic!("{text}");
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    Builder::new().name(name.to_owned()).spawn(body).unwrap()
}

/// The process has ended; its output.
fn ended(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(EXIT_CODE), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_unjoined_thread_ends_the_process() {
    let child = || {
        let (_wait, forever) = channel::<()>();
        thread("points", || fall("no more"));
        let _ = forever.recv();
    };
    let output = in_a_process("an_unjoined_thread_ends_the_process", child);
    let said = ended(&output);
    assert!(
        said.contains("<points> <") && said.contains("ending.rs:") && said.contains("<no more> false true"),
        "{said}"
    );
}

#[test]
fn a_task_ends_the_process_in_spite_of_its_runtime() {
    let child = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _ = runtime.block_on(async { tokio::spawn(async { fall("in a task") }).await });
    };
    let test = "a_task_ends_the_process_in_spite_of_its_runtime";
    let output = in_a_process(test, child);
    assert!(ended(&output).contains("<in a task> false true"));
}

#[test]
fn contained_work_ends_nothing_but_later_work_does() {
    let child = || {
        let fell = contain(|| fall("alone")).unwrap_err();
        assert_eq!(fell.to_string(), "it panicked: alone");
        let _ = thread("after", || {
            let _ = contain(|| fall("once"));
            fall("twice");
        })
        .join();
    };
    let test = "contained_work_ends_nothing_but_later_work_does";
    let output = in_a_process(test, child);
    let said = ended(&output);
    assert!(said.contains("<alone> true false") && said.contains("<once> true false"), "{said}");
    assert!(said.contains("<after>") && said.contains("<twice> false true"), "{said}");
}
