//! From a case to the plan of its load.

use toml::{Table, Value};

use crate::load::LoadPlan;
use crate::load::plan::{Credentials, Place, Target, Transport};
use crate::scenario::{Case, Scenario, ScenarioError, scaled};

/// The plan of a case against an address, with all times of phases multiplied by a factor.
///
/// # Errors
/// When the case's load is none, or the address cannot be used.
pub fn plan_of(
    scenario: &Scenario,
    case: &Case,
    address: &str,
    seed: u64,
    factor: f64,
) -> Result<LoadPlan, ScenarioError> {
    let wrong =
        |message: String| ScenarioError::Load { scenario: scenario.name.clone(), case: case.name.clone(), message };
    let mut load = case.load.clone();
    // The target is not the scenario's; this one only makes the plan whole until it has its own.
    load.insert("target".to_owned(), Value::Table(placeholder()));
    let mut plan: LoadPlan = load.try_into().map_err(|error| wrong(format!("{error}")))?;
    plan.target = target_of(address).map_err(wrong)?;
    plan.seed = seed;
    Ok(scaled(plan, factor))
}

fn placeholder() -> Table {
    let mut table = Table::new();
    table.insert("host".to_owned(), Value::String("localhost".to_owned()));
    table.insert("port".to_owned(), Value::Integer(1883));
    table
}

/// Reads an address such as `mqtt://user:password@host:port` or `wss://host:port/path`, or several as in `mqtt://host:port,host:port`.
///
/// # Errors
/// In words, when it is none.
pub fn target_of(address: &str) -> Result<Target, String> {
    let wrong = || format!("`{address}` is no address such as mqtt://HOST:PORT, mqtts://, ws://, wss:// or quic://");
    let (scheme, rest) = address.split_once("://").ok_or_else(wrong)?;
    let (transport, port) = match scheme {
        "mqtt" | "tcp" => (Transport::Tcp, 1883),
        "mqtts" | "tls" | "ssl" => (Transport::Tls, 8883),
        "ws" => (Transport::WebSocket, 80),
        "wss" => (Transport::SecureWebSocket, 443),
        "quic" => (Transport::Quic, 14_567),
        _ => return Err(wrong()),
    };
    let (authority, path) = rest.find('/').map_or((rest, None), |slash| (&rest[..slash], Some(&rest[slash..])));
    let mut places = authority.split(',');
    let authority = places.next().unwrap_or_default();
    let others = places.map(|place| {
        let (host, digits) = place.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Place { host, port: digits.parse().map_err(|_| wrong())? })
    });
    let others = others.collect::<Result<Vec<_>, String>>()?;
    let (user, place) = authority.rsplit_once('@').map_or((None, authority), |(user, place)| (Some(user), place));
    let (host, port) = match place.rsplit_once(':') {
        Some((host, digits)) if !digits.ends_with(']') => (host, digits.parse().map_err(|_| wrong())?),
        _ => (place, port),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() {
        return Err(wrong());
    }
    let mut target = Target::tcp(host, port);
    target.transport = transport;
    target.others = others;
    if let Some(path) = path {
        path.clone_into(&mut target.path);
    }
    target.credentials = user.map(|user| {
        let (username, password) = user.split_once(':').unwrap_or((user, ""));
        Credentials { username: username.to_owned(), password: password.to_owned() }
    });
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_with_its_parts() {
        let target = target_of("ws://me:secret@[::1]:9001/mqtt").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.path.as_str()), ("::1", 9001, "/mqtt"));
        assert_eq!(target.transport, Transport::WebSocket);
        assert_eq!(target.credentials.unwrap().password, "secret");
        assert_eq!(target_of("mqtts://broker.example").unwrap().port, 8883);
        let several = target_of("mqtt://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3").unwrap();
        assert_eq!(several.places().map(|(_, port)| port).collect::<Vec<_>>(), [1, 2, 3]);
        for wrong in ["mqtt://h:1,h", "mqtt://h:1,h:x", "localhost:1883", "http://h:1", "mqtt://", "mqtt://h:x"] {
            assert!(target_of(wrong).is_err(), "{wrong}");
        }
    }
}
