//! From a case to the plan of its load.

use std::time::Duration;

use toml::{Table, Value};

use super::carry::Carrier;
use super::execute::{ExecuteError, Task};
use super::series::Order;
use crate::drivers;
use crate::load::LoadPlan;
use crate::load::plan::{ClientGroup, Credentials, Node, Protocol, Role, Target, Transport};
use crate::peer::without_credentials;
use crate::priority::{Asked, Check};
use crate::scenario::{Case, Scenario, ScenarioError, scaled};

/// The plan of a case against an address, with all times of phases multiplied by a factor.
///
/// # Errors
/// If the case has no valid load, or the address cannot be used.
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
    plan.target = endpoint_of(address).map_err(wrong)?.0;
    plan.seed = seed;
    Ok(scaled(plan, factor))
}

fn placeholder() -> Table {
    let mut table = Table::new();
    table.insert("host".to_owned(), Value::String("localhost".to_owned()));
    table.insert("port".to_owned(), Value::Integer(1883));
    table
}

/// The plan of a run against an address, and what carries it; `addresses` tells whether the broker reaches clients by
/// theirs.
pub(super) fn carrier_of(
    order: &Order,
    task: &Task<'_>,
    address: &str,
    addresses: bool,
) -> Result<(LoadPlan, Carrier), ExecuteError> {
    let (target, protocol) = endpoint_of(address).map_err(ExecuteError::Carrier)?;
    if let Some(check) = order.scenario.check {
        return check_of(order, task, check, target, protocol);
    }
    let mut plan = load_of(order, task, address)?;
    if !addresses {
        plan.subscribe_to_addresses();
    }
    // A driver works in one process.
    if protocol.is_none() {
        plan.processes = plan.processes.max(order.processes).max(plan.processes_needed());
        if plan.sources.is_empty() {
            plan.sources.clone_from(&order.sources);
        }
    }
    let carrier = Carrier::of(&plan, protocol).map_err(ExecuteError::Carrier)?;
    Ok((plan, carrier))
}

/// The load of a task, with the length of its order.
pub(super) fn load_of(order: &Order, task: &Task<'_>, address: &str) -> Result<LoadPlan, ScenarioError> {
    let mut plan = plan_of(&order.scenario, task.case, address, task.seed, order.time_scale)?;
    if let Some(duration) = order.duration {
        plan.duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        plan.groups.iter_mut().for_each(unbounded);
    }
    Ok(plan)
}

/// Removes the limit of a group's messages, so that only the time ends it.
fn unbounded(group: &mut ClientGroup) {
    if let Role::Publisher(publishing) | Role::Requester { requests: publishing, .. } = &mut group.role {
        publishing.messages = None;
    }
}

/// How long the study's subscriber slept.
const SLEEP: Duration = Duration::from_secs(5);

fn check_of(
    order: &Order,
    task: &Task<'_>,
    check: Check,
    target: Target,
    protocol: Option<drivers::Protocol>,
) -> Result<(LoadPlan, Carrier), ExecuteError> {
    let by_mqtt = target.transport == Transport::Tcp && protocol.is_none();
    if !by_mqtt && check != Check::Criteria {
        return Err(ExecuteError::Carrier("this test speaks MQTT over TCP only".to_owned()));
    }
    let mut plan = LoadPlan::new(target.clone(), 0);
    if task.case.load.get("protocol").and_then(Value::as_str) == Some("5") {
        plan.protocol = Protocol::V5;
    }
    let sleep = SLEEP.mul_f64(order.time_scale);
    let asked = Asked { peer: task.peer.name().to_owned(), target, by_mqtt, protocol: plan.protocol, sleep };
    Ok((plan, Carrier::Check(check, asked)))
}

/// Reads an address of MQTT such as `mqtt://user:password@host:port`, `wss://host:port/path`, or
/// `mqtt://host:1883,host:1884` for a broker of several nodes.
///
/// # Errors
/// Text for people, if the address is invalid.
pub fn target_of(address: &str) -> Result<Target, String> {
    match endpoint_of(address)? {
        (target, None) => Ok(target),
        (_, Some(protocol)) => {
            Err(format!("`{}` is an address of {}, not of MQTT", without_credentials(address), protocol.name()))
        }
    }
}

