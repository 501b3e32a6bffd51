//! A connection with a person at its end: signals, errors, and connecting again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use tidegate_client::net::{Driver, Step, Waker};
use tidegate_client::{
    Client, Direction, DisconnectRequest, Disconnected, Event, ProtocolError, ReasonCode, Trace, Version,
};

use super::chain::chain;
use super::flags::connection::Plan;
use super::outcome::{CommandError, Outcome};
use tidegate_process::signals::{Insisted, Insistence};
use tidegate_terminal::complain;

/// How long to wait before the connection is tried again, at first and at most; it doubles in between.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The number added to a signal for the exit code of a process that it ended, as in shells.
const SIGNAL_EXIT_CODE: i32 = 128;

/// How often a lost connection is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// Not at all.
    Never,
    /// So often without success.
    Attempts(u32),
    /// For ever.
    Always,
}

/// Something that the command has to act on.
#[derive(Debug)]
pub(crate) enum News {
    /// The client has news, other than the end of a connection.
    Event(Event),
    /// Another thread has something.
    Woken,
    /// The time is up.
    Deadline,
    /// A signal asks to stop.
    Interrupted,
}

/// A client of a command.
#[derive(Debug)]
pub(crate) struct Session {
    driver: Driver,
    version: Version,
    farewell: DisconnectRequest,
    persistence: Persistence,
    quiet: bool,
    /// The messages left until the client continues from another port.
    rebind_after: Option<u64>,
    connected_once: bool,
    /// True if messages of the server beyond the Receive Maximum were reported on this connection.
    told_beyond: bool,
    /// Since when there is a connection.
    attached_at: Option<Instant>,
    /// How often the connection was tried again since it was of use.
    failures: u32,
    /// How long to wait before it is tried again.
    pause: Duration,
    /// When it is tried again; `None` while there is one, or a first attempt.
    retry_at: Option<Instant>,
    /// A signal asks to stop.
    stop: Arc<AtomicBool>,
    /// There is no connection that could be closed in good order, so a signal may end the process at once.
    unattached: Arc<AtomicBool>,
}

impl Session {
    /// Prepares a client; the connection is made by [`Session::connect`].
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn new(plan: Plan, persistence: Persistence) -> Result<Self, CommandError> {
        let version = plan.options.version;
        let session = Self {
            driver: Driver::new(plan.options, plan.address, plan.sockets)?,
            version,
            farewell: plan.properties.disconnect,
            persistence,
            quiet: plan.quiet,
            rebind_after: plan.rebind_after,
            connected_once: false,
            told_beyond: false,
            attached_at: None,
            failures: 0,
            pause: FIRST_PAUSE,
            retry_at: None,
            stop: Arc::new(AtomicBool::new(false)),
            unattached: Arc::new(AtomicBool::new(true)),
        };
        session.catch_signals()?;
        Ok(session)
    }

    fn catch_signals(&self) -> io::Result<()> {
        for signal in [SIGINT, SIGTERM] {
            let at_once = Arc::clone(&self.unattached);
            signal_hook::flag::register_conditional_shutdown(signal, SIGNAL_EXIT_CODE + signal, at_once)?;
        }
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let stop = Arc::clone(&self.stop);
        let waker = self.driver.waker();
        let mut insistence = Insistence::default();
        std::thread::spawn(move || {
            for signal in signals.forever() {
                // A later signal does not wait for the farewell; one that belongs to the first does.
                if insistence.note(Instant::now()) == Insisted::AtOnce {
                    low_level::exit(SIGNAL_EXIT_CODE + signal);
                }
                stop.store(true, Ordering::SeqCst);
                // If waking fails, a later signal will do.
                let _ = waker.wake();
            }
        });
        Ok(())
    }

    /// The version of MQTT that it speaks.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// The client, for requests.
    pub(crate) fn client(&mut self) -> &mut Client {
        self.driver.client()
    }

    /// A waker, which makes [`Session::next`] return from another thread.
    pub(crate) fn waker(&self) -> Waker {
        self.driver.waker()
    }

    /// Makes the connection for the first time.
    ///
    /// # Errors
    /// When there is no server, which is not tried again.
    pub(crate) fn connect(&mut self) -> Result<(), CommandError> {
        self.driver.connect()?;
        Ok(())
    }

    /// Waits for news. A lost connection is made again, as often as is wanted.
    ///
    /// # Errors
    /// When the connection is lost for good.
    pub(crate) fn next(&mut self, deadline: Option<Instant>) -> Result<News, CommandError> {
        loop {
            let until = deadline.into_iter().chain(self.retry_at).min();
            match self.driver.next(until)? {
                Step::Event(Event::Trace(trace)) => show(&trace),
                Step::Event(Event::Disconnected(why)) => self.lost(why)?,
                Step::Event(Event::InvalidTopic(error)) => {
                    self.warn(&format_args!("a message is left out: its topic {error}"));
                }
                Step::Event(Event::BeyondReceiveMaximum) => {
                    if !std::mem::replace(&mut self.told_beyond, true) {
                        self.warn(&"the server sends more messages than the receive maximum allows; they are taken");
                    }
                }
                Step::Event(event) => {
                    if matches!(event, Event::Connected(_)) {
                        self.attached();
                    }
                    if matches!(event, Event::Message(_) | Event::Published(_)) {
                        self.count_message()?;
                    }
                    return Ok(News::Event(event));
                }
                Step::Woken if self.stop.load(Ordering::SeqCst) => return Ok(News::Interrupted),
                Step::Woken => return Ok(News::Woken),
                Step::Deadline if self.retry_at.is_some_and(|retry_at| Instant::now() >= retry_at) => self.retry()?,
                Step::Deadline => return Ok(News::Deadline),
            }
        }
    }

