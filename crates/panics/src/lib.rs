//! The policy for panics: a panic ends the process.
//!
//! A thread or task that panics ends, and its service with it: a shard's clients, a listener, a connection to the bus.
//! The rest of the process would continue without it. So a serving process calls [`end_process`] once. From then on a
//! panic of any thread ends the process, also where a runtime would catch it. A supervisor restarts the process, which
//! recovers as after a crash.
//!
//! Only work inside [`contain`] may panic without ending the process: isolated work on external input, whose caller can
//! continue without its result. `clippy.toml` forbids all other ways to catch panics. A lean program is built with
//! `panic = "abort"` and contains nothing: there every panic ends the process in the same way.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of a process that a panic has ended, as for any panic in Rust.
pub const EXIT_CODE: i32 = 101;

/// Whether panics unwind. Where they abort, as in lean programs, none can be contained: each ends the process.
const UNWINDS: bool = cfg!(panic = "unwind");

/// Characters of a panic's message that are reported. Some messages repeat the offending input.
const SAID_CHARS: usize = 1_000;

thread_local! {
    /// How many [`contain`] this thread is in.
    static CONTAINED: Cell<u32> = const { Cell::new(0) };
}

/// A panic ends the process by now.
static ENDING: AtomicBool = AtomicBool::new(false);

/// A panic, while it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panic {
    /// The thread that panics.
    pub thread: String,
    /// The file, line and column.
    pub place: String,
    /// The message.
    pub said: String,
    /// Whether it is contained; otherwise the process ends.
    pub contained: bool,
}

impl Panic {
    fn of(info: &PanicHookInfo<'_>) -> Self {
        Self {
            thread: std::thread::current().name().unwrap_or("without a name").to_owned(),
            place: info.location().map(ToString::to_string).unwrap_or_default(),
            said: text_of(info.payload()),
            // A thread whose locals are destroyed contains no panic.
            contained: UNWINDS && CONTAINED.try_with(|depth| depth.get() > 0).unwrap_or_default(),
        }
    }
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no text").chars().take(SAID_CHARS).collect()
}

/// Makes an uncontained panic end the process with [`EXIT_CODE`]. `tell` reports the panic, on the panicking thread and
/// before the process ends; it must not wait without end. It is called for contained panics, too.
#[expect(clippy::disallowed_methods, reason = "the only place that handles panics")]
pub fn end_process(tell: impl Fn(&Panic) + Send + Sync + 'static) {
    std::panic::set_hook(Box::new(move |info| {
        let panic = Panic::of(info);
        if !panic.contained {
            ENDING.store(true, Ordering::Release);
        }
        tell(&panic);
        if !panic.contained {
            std::process::exit(EXIT_CODE);
        }
    }));
}

/// Whether a panic ends the process at this moment.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::Acquire)
}

/// The work panicked and was dropped; its caller continues without it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contained {
    said: String,
}

impl fmt::Display for Contained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it panicked: {}", self.said)
    }
}

impl std::error::Error for Contained {}

/// Does work that may panic. The data that it changes must be consistent at every step, or be dropped with it.
///
/// # Errors
/// When it has panicked.
#[expect(clippy::disallowed_methods, reason = "this is the one place that catches panics")]
pub fn contain<T>(work: impl FnOnce() -> T) -> Result<T, Contained> {
    let _within = Within::begin();
    std::panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Contained { said: text_of(&*payload) })
}

/// As long as it is there, panics of this thread are contained.
struct Within;

impl Within {
    fn begin() -> Self {
        CONTAINED.with(|depth| depth.set(depth.get() + 1));
        Self
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        CONTAINED.with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_panics_is_gone_alone() {
        assert_eq!(contain(|| 7), Ok(7));
        let fell = contain(|| -> u8 { panic!("at {}", 7) }).unwrap_err();
        assert_eq!(fell.to_string(), "it panicked: at 7");
        assert_eq!(CONTAINED.with(Cell::get), 0, "later work is not contained");
        let inner = contain(|| {
            let fell = contain(|| -> u8 { panic!("{}", "x".repeat(2 * SAID_CHARS)) }).unwrap_err();
            (CONTAINED.with(Cell::get), fell.said.len())
        });
        assert_eq!(inner, Ok((1, SAID_CHARS)));
    }
}
