//! The sections of pipelines together.

use crate::origins::Origins;
use crate::sections::hub::{HubBus, Pipeline, Sink, SourceSection};

/// The sections of pipelines.
#[derive(Clone, Copy)]
pub(super) struct HubSections<'a> {
    pub(super) hub: &'a HubBus,
    pub(super) sources: &'a [SourceSection],
    pub(super) sinks: &'a [Sink],
    pub(super) pipelines: &'a [Pipeline],
    pub(super) origins: &'a Origins,
}
