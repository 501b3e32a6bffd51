//! A manager at work in this process, from its fleet file to its end.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use clap::Args;
use tidegate_fleet::fleet_file::{FleetFile, FleetFileError};
use tidegate_fleet::manage::driver::{Driver, EntryPoint, NoEntryPoint, Parts, StateDirectory};

use super::entry_point;
use super::place::{register, state_directory};
use tidegate_logging::Log;
use tidegate_logging::{LogFormat, LogLevel};
use tidegate_process::signals::{Asked, BrokerSignals};
use tidegate_terminal::{Exit, report};

/// The flags that `up` and `manager` share.
#[derive(Clone, Debug, Args)]
pub(crate) struct SessionArgs {
    /// Keep the fleet's state here instead of where the fleet file or the user's state directory says
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,

    /// How much is logged: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "warn", value_parser = log_level)]
    log: LogLevel,
}

/// A text that names no log level.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("write error, warn, info, debug or trace")]
struct UnknownLogLevel;

fn log_level(text: &str) -> Result<LogLevel, UnknownLogLevel> {
    match text {
        "error" => Ok(LogLevel::Error),
        "warn" => Ok(LogLevel::Warn),
        "info" => Ok(LogLevel::Info),
        "debug" => Ok(LogLevel::Debug),
        "trace" => Ok(LogLevel::Trace),
        _ => Err(UnknownLogLevel),
    }
}

/// The next step of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// The manager works on.
    Work,
    /// It stops.
    Stop,
}

/// The treatment of the fleet at the end of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtItsEnd {
    /// It runs on.
    Leave,
    /// It stops.
    Stop,
    /// It stops at once, and nothing of it is started before.
    StopNow,
}

/// A manager at work.
pub(crate) struct Session {
    driver: Driver,
    dns: Option<tidegate_dns::Server>,
    signals: BrokerSignals,
    log: Log,
}

/// Why a session does not begin.
pub struct NoSession {
    exit: Exit,
    text: String,
}

impl From<NoSession> for Exit {
    fn from(no: NoSession) -> Self {
        report(&no.text);
        no.exit
    }
}

fn failure(text: impl std::fmt::Display) -> NoSession {
    NoSession { exit: Exit::Failure, text: text.to_string() }
}

impl Session {
    /// Takes the fleet over that a file describes.
    ///
    /// # Errors
    /// When the file is wrong, another manager runs, or the state cannot be read.
    pub(crate) fn open(path: &std::path::Path, args: &SessionArgs, at_its_end: AtItsEnd) -> Result<Self, NoSession> {
        let wrong = |error: FleetFileError| NoSession { exit: Exit::Usage, text: error.to_string() };
        let file = FleetFile::load(path).map_err(wrong)?;
        if at_its_end != AtItsEnd::Leave && file.is_of_a_cluster() {
            let text =
                "a fleet of a cluster is not stopped by its manager: run `tidegate manager`, and scale its StatefulSets to 0 to stop it"
                    .to_owned();
            return Err(NoSession { exit: Exit::Usage, text });
        }
        if at_its_end != AtItsEnd::Leave && file.keeps_orchestrators() {
            let text =
                "a fleet whose orchestrators are machines is not stopped by its manager, since their stored messages would be lost: run `tidegate manager`, and stop the machines in the cloud"
                    .to_owned();
            return Err(NoSession { exit: Exit::Usage, text });
        }
        let mut signals =
            BrokerSignals::catch().map_err(|error| failure(format_args!("cannot catch signals: {error}")))?;
        let log = Log::start(args.log, LogFormat::Text)
            .map_err(|error| failure(format_args!("cannot start the thread that writes the log: {error}")))?;
        let directory = args.state.clone().unwrap_or_else(|| state_directory(&file));
        // Before the entry point takes its port: a second manager reports the first one, not a taken port.
        let locked = StateDirectory::lock(&directory).map_err(failure)?;
        let (dns, entry_point): (_, Box<dyn EntryPoint>) = match &file.dns {
            Some(dns) if at_its_end != AtItsEnd::StopNow => {
                let (server, point) = entry_point::start(dns).map_err(failure)?;
                (server, Box::new(point))
            }
            _ => (None, Box::new(NoEntryPoint)),
        };
        let executable = std::env::current_exe()
            .map_err(|error| failure(format_args!("cannot find this program's own file: {error}")))?;
        let provider = match file.provider(&directory, executable, &mut || signals.stop_is_asked()) {
            Ok(provider) => provider,
            // A manager that leaves its fleet as it is may end at any moment.
            Err(error) if at_its_end == AtItsEnd::Leave && error.is_interruption() => {
                return Err(NoSession { exit: Exit::Ok, text: error.to_string() });
            }
            Err(error) => return Err(failure(error)),
        };
        let name = file.settings.fleet.clone();
        let parts = Parts {
            judges: file.judges().map_err(failure)?,
            logins: file.logins(),
            admin_token: file.admin_token,
            port: file.api_port,
            metrics: file.metrics,
            settings: file.settings,
            provider,
            entry_point,
            directory: locked,
        };
        let driver = Driver::open(parts).map_err(failure)?;
        register(&name, &directory)
            .map_err(|error| failure(format_args!("cannot note where the fleet's state is: {error}")))?;
        Ok(Self { driver, dns, signals, log })
    }

