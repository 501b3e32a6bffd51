//! The largest age of messages.

use super::hub_sections::HubSections;
use crate::sections::hub::Pipeline;
use crate::value::Problem;

/// The problem of a pipeline whose messages may be too old when they come.
pub(super) fn age_problem(pipeline: &Pipeline, hub: HubSections<'_>) -> Option<(&'static str, Problem)> {
    if pipeline.max_age.is_zero() {
        return None;
    }
    let (why, hint) = if hub.hub.bus.is_some() {
        ("on a bus, `keep_for` bounds the age of messages", "leave out max_age, or hub.bus")
    } else if pipeline.source.is_some() {
        ("messages of a source may be old when they come", "leave out max_age")
    } else if pipeline.retained {
        ("retained messages may be old when they come", "leave out max_age, or retained")
    } else if !pipeline.every.is_zero() {
        ("the record of a window is as old as its begin", "leave out max_age, or every")
    } else {
        return None;
    };
    Some(("max_age", Problem::new(why).hint(hint)))
}
