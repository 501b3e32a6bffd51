//! What a panic does to the process: it ends it.
//!
//! A thread or task that panics is gone, and what it was there for with it: a shard's clients, a service, a connection
//! to the bus. Nobody notices, because the rest of the process goes on. So a process that serves calls [`end_process`]
//! once, and from then on a panic of any thread ends it, whoever has started that thread and whatever would catch the
//! panic: a supervisor starts it again, and what has to outlive it does so as after a crash.
//!
//! Only what runs in [`contain`] may panic and is gone alone: work on what came from outside, by itself, whose caller
//! knows what to do without its outcome. `clippy.toml` keeps everybody from catching panics in another way.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};

/// Exit code of a process that a panic has ended, as for any panic in Rust.
pub const EXIT_CODE: i32 = 101;

/// Characters of what a panic says that are told: some repeat what they stumbled over.
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
    /// What it says.
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
            // A thread whose locals are gone already contains nothing.
            contained: CONTAINED.try_with(|depth| depth.get() > 0).unwrap_or_default(),
        }
    }
}

fn text_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no text").chars().take(SAID_CHARS).collect()
}

/// From now on a panic that is not contained ends the process with [`EXIT_CODE`]. `tell` says what has happened, on the
/// thread that panics and before the process ends; it must not wait without end. It hears of panics that are contained,
/// too.
#[expect(clippy::disallowed_methods, reason = "this is the one place that says what a panic does")]
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

/// The work has panicked and is gone; its caller goes on without it.
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

/// Does work that may panic. What it changes has to be whole whenever it does, or be given up with it.
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
        assert_eq!(CONTAINED.with(Cell::get), 0, "what comes next is not contained");
        let inner = contain(|| {
            let fell = contain(|| -> u8 { panic!("{}", "x".repeat(2 * SAID_CHARS)) }).unwrap_err();
            (CONTAINED.with(Cell::get), fell.said.len())
        });
        assert_eq!(inner, Ok((1, SAID_CHARS)));
    }
}
