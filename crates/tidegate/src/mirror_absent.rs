//! The files of the store on the bus, in a program without the feature `cluster`: the configuration refuses them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidegate_administration::BrokerStatus;
use tidegate_config::Config;
use tidegate_mirror::MirrorDisk;

use crate::cluster::StoreOnBus;

/// Nothing can fail.
pub(crate) type BusFilesError = Infallible;

/// A store whose files are on the bus; it has no values.
#[derive(Clone)]
pub(crate) enum Mirrored {}

/// A stop under way.
pub(crate) enum Closing {}

/// The reason why the store has failed.
pub(crate) enum Lost {}

/// Opens nothing.
///
/// # Errors
/// None.
#[expect(clippy::unnecessary_wraps, reason = "the program with the feature may fail here")]
pub(crate) fn open(_: &Config, _: &str, _: &BrokerStatus) -> Result<Option<Mirrored>, BusFilesError> {
    Ok(None)
}

impl Mirrored {
    pub(crate) fn disk(&self) -> Arc<MirrorDisk> {
        match *self {}
    }

    pub(crate) fn is_lost(&self) -> bool {
        match *self {}
    }

    pub(crate) fn for_cluster(&self, _: &Config) -> StoreOnBus {
        match *self {}
    }

    pub(crate) fn stop_within(self, _: Duration) -> Result<Closing, BusFilesError> {
        match self {}
    }
}

impl Closing {
    pub(crate) fn end(self) -> Option<Lost> {
        match self {}
    }
}

/// The error of a broker whose store has failed.
pub(crate) fn farewell(_: &Config, lost: &Lost) -> String {
    match *lost {}
}
