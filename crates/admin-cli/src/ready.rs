//! `tidegate ready`: whether a broker takes clients, as an exit code.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use tidegate_admin::{AdminClient, ClientError, Readiness};
use tidegate_terminal::{Exit, print_and_exit, report};

/// Time for the answer. Health checks of containers allow more.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The variable that sets the admin address of a broker in a container.
const VARIABLE: &str = "TIDEGATE__ADMIN__ADDRESS";
/// The admin address of a broker that was given none.
const DEFAULT: &str = "127.0.0.1:18083";

const EXAMPLES: &str = "\
Examples:
  tidegate ready && tidegate pub -t started -m yes
  tidegate ready --admin http://10.0.0.7:18083";

/// Ask whether a broker takes clients: exit code 0 if `/readyz` answers 200, else 1 and the reason
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReadyArgs {
    /// Its admin address [default: TIDEGATE__ADMIN__ADDRESS of the environment, else http://127.0.0.1:18083]
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
}

/// Why the broker is not known to take clients.
#[derive(Debug, thiserror::Error)]
enum ReadyError {
    #[error("{VARIABLE} is \"off\", so nothing answers /readyz; set it to an address, such as {DEFAULT}")]
    Off,
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the broker takes no clients: {0}")]
    Not(String),
}

/// Exit code 0 if the broker takes clients, 1 if not, or if it does not answer.
pub fn run(args: &ReadyArgs) -> Exit {
    match ask(args) {
        Ok(()) => print_and_exit("ready\n", Exit::Ok),
        Err(error) => {
            report(&error);
            Exit::Failure
        }
    }
}

fn ask(args: &ReadyArgs) -> Result<(), ReadyError> {
    let configured = std::env::var(VARIABLE).ok();
    let address = match &args.admin {
        Some(admin) => admin.clone(),
        None => reachable(configured.as_deref().unwrap_or(DEFAULT)).ok_or(ReadyError::Off)?,
    };
    match AdminClient::new(&address, None, TIMEOUT)?.readiness()? {
        Readiness::Ready => Ok(()),
        Readiness::Not(why) => Err(ReadyError::Not(why)),
    }
}

/// The address where this machine reaches a listener; `None` if there is no listener.
fn reachable(listener: &str) -> Option<String> {
    if listener == "off" {
        return None;
    }
    let Ok(mut address) = listener.parse::<SocketAddr>() else { return Some(listener.to_owned()) };
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    Some(address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_every_address_is_reached_by_loopback() {
        assert_eq!(reachable("0.0.0.0:18083").as_deref(), Some("127.0.0.1:18083"));
        assert_eq!(reachable("[::]:1").as_deref(), Some("[::1]:1"));
        assert_eq!(reachable("10.0.0.7:18083").as_deref(), Some("10.0.0.7:18083"));
        assert_eq!(reachable("off"), None);
    }
}
