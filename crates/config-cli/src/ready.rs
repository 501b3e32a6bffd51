//! `tidegate ready`: whether a broker takes clients, or answers at all, as an exit code.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tidegate_admin::{AdminClient, ClientError, Readiness};
use tidegate_config::address::AdminAddress;
use tidegate_config::load::{LoadError, Sources};
use tidegate_config::overrides::Flags;
use tidegate_config::source::Source;
use tidegate_terminal::{Exit, complain, print_and_exit, report};

/// Time for the answer. Health checks of containers allow more.
const TIMEOUT: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  tidegate ready && tidegate pub -t started -m yes
  tidegate ready --admin http://10.0.0.7:18083
  tidegate ready -c tidegate.toml --alive";

/// Ask whether a broker takes clients: exit code 0 if `/readyz` answers 200, else 1 and the reason
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReadyArgs {
    #[expect(clippy::doc_markdown, reason = "it is a text of --help")]
    /// Its admin address [default: admin.address of --config and of the environment, else http://127.0.0.1:18083]
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    admin: Option<String>,

    #[expect(clippy::doc_markdown, reason = "it is a text of --help")]
    /// Its configuration file, TOML; TIDEGATE__ADMIN__ADDRESS of the environment wins over the file
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Ask only whether the process answers `/healthz`, which it does while it reads its store. If the admin listener
    /// is off, or no address is set and nothing listens at the default address: exit code 0 and a note
    #[arg(long)]
    alive: bool,
}

/// Why the broker is not known to take clients, or to answer.
#[derive(Debug, thiserror::Error)]
enum ReadyError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("the admin listener is off, so nothing answers /readyz; set `admin.address` to an address ({0} sets it)")]
    Off(Source),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the broker takes no clients: {0}")]
    Not(String),
}

/// The admin address of the broker to ask.
#[derive(Clone, Debug)]
enum AdminTarget {
    /// At an address that a flag or the configuration names.
    Named(String),
    /// At the default address. No source confirms it: the flags of the process are unknown, and a process may have no
    /// admin listener.
    Default(String),
    /// Nowhere, by this source.
    Off(Source),
}

/// Exit code 0 if the broker takes clients, or answers where only that is asked; else 1.
pub fn run(args: &ReadyArgs) -> Exit {
    let asked = place(args).and_then(|place| if args.alive { alive(place) } else { ready(place) });
    match asked {
        Ok(said) => print_and_exit(&said, Exit::Ok),
        Err(error) => {
            match &error {
                ReadyError::Load(LoadError::Wrong(findings)) => complain(findings),
                _ => report(&error),
            }
            Exit::Failure
        }
    }
}

fn place(args: &ReadyArgs) -> Result<AdminTarget, ReadyError> {
    if let Some(admin) = &args.admin {
        return Ok(AdminTarget::Named(admin.clone()));
    }
    let sources = Sources { file: args.config.clone(), flags: Flags::default() };
    Ok(match sources.admin_address()? {
        (AdminAddress::Off, source) => AdminTarget::Off(source),
        (AdminAddress::At(at), Source::Default) => AdminTarget::Default(reachable(&at.to_string())),
        (AdminAddress::At(at), _) => AdminTarget::Named(reachable(&at.to_string())),
    })
}

/// Asks whether the broker takes clients.
fn ready(place: AdminTarget) -> Result<String, ReadyError> {
    let address = match place {
        AdminTarget::Named(address) | AdminTarget::Default(address) => address,
        AdminTarget::Off(source) => return Err(ReadyError::Off(source)),
    };
    match AdminClient::new(&address, None, TIMEOUT)?.readiness()? {
        Readiness::Ready => Ok("ready\n".to_owned()),
        Readiness::Not(why) => Err(ReadyError::Not(why)),
    }
}

/// Asks whether the process answers; without a known listener it asks nothing.
fn alive(place: AdminTarget) -> Result<String, ReadyError> {
    let address = match place {
        AdminTarget::Off(source) => return Ok(format!("not checked: the admin listener is off ({source})\n")),
        AdminTarget::Default(address) if nothing_listens(&address) => {
            return Ok(format!(
                "not checked: nothing listens at {address}, and no address is set; name it with --admin, --config or \
                 TIDEGATE__ADMIN__ADDRESS\n"
            ));
        }
        AdminTarget::Named(address) | AdminTarget::Default(address) => address,
    };
    AdminClient::new(&address, None, TIMEOUT)?.liveness()?;
    Ok("alive\n".to_owned())
}

/// True if connections to an address of this machine are refused.
fn nothing_listens(address: &str) -> bool {
    let Ok(address) = address.parse() else { return false };
    TcpStream::connect_timeout(&address, TIMEOUT).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// The address where this machine reaches a listener.
fn reachable(listener: &str) -> String {
    let Ok(mut address) = listener.parse::<SocketAddr>() else { return listener.to_owned() };
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address.to_string()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_listener_on_every_address_is_reached_by_loopback() {
        assert_eq!(reachable("0.0.0.0:18083"), "127.0.0.1:18083");
        assert_eq!(reachable("[::]:1"), "[::1]:1");
        assert_eq!(reachable("10.0.0.7:18083"), "10.0.0.7:18083");
        assert_eq!(reachable("localhost:1"), "localhost:1");
    }

    #[test]
    fn liveness_is_not_checked_where_no_listener_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let free = listener.local_addr().unwrap().to_string();
        drop(listener);
        for place in [AdminTarget::Off(Source::Default), AdminTarget::Default(free.clone())] {
            assert!(ready(place.clone()).is_err(), "{place:?}");
            assert!(alive(place).unwrap().starts_with("not checked: "));
        }
        assert!(
            matches!(alive(AdminTarget::Named(free)), Err(ReadyError::Client(_))),
            "a named listener has to answer"
        );
    }
}
