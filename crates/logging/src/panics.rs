//! The log line about a panic, before it ends the process.

use std::backtrace::{Backtrace, BacktraceStatus};

use tidegate_panics::{Panic, end_process};

use super::{Log, writer};
use tidegate_terminal::report;

/// A panic ends the process from now on, with a line in this log.
pub(super) fn end_in(log: &Log) {
    let log = log.clone();
    end_process(move |panic| {
        if panic.contained {
            let Panic { thread, place, said, .. } = panic;
            tracing::debug!(thread, place, said, "some work has panicked, and is given up");
        } else {
            tell_of_the_end(&log, panic);
        }
    });
}

fn tell_of_the_end(log: &Log, panic: &Panic) {
    let Panic { thread, place, said, .. } = panic;
    tracing::error!(
        thread,
        place,
        said,
        "a thread panicked; the process ends, because this work would stop. This is a defect; please report it"
    );
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        tracing::error!(%trace, "the place of the panic");
    }
    // A reader that does not read the log does not keep the process from ending.
    if !log.flush() && thread == writer::THREAD {
        report(&format_args!("the log writer's thread panicked at {place}: {said}"));
    }
}

/// Waits where a test says for its word, and panics then. A build for use does not look for it.
#[cfg(debug_assertions)]
pub(super) fn panic_for_a_test() -> std::io::Result<()> {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    let Some(place) = std::env::var_os("TIDEGATE_TEST_PANIC") else { return Ok(()) };
    let mut test = UnixStream::connect(place)?;
    let body = move || {
        let word = test.read(&mut [0]);
        assert!(!matches!(word, Ok(1)), "a test asked for it");
    };
    std::thread::Builder::new().name("of-a-test".to_owned()).spawn(body).map(drop)
}
