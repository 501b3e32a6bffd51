//! The link that a bridge takes: a proxy that can be cut, silent or slow.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::failure::Failure;

/// Bytes that are carried at a time.
const CHUNK: usize = 4096;
/// How long a chunk takes on a slow link.
const SLOWNESS: Duration = Duration::from_millis(40);
/// Between two looks at the state of the link.
const LOOK: Duration = Duration::from_millis(5);

/// How the link treats its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Carries all at once.
    Open,
    /// Ends all connections and takes no new one.
    Cut,
    /// Keeps connections and carries nothing.
    Silent,
    /// Carries little at a time.
    Slow,
}

const STATES: [State; 4] = [State::Open, State::Cut, State::Silent, State::Slow];

/// A proxy from its own port to the far broker.
pub(super) struct Link {
    state: Arc<AtomicU8>,
    /// When the link is open again.
    back_at: Instant,
}

impl Link {
    /// Starts to carry connections to `target`.
    pub(super) fn start(port: u16, target: u16) -> Result<Self, Failure> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(Failure::system("listening for the bridge"))?;
        let state = Arc::new(AtomicU8::new(State::Open as u8));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                // A connection that cannot be carried is dropped, as a link without a far end does.
                if read(&shared) != State::Cut
                    && let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, target))
                {
                    let _ = carry_both(near, far, &shared);
                }
            }
        });
        Ok(Self { state, back_at: Instant::now() })
    }

    /// Changes its state until a time.
    pub(super) fn strike(&mut self, state: State, back_at: Instant) {
        self.state.store(state as u8, Ordering::Relaxed);
        self.back_at = back_at;
    }

    /// Opens it again when that is due.
    pub(super) fn tend(&mut self, now: Instant) {
        if now >= self.back_at {
            self.state.store(State::Open as u8, Ordering::Relaxed);
        }
    }

    /// True if it carries all.
    pub(super) fn is_open(&self) -> bool {
        read(&self.state) == State::Open
    }
}

fn read(state: &AtomicU8) -> State {
    STATES.get(usize::from(state.load(Ordering::Relaxed))).copied().unwrap_or(State::Open)
}

fn carry_both(near: TcpStream, far: TcpStream, state: &Arc<AtomicU8>) -> std::io::Result<()> {
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    for (from, to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
        from.set_read_timeout(Some(LOOK))?;
        let state = Arc::clone(state);
        std::thread::spawn(move || {
            carry(&from, &to, &state);
            // The other direction ends with this one; both may be closed already.
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    Ok(())
}

/// Carries one direction to its end.
fn carry(mut from: &TcpStream, mut to: &TcpStream, state: &AtomicU8) {
    let mut chunk = [0; CHUNK];
    loop {
        match read(state) {
            State::Open => {}
            State::Cut => return,
            State::Silent => {
                pass(LOOK);
                continue;
            }
            State::Slow => pass(SLOWNESS),
        }
        match from.read(&mut chunk) {
            Ok(0) => return,
            Ok(count) => {
                if to.write_all(&chunk[..count]).is_err() {
                    return;
                }
            }
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {}
            Err(_) => return,
        }
    }
}

/// Lets time pass, which is the fault itself.
#[expect(clippy::disallowed_methods, reason = "a silent or slow link is made of time, and waits for no event")]
fn pass(time: Duration) {
    std::thread::sleep(time);
}
