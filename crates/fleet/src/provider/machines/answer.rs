//! The output of `list`: JSON, an array of objects or objects one after another. Without machines it is `[]`: an empty
//! output is more likely a failure that the command did not pass on.
//!
//! | member | value |
//! | --- | --- |
//! | `name` | the name that `allocate` was called with |
//! | `host` | its address or host name; may be missing until it runs |
//! | `state` | `starting`, `running` (as without one), `stopping`, `ended` |
//! | `id` | the cloud's own identifier; the name without one |
//! | `port`, `admin_port` | its ports, if the fleet file has other ones |
//! | `cpu`, `memory` | the used fraction of its CPU, and bytes, if the cloud measures them |
//!
//! Other members are ignored.

use serde::Deserialize;
use serde_json::{Deserializer, Value};

/// Most machines of one answer.
const MAX_MACHINES: usize = 20_000;

/// A machine as the cloud knows it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Listed {
    pub(super) name: String,
    #[serde(default)]
    pub(super) id: String,
    #[serde(default)]
    pub(super) host: Option<String>,
    #[serde(default)]
    pub(super) state: MachineState,
    #[serde(default)]
    pub(super) port: Option<u16>,
    #[serde(default)]
    pub(super) admin_port: Option<u16>,
    #[serde(default)]
    pub(super) cpu: Option<f64>,
    #[serde(default)]
    pub(super) memory: Option<u64>,
}

/// The state of a machine; the order in which one of two namesakes is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum MachineState {
    #[default]
    Running,
    Starting,
    Stopping,
    Ended,
}

/// Why an output is no list.
#[derive(Debug, thiserror::Error)]
pub(super) enum AnswerError {
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    #[error("it is empty; without machines print []")]
    Empty,
    #[error("entry {0} has an empty name")]
    NoName(usize),
    #[error("`{0}` runs and has no `host`")]
    NoHost(String),
    #[error("`{0}` has a `cpu` below 0 or without an end")]
    Cpu(String),
    #[error("it has more than {MAX_MACHINES} machines")]
    TooMany,
}

/// The machines of an output.
///
/// # Errors
/// When one entry is wrong: no machine may then count as absent.
pub(super) fn read(text: &str) -> Result<Vec<Listed>, AnswerError> {
    if text.trim().is_empty() {
        return Err(AnswerError::Empty);
    }
    let mut machines = Vec::new();
    for value in Deserializer::from_str(text).into_iter::<Value>() {
        match value? {
            Value::Array(values) => {
                for value in values {
                    machines.push(serde_json::from_value(value)?);
                }
            }
            value => machines.push(serde_json::from_value(value)?),
        }
        if machines.len() > MAX_MACHINES {
            return Err(AnswerError::TooMany);
        }
    }
    for (index, machine) in machines.iter_mut().enumerate() {
        check(index, machine)?;
    }
    Ok(machines)
}

fn check(index: usize, machine: &mut Listed) -> Result<(), AnswerError> {
    if machine.name.is_empty() {
        return Err(AnswerError::NoName(index + 1));
    }
    if machine.id.is_empty() {
        machine.id.clone_from(&machine.name);
    }
    machine.host = machine.host.take().filter(|host| !host.is_empty());
    if machine.state == MachineState::Running && machine.host.is_none() {
        return Err(AnswerError::NoHost(machine.name.clone()));
    }
    if machine.cpu.is_some_and(|cpu| !cpu.is_finite() || cpu < 0.0) {
        return Err(AnswerError::Cpu(machine.name.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_and_objects_in_a_row_are_the_same_list() {
        let one = r#"{"name": "broker-1", "host": "10.0.0.1", "tags": {"a": 1}}"#;
        let two = r#"{"name": "broker-2", "state": "starting", "id": "i-7", "port": 1884, "cpu": 0.5, "memory": 9}"#;
        let rows = read(&format!("{one}\n{two}\n")).unwrap();
        assert_eq!(read(&format!("[{one}, {two}]")).unwrap(), rows);
        assert_eq!(
            (rows[0].id.as_str(), rows[0].state, rows[1].host.as_ref()),
            ("broker-1", MachineState::Running, None)
        );
        assert_eq!(
            (rows[1].id.as_str(), rows[1].port, rows[1].cpu, rows[1].memory),
            ("i-7", Some(1884), Some(0.5), Some(9))
        );
        assert_eq!(read(" []\n").unwrap(), []);
    }

    #[test]
    fn a_wrong_entry_makes_the_whole_list_unusable() {
        for (text, problem) in [
            ("broker-1 10.0.0.1", "expected value"),
            (" \n", "it is empty; without machines print []"),
            (r#"{"name": "a", "host": "b"} {"name": "c""#, "EOF"),
            (r#"[{"host": "b"}]"#, "missing field `name`"),
            (r#"[{"name": "a"}]"#, "`a` runs and has no `host`"),
            (r#"[{"name": "a", "host": ""}]"#, "`a` runs and has no `host`"),
            (r#"[{"name": "", "host": "b"}]"#, "entry 1 has an empty name"),
            (r#"[{"name": "a", "host": "b", "state": "up"}]"#, "unknown variant `up`"),
            (r#"[{"name": "a", "host": "b", "port": 70000}]"#, "u16"),
            (r#"[{"name": "a", "host": "b", "cpu": -1}]"#, "`cpu` below 0"),
            ("7", "invalid type"),
        ] {
            assert!(read(text).is_err_and(|error| error.to_string().contains(problem)), "{text}");
        }
    }
}
