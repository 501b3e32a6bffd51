//! The platform around a broker, as study LAV has it: brokers, a gateway and a hub at each of them, and a bus between gateways
//! and hubs. Each part is a process with limits of its own. Gateways and hubs are `tidegate hub`, the bus is JetStream of
//! NATS; the brokers are the peer of the run.
//!
//! - `part` is a process within its limits.
//! - `bus` makes the stream.
//! - `files` are the configurations of the parts.

mod bus;
mod error;
mod files;
mod part;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidegate_proc::program::find;

pub use self::bus::BusError;
pub use self::error::PlatformError;
use self::part::{PartProcess, PartSettings};
pub use self::part::{PartUse, Watermark};
use crate::limits::Limits;
use crate::load::plan::Encoding;
use crate::peer::{PeerPaths, Ports};
use crate::sample::Cgroups;
use crate::stop::Stop;

/// Brokers of a platform, with a gateway and a hub each.
pub const BROKERS: usize = 2;
/// Servers of the bus.
const SERVERS: usize = 3;
/// Time for all parts to start.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Between two looks at a part that starts.
const LOOK: Duration = Duration::from_millis(50);

/// The platform of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// The encoding of documents between gateways and hubs.
    pub encoding: Encoding,
    /// The limits of one instance of each kind; empty means unlimited.
    #[serde(default)]
    pub limits: PartLimits,
}

/// The limits of one instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartLimits {
    /// Of a broker.
    #[serde(default)]
    pub broker: Limits,
    /// Of a gateway.
    #[serde(default)]
    pub gateway: Limits,
    /// Of a server of the bus.
    #[serde(default)]
    pub bus: Limits,
    /// Of a hub.
    #[serde(default)]
    pub hub: Limits,
}

/// Starts parts one after the other.
pub struct Builder<'a> {
    /// The directories of programs and files.
    pub place: &'a PeerPaths,
    /// Makes limits.
    pub cgroups: &'a Cgroups,
    /// A name that no other run on this machine has.
    pub name: String,
    /// Ends all waits.
    pub stop: &'a Stop,
    platform: Platform,
    directory: PathBuf,
    host: String,
    /// The ports of the bus.
    servers: Vec<u16>,
}

/// The parts beside the brokers, while they run.
#[derive(Debug)]
pub struct RunningPlatform {
    directory: PathBuf,
    parts: Vec<PartProcess>,
}

