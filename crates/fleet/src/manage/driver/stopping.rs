//! A fleet that stops with its manager.
//!
//! The stop is saved before any resource stops, and the status has each stopped resource. If the stop is interrupted,
//! by a second signal or by SIGKILL, the state of the fleet is known, and the next manager finishes the stop first.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Driver, DriverError, STATUS_FILE, write};
use crate::level::Level;
use crate::manage::{Book, Phase, Record};
use crate::provider::attached::ATTACHED;
use crate::provider::{Look, ProviderError, Release, ResourceName};

/// The state of a manager that has ended on request and left its fleet running.
pub const LEFT: &str = "left";
/// Pause between looks while a resource is stopped.
const STOP_CHECK: Duration = Duration::from_millis(50);

impl Driver {
    /// Stops the whole fleet: orchestrators first, so that none publishes to stopping brokers, then brokers.
    /// Orchestrators keep their stored state and start again on it. Brokers do not, since their pending messages are
    /// with the orchestrators. Attached resources stay.
    ///
    /// # Errors
    /// When a process cannot be stopped, or the state cannot be written. The next manager then finishes the stop.
    pub fn stop_all(&mut self) -> Result<(), DriverError> {
        if self.sight.resources.is_none() {
            self.look(Look::Conditions);
        }
        let mut status = self.status();
        set(&mut status, "state", json!("stopping"));
        set(&mut status, "stopping_since_ms", json!(self.clock.now_ms()));
        set(&mut status, "action", Value::Null);
        set(&mut status, "actions", json!([]));
        let mut book = self.manager.book().clone();
        book.actions.clear();
        book.adoptions.clear();
        book.stopping = true;
        self.keep_whole(book)?;
        self.show_rest(&status)?;
        if let Err(error) = self.entry_point.set_endpoints(&[]) {
            tracing::warn!(%error, "the DNS entry point keeps its names");
        }
        self.stop_level(Level::Orchestrator, &mut status)?;
        set(&mut status, "endpoints", json!([]));
        self.stop_level(Level::Broker, &mut status)?;
        self.keep_whole(rested(self.manager.book().clone()))?;
        set(&mut status, "state", json!("stopped"));
        set(&mut status, "stopped_ms", json!(self.clock.now_ms()));
        self.show_rest(&status)
    }

    /// Ends this manager and leaves the fleet running; the status says so.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub fn leave(&mut self) -> Result<(), DriverError> {
        let mut status = self.status();
        if let Some(manager) = status.get_mut("manager") {
            set(manager, "state", json!(LEFT));
            set(manager, "left_ms", json!(self.clock.now_ms()));
            set(manager, "pid", Value::Null);
        }
        self.show_rest(&status)
    }

    /// Finishes the stop that a manager before this one began and did not end.
    pub(super) fn finish_stop(&mut self) -> Result<(), DriverError> {
        if !self.manager.book().stopping {
            return Ok(());
        }
        tracing::warn!("the manager ended while it stopped the fleet; completing the stop first");
        self.look(Look::Conditions);
        self.stop_all()
    }

    fn keep_whole(&mut self, book: Book) -> Result<(), DriverError> {
        self.journal.keep(&[Record::Whole(book.clone())])?;
        self.manager.replace_book(book);
        Ok(())
    }

    fn show_rest(&self, status: &Value) -> Result<(), DriverError> {
        let plan = self.manager.plan();
        let metrics = self.manager.metrics(&self.sight) + &self.entry_point.metrics();
        let numbers = self.manager.scaling_numbers(&self.sight);
        self.shown.set(status.clone(), plan.clone(), metrics, numbers);
        write(&self.directory.join(STATUS_FILE), &json!({"status": status, "plan": plan}))
    }

    fn stop_level(&mut self, level: Level, status: &mut Value) -> Result<(), DriverError> {
        let of_level = self.provider.list()?.into_iter().filter(|resource| resource.level == level);
        let mut left: Vec<ResourceName> = of_level.map(|resource| resource.name).collect();
        let (_never, nothing) = std::sync::mpsc::channel::<()>();
        while !left.is_empty() {
            let mut stopping = Vec::new();
            for name in left {
                let release = match level {
                    Level::Orchestrator => self.provider.stop(&name),
                    Level::Broker => self.provider.release(&name),
                };
                match release {
                    Ok(Release::Gone) => {
                        note_stopped(status, level, &name);
                        self.show_rest(status)?;
                    }
                    Err(ProviderError::Attached(_)) => {}
                    Ok(Release::Stopping) => stopping.push(name),
                    Err(error) => return Err(error.into()),
                }
            }
            left = stopping;
            if !left.is_empty() {
                let _ = nothing.recv_timeout(STOP_CHECK);
            }
        }
        Ok(())
    }
}

/// The book of a fleet that rests: the orchestrators that it starts again with.
fn rested(mut book: Book) -> Book {
    book.stopping = false;
    book.members.retain(|_, member| member.wanted.level == Level::Orchestrator && member.wanted.template != ATTACHED);
    for member in book.members.values_mut() {
        (member.phase, member.lost_since, member.failed_restarts) = (Phase::Stopped, None, 0);
    }
    book.started.retain(|level| *level != Level::Broker);
    book
}

fn set(status: &mut Value, member: &str, value: Value) {
    if let Some(object) = status.as_object_mut() {
        object.insert(member.to_owned(), value);
    }
}

/// Counts a resource as stopped, in place of its former state.
fn note_stopped(status: &mut Value, level: Level, name: &ResourceName) {
    let Some(of_level) = status.pointer_mut(&format!("/levels/{}", level.name())) else { return };
    let resources = of_level.get_mut("resources").and_then(Value::as_array_mut).into_iter().flatten();
    let mut was = None;
    for resource in resources.filter(|resource| resource.get("name").is_some_and(|known| known == name.as_str())) {
        was = resource.get("state").and_then(Value::as_str).map(str::to_owned);
        for (member, value) in [("state", json!("stopped")), ("pid", Value::Null), ("cpu", Value::Null)] {
            set(resource, member, value);
        }
    }
    for (state, change) in was.iter().map(|was| (was.as_str(), -1)).chain([("stopped", 1)]) {
        let count = of_level.get(state).and_then(Value::as_i64).unwrap_or_default();
        set(of_level, state, json!((count + change).max(0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_resource_is_reported_and_counted_once() {
        let resource = json!({"name": "broker-1", "state": "serving", "pid": 7, "cpu": 0.5});
        let level = json!({"serving": 2, "dead": 0, "resources": [resource, {"name": "broker-2", "state": "serving"}]});
        let mut status = json!({"levels": {"broker": level}});
        note_stopped(&mut status, Level::Broker, &"broker-1".parse().unwrap());
        let level = &status["levels"]["broker"];
        assert_eq!((&level["serving"], &level["stopped"], &level["dead"]), (&json!(1), &json!(1), &json!(0)));
        assert_eq!(level["resources"][0], json!({"name": "broker-1", "state": "stopped", "pid": null, "cpu": null}));
        assert_eq!(level["resources"][1]["state"], "serving");
    }
}
