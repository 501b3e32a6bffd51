//! The choice of the driver that carries a load to its broker.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::criteria;
use crate::drivers::{self, ExchangePlan, Protocol, TranslateError};
use crate::load::plan::Transport;
use crate::load::{self, LoadError, LoadOutcome, LoadPlan, Progress};
use crate::peer::within;
use crate::priority::{self, Asked, CheckError};
use crate::results::Found;
use crate::scenario::Check;
use crate::stop::Stop;

/// The command of this program that is a worker: `tidegate lab work`.
const WORK: &str = "work";

/// The outcome of a carried plan.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) load: LoadOutcome,
    pub(super) found: Vec<Found>,
}

/// Why a load was not carried, or a test not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum CarryError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("the test could not be made: {0}")]
    Check(#[from] CheckError),
}

/// The driver of a load.
#[derive(Clone, Debug)]
pub(super) enum Carrier {
    /// The load generator for MQTT; processes of groups with limits join the cgroups of whose files each has a list.
    Mqtt(LoadPlan, Vec<Vec<PathBuf>>),
    /// A driver for another protocol.
    Exchange(ExchangePlan),
    /// A test in place of a load.
    Check(Check, Asked),
}

impl Carrier {
    /// The carrier of a plan over a protocol; MQTT by default.
    ///
    /// # Errors
    /// When the protocol cannot carry this.
    pub(super) fn of(plan: &LoadPlan, protocol: Option<Protocol>) -> Result<Self, TranslateError> {
        match protocol {
            None => Ok(Self::Mqtt(plan.clone(), Vec::new())),
            Some(protocol) => ExchangePlan::of(plan, protocol).map(Self::Exchange),
        }
    }

    /// Has the processes of groups with limits join these cgroups.
    pub(super) fn limit(&mut self, joins: Vec<Vec<PathBuf>>) {
        if let Self::Mqtt(_, limited) = self {
            *limited = joins;
        }
    }

    /// Its name in results.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Exchange(exchange) if exchange.tls => format!("{} over TLS", exchange.protocol.name()),
            Self::Exchange(exchange) => exchange.protocol.name().to_owned(),
            Self::Check(..) => "mqtt".to_owned(),
            Self::Mqtt(plan, _) => match plan.target.transport {
                Transport::Tcp => "mqtt",
                Transport::Tls => "mqtt over TLS",
                Transport::WebSocket => "mqtt over WebSocket",
                Transport::SecureWebSocket => "mqtt over WebSocket over TLS",
                Transport::Quic => "mqtt over QUIC",
            }
            .to_owned(),
        }
    }

    /// Carries it out; in several processes of `executable` when the plan asks for that.
    ///
    /// # Errors
    /// If the plan cannot be carried out, or the system refuses a resource of the run.
    pub(super) fn run(
        &self,
        executable: &Path,
        progress: &mut dyn Progress,
        stop: &Stop,
    ) -> Result<Carried, CarryError> {
        let load = match self {
            Self::Check(check, asked) => return checked(*check, asked, stop),
            Self::Exchange(exchange) => drivers::run(exchange, progress, stop.flag())?,
            Self::Mqtt(plan, limited) => {
                let worker = |number| worker(executable, plan, number, limited);
                load::run_in_processes(plan, worker, progress, stop.flag())?
            }
        };
        Ok(Carried { load, found: Vec::new() })
    }
}

/// The command of worker `number` of a plan.
fn worker(executable: &Path, plan: &LoadPlan, number: u32, limited: &[Vec<PathBuf>]) -> Command {
    let joins = number.checked_sub(plan.processes).and_then(|place| limited.get(place as usize));
    let mut command = match joins {
        None => Command::new(executable),
        Some(joins) => {
            let mut command = within(joins, None);
            command.arg(executable);
            command
        }
    };
    command.arg(WORK);
    command
}

/// Runs a test in place of a load: it counts nothing, and has findings.
fn checked(check: Check, asked: &Asked, stop: &Stop) -> Result<Carried, CarryError> {
    let zero = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let found = match check {
        Check::Priority => priority::priority(asked, stop),
        Check::Queue => priority::limits(asked, stop),
        Check::Criteria => criteria::found(asked),
    }?;
    let zero_unix_ns = u64::try_from(zero.as_nanos()).unwrap_or(u64::MAX);
    Ok(Carried { load: LoadOutcome { zero_unix_ns, ..LoadOutcome::default() }, found })
}
