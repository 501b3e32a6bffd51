//! A process of the fleet, held so that a signal can reach no other one.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tidegate_process::signals::BrokerSignals;

use super::error::ChaosError;
use super::plan::{Fault, Member, Strike};
use super::{SLICE, pause, rest};

/// A process. Its process id may become that of another program after its end; this does not.
pub(super) struct Held(OwnedFd);

impl Held {
    /// Holds the process of a member; `None` when no process has its id.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn open(member: &Member) -> Result<Option<Self>, ChaosError> {
        let Some(pid) = Pid::from_raw(member.pid) else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => Ok(Some(Self(process))),
            Err(Errno::SRCH) => Ok(None),
            Err(source) => Err(ChaosError::Process { attempt: "find", member: member.clone(), source }),
        }
    }

    /// Sends a signal; false when the process has ended.
    fn signal(&self, signal: Signal) -> Result<bool, Errno> {
        match pidfd_send_signal(&self.0, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Strikes the process; false when it had ended before.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn strike(&self, strike: &Strike, signals: &mut BrokerSignals) -> Result<bool, ChaosError> {
        let made = match strike.fault {
            Fault::Kill => self.signal(Signal::KILL),
            Fault::Stop => self.stop().map(|stopped| {
                let is_struck = stopped.is_some();
                if is_struck {
                    pause(strike.length, signals);
                }
                drop(stopped);
                is_struck
            }),
            Fault::Slow => self.slow(strike.length, signals),
        };
        made.map_err(|source| ChaosError::Process { attempt: "signal", member: strike.member.clone(), source })
    }

    fn stop(&self) -> Result<Option<Stopped<'_>>, Errno> {
        Ok(self.signal(Signal::STOP)?.then_some(Stopped(self)))
    }

    fn slow(&self, length: Duration, signals: &mut BrokerSignals) -> Result<bool, Errno> {
        let (end, mut is_struck) = (Instant::now() + length, false);
        while Instant::now() < end && !signals.stop_is_asked() {
            let Some(stopped) = self.stop()? else { break };
            is_struck = true;
            rest(SLICE * 9 / 10);
            drop(stopped);
            rest(SLICE / 10);
        }
        Ok(is_struck)
    }
}

/// A stopped process, which continues in any case.
struct Stopped<'a>(&'a Held);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        // A process that has ended cannot go on.
        let _ = self.0.signal(Signal::CONT);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn an_ended_process_is_not_struck() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let member = Member { name: "broker-1".to_owned(), level: "broker".to_owned(), pid };
        let held = Held::open(&member).unwrap().unwrap();
        assert_eq!(held.signal(Signal::CONT), Ok(true));
        // Its input is over.
        drop(child.stdin.take());
        child.wait().unwrap();
        // From here on the number may be that of another process.
        assert_eq!(held.signal(Signal::KILL), Ok(false));
        assert!(held.stop().unwrap().is_none());
    }
}