    /// The addresses of the manager, its metrics and its DNS server: `manager=URL metrics=ADDRESS dns=ADDRESS`.
    pub(crate) fn addresses(&self) -> String {
        let mut text = format!("manager=http://{}", self.driver.address());
        if let Some(address) = self.driver.metrics_address() {
            // Writing to a string cannot fail.
            let _ = write!(text, " metrics={address}");
        }
        for address in self.dns.iter().flat_map(tidegate_dns::Server::addresses) {
            // Writing to a string cannot fail.
            let _ = write!(text, " dns={address}");
        }
        text
    }

    /// Actions of the fleet that have failed so far, also under managers before this one.
    pub(crate) fn failures(&self) -> u64 {
        self.driver.manager().book().totals.failed
    }

    /// Stops all processes of the fleet without working.
    pub(crate) fn stop_now(self) -> Exit {
        let Self { driver, dns, signals: _, log } = self;
        Ended { driver, dns, log }.stop_all()
    }

    /// Works until a signal stops it, or `look`, which is asked after each look at the fleet, says so.
    pub(crate) fn work(self, mut look: impl FnMut(&Driver) -> After) -> (Ended, Exit) {
        let Self { mut driver, dns, mut signals, log } = self;
        let (stop, stopped) = mpsc::channel();
        let looked = stop.clone();
        // It ends with the process; until then a signal must be heard.
        let listening = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            while signals.wait() == Asked::Reload {
                tracing::info!("a fleet file is read at the start only; SIGHUP changes nothing");
            }
            // The receiver is gone when the manager has already ended.
            let _ = stop.send(());
        });
        let outcome = if let Err(error) = listening {
            Err(format!("cannot start the thread that waits for signals: {error}"))
        } else {
            let after = |driver: &Driver| {
                if look(driver) == After::Stop {
                    // The receiver lives as long as this call.
                    let _ = looked.send(());
                }
            };
            driver.run(&stopped, after).map_err(|error| error.to_string())
        };
        let exit = outcome.map_or_else(
            |error| {
                report(&error);
                Exit::Failure
            },
            |()| Exit::Ok,
        );
        (Ended { driver, dns, log }, exit)
    }
}

/// A manager that works no more; the fleet runs on.
pub(crate) struct Ended {
    driver: Driver,
    dns: Option<tidegate_dns::Server>,
    log: Log,
}

impl Ended {
    /// Leaves the fleet as it is.
    pub(crate) fn leave(mut self, exit: Exit) -> Exit {
        let left = if exit == Exit::Ok { self.driver.leave() } else { Ok(()) };
        self.close();
        match left {
            Ok(()) => exit,
            Err(error) => {
                report(&error);
                Exit::Failure
            }
        }
    }

    /// Stops all processes of the fleet.
    pub(crate) fn stop_all(mut self) -> Exit {
        let stopped = self.driver.stop_all();
        self.close();
        match stopped {
            Ok(()) => Exit::Ok,
            Err(error) => {
                report(&error);
                Exit::Failure
            }
        }
    }

    fn close(self) {
        if let Some(dns) = self.dns {
            dns.stop();
        }
        drop(self.driver);
        self.log.flush();
    }
}