impl<'a> Builder<'a> {
    /// A platform in the directory of its run.
    ///
    /// # Errors
    /// When there are no free ports, or no directory can be made.
    pub fn new(
        platform: Platform,
        (place, host, name): (&'a PeerPaths, &str, String),
        cgroups: &'a Cgroups,
        ports: &mut Ports,
        stop: &'a Stop,
    ) -> Result<Self, PlatformError> {
        let directory = place.scratch.join(format!("{name}-platform"));
        let failed = |source| PlatformError::Io { attempt: "make", path: directory.clone(), source };
        fs::create_dir_all(&directory).map_err(failed)?;
        let servers = ports.take(host, SERVERS)?;
        Ok(Self { place, cgroups, name, stop, platform, directory, host: host.to_owned(), servers })
    }

    /// Starts the bus, and makes its stream.
    ///
    /// # Errors
    /// When a server does not start.
    pub fn bus(&self, running: &mut RunningPlatform, ports: &mut Ports) -> Result<(), PlatformError> {
        let program = find(&self.place.peers.join("nats/bin/nats-server").display().to_string())
            .or_else(|| find("nats-server"))
            .ok_or(PlatformError::Missing {
                program: "nats-server",
                remedy: "`tidegate lab peers install nats` installs it",
            })?;
        let routes = ports.take(&self.host, SERVERS)?;
        for (number, port) in self.servers.iter().enumerate() {
            let text = files::server(&self.host, number, *port, &routes, &self.directory);
            let file = self.write(&format!("bus-{number}.conf"), &text)?;
            let args = vec!["-c".to_owned(), file.display().to_string()];
            running.parts.push(self.start(format!("bus-{number}"), &program, &args, self.platform.limits.bus, None)?);
        }
        let until = Instant::now() + READY_WITHIN;
        loop {
            let made = bus::make_stream(&self.host, self.servers[0], SERVERS);
            if let Some(part) = running.ended() {
                return Err(part);
            }
            match made {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() >= until => return Err(error.into()),
                // Servers without a leader do not answer.
                Err(_) if self.stop.wait(LOOK) => return Err(PlatformError::Stopped),
                Err(_) => {}
            }
        }
    }

    /// Starts a gateway and a hub at each broker.
    ///
    /// # Errors
    /// When one does not start.
    pub fn gateways_and_hubs(
        &self,
        running: &mut RunningPlatform,
        brokers: &[String],
        ports: &mut Ports,
    ) -> Result<(), PlatformError> {
        let program = self.place.broker.display().to_string();
        let program = find(&program).ok_or(PlatformError::Missing {
            program: "tidegate",
            remedy: "`cargo build --release` builds it beside this program",
        })?;
        let limits = self.platform.limits;
        for (kind, limits) in [("gateway", limits.gateway), ("hub", limits.hub)] {
            for (number, broker) in brokers.iter().enumerate() {
                // Each program has its own server, apart from the server with the stream's requests.
                let server = format!("nats://{}:{}", self.host, self.servers[(number + 1) % SERVERS]);
                let text = match kind {
                    "gateway" => files::gateway(&server, self.platform.encoding),
                    _ => files::hub(&server, self.platform.encoding),
                };
                let name = format!("{kind}-{number}");
                let file = self.write(&format!("{name}.toml"), &text)?;
                let admin = ports.take_one(&self.host)?;
                let args = ["hub", "-c", &file.display().to_string(), "--broker", broker, "--member", &name, "--admin"];
                let args = args.into_iter().map(str::to_owned).chain([format!("{}:{admin}", self.host)]);
                let args: Vec<String> = args.collect();
                let part = self.start(name, &program, &args, limits, Some((kind, admin)))?;
                running.parts.push(part);
                running.parts.last_mut().map_or(Ok(()), |part| self.wait_ready(part))?;
            }
        }
        Ok(())
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, PlatformError> {
        let path = self.directory.join(name);
        fs::write(&path, text).map_err(|source| PlatformError::Io { attempt: "write", path: path.clone(), source })?;
        Ok(path)
    }

    fn start(
        &self,
        name: String,
        program: &Path,
        args: &[String],
        limits: Limits,
        pipeline: Option<(&'static str, u16)>,
    ) -> Result<PartProcess, PlatformError> {
        let cgroup = format!("{}-{name}", self.name);
        let directory = self.directory.clone();
        let settings = PartSettings { name, cgroup, limits, directory, host: self.host.clone(), pipeline };
        PartProcess::start(settings, program, args, self.cgroups)
    }

    fn wait_ready(&self, part: &mut PartProcess) -> Result<(), PlatformError> {
        let until = Instant::now() + READY_WITHIN;
        while !part.is_ready()? {
            if Instant::now() >= until {
                return Err(part.not_ready(format!("was not ready within {} s", READY_WITHIN.as_secs())));
            }
            if self.stop.wait(LOOK) {
                return Err(PlatformError::Stopped);
            }
        }
        Ok(())
    }

    /// A platform without parts; dropped, it ends all that were added.
    pub fn begin(&self) -> RunningPlatform {
        RunningPlatform { directory: self.directory.clone(), parts: Vec::new() }
    }
}

impl RunningPlatform {
    /// The first part that has ended, as an error.
    pub fn ended(&mut self) -> Option<PlatformError> {
        self.parts.iter_mut().find_map(PartProcess::ended)
    }

    /// The counters of all parts, by name.
    pub fn watermarks(&self) -> BTreeMap<String, Watermark> {
        self.parts.iter().map(|part| (part.name().to_owned(), part.watermark())).collect()
    }

    /// The use of each part since its counters were read, over this number of seconds.
    pub fn used(&self, since: &BTreeMap<String, Watermark>, seconds: f64) -> Vec<PartUse> {
        let before = |part: &PartProcess| since.get(part.name()).copied().unwrap_or_default();
        self.parts.iter().map(|part| part.used(before(part), seconds)).collect()
    }
}

impl Drop for RunningPlatform {
    fn drop(&mut self) {
        self.parts.clear();
        // A file that stays behind in the temporary directory does no harm.
        let _ = fs::remove_dir_all(&self.directory);
    }
}
