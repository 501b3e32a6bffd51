//! `tidegate dns`: the entry point of a fleet alone, for trials and for fleets without a manager.

mod endpoint;

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args as ClapArgs, ValueEnum};
use tidegate_dns::{
    AnswerKind, Counters, Database, DropReason, Endpoint, Limits, NameError, NameServer, NoneHealthy, NumberError,
    Places, PlacesError, Policy, Server, Settings, StartError, Ttl, ZoneError, ZoneName,
};

use crate::local::{TableError, places_table};
use tidegate_logging::Log;
use tidegate_logging::{LogFormat, LogLevel};
use tidegate_process::service_manager;
use tidegate_process::signals::{Asked, BrokerSignals};
use tidegate_terminal::{Exit, print, report};

const EXAMPLES: &str = "\
Examples:
  tidegate dns --zone fleet.example -e a=192.0.2.1 -e b=192.0.2.2
  tidegate dns --zone fleet.example -e 'a=192.0.2.1:1883,[2001:db8::1];weight=3;secure=8883' \\
      -e 'b=192.0.2.2;weight=1' --policy weighted --ttl 5
  tidegate dns --zone fleet.example --policy nearest --places places.txt \\
      -e 'rome=192.0.2.1;at=41.9,12.5' -e 'berlin=192.0.2.2;at=52.5,13.4'
Ask it with:
  dig @127.0.0.1 -p 5353 fleet.example A
  dig @127.0.0.1 -p 5353 _mqtt._tcp.fleet.example SRV
  dig @127.0.0.1 -p 5353 fleet.example A +subnet=198.51.100.0/24

An endpoint is NAME=ADDRESS, with more addresses after commas and settings after semicolons:
  ADDRESS:PORT           its port for MQTT, for SRV [default: 1883]
  secure=PORT            its port for MQTT over TLS [default: none]
  weight=N               its share with `weighted`, 0 to 65535 [default: 1]
  load=PART              how busy it is, 0 to 1, for `least-loaded` [default: 0]
  at=LATITUDE,LONGITUDE  where it is, for `nearest`
  down, draining         it is not healthy; it is about to go and named no more

Each answer holds one address of a healthy endpoint. The names are ZONE and mqtt.ZONE, NAME.ZONE
of each endpoint, and for SRV _mqtt._tcp.ZONE and _secure-mqtt._tcp.ZONE. Nothing else is answered,
and no other server is asked. SIGTERM and SIGINT stop it; then it prints its counts of answers.
How to delegate a zone to it: docs/dns.md.";

/// The flags of `tidegate dns`.
#[derive(Clone, Debug, ClapArgs)]
#[command(about = "Answer DNS queries for a zone with the endpoint that suits the asker", after_help = EXAMPLES)]
pub struct Args {
    /// The zone that it answers for, such as fleet.example
    #[arg(long, value_name = "NAME", value_parser = ZoneName::new)]
    zone: ZoneName,
    /// Listen here, over UDP and TCP; repeatable. Resolvers ask port 53
    #[arg(short, long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:5353")]
    listen: Vec<SocketAddr>,
    /// An endpoint, as below; repeatable
    #[arg(short, long = "endpoint", value_name = "NAME=ADDRESS[;...]", value_parser = endpoint::parse, required = true)]
    endpoints: Vec<Endpoint>,
    /// How an endpoint is chosen for an answer
    #[arg(long, value_enum, default_value_t = PolicyName::RoundRobin)]
    policy: PolicyName,
    /// How long others may keep an answer, 5 to 30 s; a drain has to wait as long
    #[arg(long, value_name = "SECONDS", value_parser = ttl, default_value = "10")]
    ttl: Ttl,
    /// A server of the zone, as it is delegated: NAME=ADDRESS, or NAME alone for one outside the zone; repeatable
    /// [default: ns.ZONE at the addresses of --listen]
    #[arg(long = "name-server", value_name = "NAME[=ADDRESS]", value_parser = name_server)]
    name_servers: Vec<NameServer>,
    /// A file of locations of askers, for `nearest`: lines of NETWORK LATITUDE LONGITUDE
    #[arg(long, value_name = "FILE")]
    places: Option<PathBuf>,
    /// A city database of locations of askers, for `nearest`, in the format of MaxMind
    #[arg(long, value_name = "FILE")]
    maxmind: Option<PathBuf>,
    /// Answer SERVFAIL when no endpoint is healthy, rather than name one that is not
    #[arg(long)]
    strict: bool,
    /// Queries per second of one network (/24, /56); 0 for no limit
    #[arg(long, value_name = "N", default_value_t = Limits::default().queries_per_second)]
    rate: u32,
}