    /// Ends the connection in good order, however the command went.
    ///
    /// # Errors
    /// When the command failed, or else when the system fails.
    pub(crate) fn end(&mut self, result: Result<Outcome, CommandError>) -> Result<Outcome, CommandError> {
        let ended = self.disconnect();
        result.and_then(|outcome| ended.map(|()| outcome))
    }

    fn disconnect(&mut self) -> Result<(), CommandError> {
        let farewell = self.farewell.clone();
        let now = Instant::now();
        if self.client().is_connected()
            && let Err(error) = self.client().disconnect(now, &farewell)
        {
            self.warn(&format_args!("cannot say farewell: {error}"));
        }
        self.driver.finish()?;
        while let Some(event) = self.client().poll_event() {
            if let Event::Trace(trace) = event {
                show(&trace);
            }
        }
        Ok(())
    }

    fn attached(&mut self) {
        self.connected_once = true;
        self.told_beyond = false;
        self.attached_at = Some(Instant::now());
        self.unattached.store(false, Ordering::SeqCst);
    }

    /// A message has been settled or has arrived. After as many as were asked for, the client continues from another
    /// port.
    fn count_message(&mut self) -> Result<(), CommandError> {
        let Some(left) = &mut self.rebind_after else { return Ok(()) };
        *left = left.saturating_sub(1);
        if *left == 0 {
            self.rebind_after = None;
            self.driver.rebind()?;
        }
        Ok(())
    }

    /// The connection is of use, so the next loss is no consequence of the last one.
    pub(crate) fn progress(&mut self) {
        self.failures = 0;
        self.pause = FIRST_PAUSE;
    }

    /// The connection is over: fails, or sees to it that it is made again.
    fn lost(&mut self, why: Disconnected) -> Result<(), CommandError> {
        // After a signal the command ends on its own, with its own exit code.
        self.unattached.store(!self.stop.load(Ordering::SeqCst), Ordering::SeqCst);
        if self.attached_at.take().is_some_and(|since| since.elapsed() >= LONGEST_PAUSE) {
            self.progress();
        }
        let text = match why {
            Disconnected::Refused(dismissal) if !(self.connected_once && is_passing(dismissal.reason_code)) => {
                return Err(CommandError::refused(self.version, &dismissal));
            }
            // Another client with the same id has taken over, say: taking it back would go on for ever.
            Disconnected::ByServer(dismissal) if !is_passing(dismissal.reason_code) => {
                return Err(CommandError::dismissed(&dismissal));
            }
            Disconnected::Refused(dismissal) | Disconnected::ByServer(dismissal) => dismissal.reason_code.to_string(),
            Disconnected::Protocol(error @ ProtocolError::AnotherProtocol { .. }) => {
                return Err(CommandError::NotMqtt(error));
            }
            Disconnected::Protocol(error) => return Err(CommandError::Lost(error.to_string())),
            Disconnected::ConnectTimeout => "the server did not answer CONNECT".to_owned(),
            Disconnected::KeepAliveTimeout => "the server did not answer PINGREQ".to_owned(),
            Disconnected::ReleaseTimeout { packet_id } => {
                format!("the server did not answer PUBREL of packet identifier {packet_id}")
            }
            Disconnected::TransportClosed | Disconnected::Requested => {
                self.driver.transport_error().map_or_else(|| "it was closed".to_owned(), |error| chain(error))
            }
        };
        // Before the first success there is nothing to return to.
        if !self.connected_once {
            return Err(CommandError::Lost(text));
        }
        self.schedule(CommandError::Lost(text))
    }

    /// Tries to connect again later, unless it has been tried often enough.
    fn schedule(&mut self, error: CommandError) -> Result<(), CommandError> {
        let attempts = match self.persistence {
            Persistence::Never => 0,
            Persistence::Attempts(attempts) => attempts,
            Persistence::Always => u32::MAX,
        };
        if self.failures >= attempts {
            return Err(error);
        }
        self.warn(&format_args!("{error}; trying again in {} s", self.pause.as_secs()));
        self.retry_at = Some(Instant::now() + self.pause);
        self.failures = self.failures.saturating_add(1);
        self.pause = LONGEST_PAUSE.min(2 * self.pause);
        Ok(())
    }

    fn retry(&mut self) -> Result<(), CommandError> {
        self.retry_at = None;
        // The last connection has to be finished first.
        self.driver.finish()?;
        match self.driver.connect() {
            Ok(()) => Ok(()),
            Err(error) => self.schedule(error.into()),
        }
    }

    /// Tells the person something that is not the end, unless only the exit code is wanted.
    pub(crate) fn warn(&self, text: &dyn std::fmt::Display) {
        if !self.quiet {
            complain(format_args!("warning: {text}\n"));
        }
    }
}

/// Whether a server that says so may be there again soon.
const fn is_passing(reason: ReasonCode) -> bool {
    matches!(
        reason,
        ReasonCode::ServerUnavailable
            | ReasonCode::ServerBusy
            | ReasonCode::ServerShuttingDown
            | ReasonCode::ConnectionRateExceeded
    )
}

fn show(trace: &Trace) {
    let direction = match trace.direction {
        Direction::Sent => "sent",
        Direction::Received => "received",
    };
    let space = if trace.detail.is_empty() { "" } else { " " };
    complain(format_args!("{direction} {}{space}{}\n", trace.packet, trace.detail));
}