/// The same with the protocol, where that is not MQTT: `nats://host:port`, `amqp://`, `zeromq://`.
pub(super) fn endpoint_of(address: &str) -> Result<(Target, Option<drivers::Protocol>), String> {
    let wrong = || {
        format!(
            "`{}` is no address such as mqtt://HOST:PORT, mqtts://, ws://, wss:// or quic://, or {}",
            without_credentials(address),
            drivers::Protocol::SCHEMES
        )
    };
    let (scheme, rest) = address.split_once("://").ok_or_else(wrong)?;
    let (transport, usual, protocol) = match scheme {
        "mqtt" | "tcp" => (Transport::Tcp, 1883, None),
        "mqtts" | "tls" | "ssl" => (Transport::Tls, 8883, None),
        "ws" => (Transport::WebSocket, 80, None),
        "wss" => (Transport::SecureWebSocket, 443, None),
        "quic" => (Transport::Quic, 14_567, None),
        other => {
            let (protocol, port) = drivers::Protocol::of_scheme(other).ok_or_else(wrong)?;
            let transport = if drivers::Protocol::is_within_tls(other) { Transport::Tls } else { Transport::Tcp };
            (transport, port, Some(protocol))
        }
    };
    let (authority, path) = rest.find('/').map_or((rest, None), |slash| (&rest[..slash], Some(&rest[slash..])));
    let (user, places) = authority.rsplit_once('@').map_or((None, authority), |(user, places)| (Some(user), places));
    let mut nodes = places.split(',').map(|place| node(place, usual).ok_or_else(wrong));
    let first = nodes.next().unwrap_or_else(|| Err(wrong()))?;
    let mut target = Target::tcp(&first.host, first.port);
    target.others = nodes.collect::<Result<_, _>>()?;
    target.transport = transport;
    if let Some(path) = path.or(protocol.map(|_| "")) {
        path.clone_into(&mut target.path);
    }
    target.credentials = user.map(|user| {
        let (username, password) = user.split_once(':').unwrap_or((user, ""));
        Credentials { username: username.to_owned(), password: password.to_owned() }
    });
    Ok((target, protocol))
}

/// A host with its port, or with the usual one.
fn node(place: &str, usual: u16) -> Option<Node> {
    let (host, port) = match place.rsplit_once(':') {
        Some((host, digits)) if !digits.ends_with(']') => (host, digits.parse().ok()?),
        _ => (place, usual),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| Node { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_protocol_has_its_driver() {
        let (target, protocol) = endpoint_of("amqp://guest:guest@127.0.0.1").unwrap();
        assert_eq!((target.port, protocol), (5672, Some(drivers::Protocol::Amqp091)));
        let (target, protocol) = endpoint_of("h2s://x:token@hub").unwrap();
        assert_eq!((target.port, target.transport, protocol), (443, Transport::Tls, Some(drivers::Protocol::Http2)));
    }

    #[test]
    fn an_address_is_read_with_its_parts() {
        let target = target_of("ws://me:secret@[::1]:9001/mqtt").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.path.as_str()), ("::1", 9001, "/mqtt"));
        assert_eq!(target.transport, Transport::WebSocket);
        assert_eq!(target.credentials.unwrap().password, "secret");
        assert_eq!(target_of("mqtts://broker.example").unwrap().port, 8883);
        let cluster = target_of("mqtt://a:1,b:2,c").unwrap();
        let others: Vec<(&str, u16)> = cluster.others.iter().map(|node| (node.host.as_str(), node.port)).collect();
        assert_eq!((cluster.port, others), (1, vec![("b", 2), ("c", 1883)]));
        for wrong in ["localhost:1883", "mqtt://a:1,", "nats://h:1", "ftp://h:1", "mqtt://", "mqtt://h:x"] {
            assert!(target_of(wrong).is_err(), "{wrong}");
        }
        for wrong in ["nats://me:secret@h", "ftp://me:secret@h", "mqtt://me:se/cret@h"] {
            assert!(!target_of(wrong).unwrap_err().contains("cret@"), "{wrong}");
        }
    }
}
