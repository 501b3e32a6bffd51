//! From a case to the plan of its load.

use std::time::Duration;

use toml::{Table, Value};

use super::carry::Carrier;
use super::order::Order;
use super::task::{ExecuteError, Task};
use crate::drivers;
use crate::endpoint::endpoint_of;
use crate::load::LoadPlan;
use crate::load::plan::{ClientGroup, Protocol, Role, Target, Transport};
use crate::priority::Asked;
use crate::scenario::{Case, Check, Scenario, ScenarioError, scaled};

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
    plan.target = endpoint_of(address).map_err(|error| wrong(error.to_string()))?.0;
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
    let (target, protocol) = endpoint_of(address)?;
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
    let carrier = Carrier::of(&plan, protocol)?;
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
        return Err(ExecuteError::OnlyTcp);
    }
    let mut plan = LoadPlan::new(target.clone(), 0);
    if task.case.load.get("protocol").and_then(Value::as_str) == Some("5") {
        plan.protocol = Protocol::V5;
    }
    let sleep = SLEEP.mul_f64(order.time_scale);
    let asked = Asked { peer: task.peer.name().to_owned(), target, by_mqtt, protocol: plan.protocol, sleep };
    Ok((plan, Carrier::Check(check, asked)))
}