/// The names of policies.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PolicyName {
    /// Each in turn
    RoundRobin,
    /// Each in turn, more often by its weight
    Weighted,
    /// The one with the smallest load
    LeastLoaded,
    /// The nearest one to the client's network or its resolver
    Nearest,
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::RoundRobin => Self::RoundRobin,
            PolicyName::Weighted => Self::Weighted,
            PolicyName::LeastLoaded => Self::LeastLoaded,
            PolicyName::Nearest => Self::Nearest,
        }
    }
}

/// Why the value of a flag is refused.
#[derive(Debug, thiserror::Error)]
enum DnsFlagError {
    /// The TTL is no number.
    #[error("write seconds, from 5 to 30")]
    Seconds,
    /// The TTL is out of range.
    #[error(transparent)]
    Ttl(#[from] NumberError),
    /// The name of a name server.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The address of a name server.
    #[error("`{0}` is not an address")]
    Address(String),
}

/// Why `tidegate dns` does not serve.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    /// The system gives no handler of signals.
    #[error("cannot catch signals: {0}")]
    Signals(#[source] std::io::Error),
    /// `nearest` without the places of endpoints would choose by turns.
    #[error(
        "--policy nearest needs to know where endpoints are: write at=LATITUDE,LONGITUDE behind each, as in -e 'rome=192.0.2.1;at=41.9,12.5'"
    )]
    EndpointPlaces,
    /// `nearest` without the places of askers would choose by turns.
    #[error("--policy nearest needs to know where askers are: name a file with --places or --maxmind")]
    AskerPlaces,
    /// Places with another policy would change nothing.
    #[error("--places and --maxmind have no effect without --policy nearest: add it, or leave them out")]
    IdlePlaces,
    /// The file of places.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The database of places.
    #[error(transparent)]
    Database(#[from] PlacesError),
    /// The server does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The endpoints do not fit the zone.
    #[error(transparent)]
    Zone(#[from] ZoneError),
}

impl ServeError {
    /// The exit code: a fault of the command line, or a failure of the machine.
    fn exit(&self) -> Exit {
        match self {
            Self::Signals(_) | Self::Start(_) => Exit::Failure,
            Self::EndpointPlaces
            | Self::AskerPlaces
            | Self::IdlePlaces
            | Self::Table(_)
            | Self::Database(_)
            | Self::Zone(_) => Exit::Usage,
        }
    }
}

fn ttl(text: &str) -> Result<Ttl, DnsFlagError> {
    Ok(Ttl::new(text.parse().map_err(|_| DnsFlagError::Seconds)?)?)
}

fn name_server(text: &str) -> Result<NameServer, DnsFlagError> {
    let (name, address) = text.split_once('=').map_or((text, None), |(name, address)| (name, Some(address)));
    let name = ZoneName::new(name)?;
    let address = address.map(|address| address.parse().map_err(|_| DnsFlagError::Address(address.to_owned())));
    Ok(NameServer { name, addresses: address.transpose()?.into_iter().collect() })
}

/// Answers until it is stopped.
pub fn run(args: &Args) -> Exit {
    let log = match Log::of_command(LogLevel::Info, LogFormat::Text) {
        Ok(log) => log,
        Err(exit) => return exit,
    };
    let outcome = serve(args);
    log.flush();
    match outcome {
        Ok(()) => Exit::Ok,
        Err(error) => {
            report(&error);
            error.exit()
        }
    }
}

fn serve(args: &Args) -> Result<(), ServeError> {
    let mut signals = BrokerSignals::catch().map_err(ServeError::Signals)?;
    let server = Server::start(&settings(args)?)?;
    server.zone().set_endpoints(args.endpoints.clone())?;
    service_manager::tell_ready("server", &ready_line(args, &server));
    // There is nothing to read again: the endpoints are on the command line.
    while signals.wait() == Asked::Reload {}
    let counters = server.counters();
    server.stop();
    // Who stopped it may be gone with the terminal.
    let _ = print(&summary(&counters));
    Ok(())
}

fn settings(args: &Args) -> Result<Settings, ServeError> {
    check_places(args)?;
    let table = places_table(args.places.as_deref())?;
    let database = args.maxmind.as_deref().map(Database::open).transpose()?;
    Ok(Settings {
        listen: args.listen.clone(),
        policy: args.policy.into(),
        ttl: args.ttl,
        none_healthy: if args.strict { NoneHealthy::ServerFailure } else { NoneHealthy::LeastBad },
        name_servers: args.name_servers.clone(),
        places: Places { table, database: database.map(Arc::new) },
        limits: Limits {
            queries_per_second: args.rate,
            burst: args.rate.saturating_mul(2).max(1),
            ..Limits::default()
        },
        ..Settings::new(args.zone.clone())
    })
}

fn check_places(args: &Args) -> Result<(), ServeError> {
    let asked = args.places.is_some() || args.maxmind.is_some();
    match args.policy {
        PolicyName::Nearest if args.endpoints.iter().all(|endpoint| endpoint.location.is_none()) => {
            Err(ServeError::EndpointPlaces)
        }
        PolicyName::Nearest if !asked => Err(ServeError::AskerPlaces),
        PolicyName::RoundRobin | PolicyName::Weighted | PolicyName::LeastLoaded if asked => Err(ServeError::IdlePlaces),
        _ => Ok(()),
    }
}

fn ready_line(args: &Args, server: &Server) -> String {
    let mut line = format!("tidegate {} ready: zone={}", env!("CARGO_PKG_VERSION"), args.zone);
    for address in server.addresses() {
        let _ = write!(line, " dns={address}");
    }
    let policy = Policy::from(args.policy).label();
    let _ = writeln!(line, " policy={policy} ttl={} endpoints={}", args.ttl.seconds(), args.endpoints.len());
    line
}

/// The counts of answers and drops, one kind per line; kinds that did not happen are left out.
fn summary(counters: &Counters) -> String {
    let answers = AnswerKind::ALL.iter().map(|kind| ("answered", kind.label(), counters.answers(*kind)));
    let drops = DropReason::ALL.iter().map(|reason| ("dropped", reason.label(), counters.dropped(*reason)));
    let mut out = String::new();
    for (event, label, number) in answers.chain(drops).filter(|(.., number)| *number > 0) {
        let _ = writeln!(out, "{event} {label}: {number}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_server_in_the_zone_has_an_address() {
        let server = name_server("ns1.fleet.example=192.0.2.53").unwrap();
        assert_eq!((server.name.to_string().as_str(), server.addresses.len()), ("ns1.fleet.example", 1));
        assert!(name_server("ns.other.example").unwrap().addresses.is_empty());
        assert!(name_server("ns1.fleet.example=here").is_err());
        assert!(name_server("").is_err());
    }

    #[test]
    fn a_ttl_outside_5_to_30_is_refused_with_a_reason() {
        assert!(ttl("31").unwrap_err().to_string().contains("5 to 30"));
        assert!(ttl("soon").is_err());
        assert_eq!(ttl("5").unwrap().seconds(), 5);
    }

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn settings_of(words: &str) -> Result<(), ServeError> {
        let words = ["dns", "--zone", "fleet.example"].into_iter().chain(words.split(' '));
        settings(&<Line as clap::Parser>::try_parse_from(words).unwrap().args).map(drop)
    }

    #[test]
    fn nearest_and_places_belong_together() {
        let of_endpoints = settings_of("-e a=192.0.2.1 --policy nearest").unwrap_err().to_string();
        assert!(of_endpoints.contains("at=LATITUDE,LONGITUDE"), "{of_endpoints}");
        let of_askers = settings_of("-e a=192.0.2.1;at=1,2 --policy nearest").unwrap_err().to_string();
        assert!(of_askers.contains("--places"), "{of_askers}");
        let idle = settings_of("-e a=192.0.2.1 --places p.txt").unwrap_err().to_string();
        assert!(idle.contains("no effect") && idle.contains("--policy nearest"), "{idle}");
        settings_of("-e a=192.0.2.1;at=1,2").unwrap();
    }
}
