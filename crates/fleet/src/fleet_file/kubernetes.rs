//! The section `[kubernetes]`, with which pods take the place of processes.

use super::FleetFile;
use crate::level::Level;
#[cfg(feature = "kubernetes")]
pub(super) use crate::provider::kubernetes::Settings;
use tidegate_document::Keys;

/// The settings of a section; this build has none.
#[cfg(not(feature = "kubernetes"))]
#[derive(Clone, Copy, Debug)]
pub(super) enum Settings {}

/// Reads the section.
#[cfg(feature = "kubernetes")]
pub(super) fn read(keys: &mut Keys<'_>) -> Option<Settings> {
    keys.table("kubernetes", |keys| Some(Settings::read(keys)))
}

/// Refuses the section.
#[cfg(not(feature = "kubernetes"))]
pub(super) fn read(keys: &mut Keys<'_>) -> Option<Settings> {
    refuse(keys);
    None
}

/// Names the build that the section needs. Tests of all builds have it, so that none is made for this alone.
#[cfg(any(test, not(feature = "kubernetes")))]
pub(super) fn refuse(keys: &mut Keys<'_>) {
    if keys.has("kubernetes") {
        let hint = "build one with `cargo build --release -p tidegate --features kubernetes`, or leave the section out";
        keys.refuse("kubernetes", "needs a tidegate that was built with Kubernetes, and this one was not", hint);
    }
    keys.leave("kubernetes");
}

impl FleetFile {
    /// Whether resources are pods of a cluster, which no manager takes down at its end.
    pub fn is_of_a_cluster(&self) -> bool {
        self.kubernetes.is_some()
    }

    /// Whether another controller decides about a level.
    pub(super) fn is_decided_elsewhere(&self, level: Level) -> bool {
        self.settings.level(level).is_some_and(|settings| settings.decided_elsewhere)
    }

    /// Pods are made from the template of their StatefulSet, whatever the sections of the levels say.
    #[cfg(feature = "kubernetes")]
    pub(super) fn with_stateful_sets(mut self) -> Self {
        for (level, set) in self.kubernetes.iter().flat_map(|kubernetes| &kubernetes.sets) {
            if let Some(settings) = self.settings.levels.get_mut(level) {
                settings.templates = vec![(set.stateful_set.clone(), 1)];
                settings.decided_elsewhere = set.decided_elsewhere;
            }
        }
        self
    }
}
