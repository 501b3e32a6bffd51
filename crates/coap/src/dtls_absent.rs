//! DTLS in a program without the feature `dtls`: no listener has keys.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::endpoint::PeerId;

/// The keys of a listener: there are none.
#[derive(Debug)]
pub struct Keys(Infallible);

/// Why a file of keys is refused.
#[derive(Debug, thiserror::Error)]
#[error("this program was built without the feature `dtls`")]
pub struct KeysError;

impl Keys {
    /// Refuses each file.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: &Path) -> Result<Self, KeysError> {
        Err(KeysError)
    }
}

/// An event of the clients.
#[expect(dead_code, reason = "the guard with the feature has events")]
pub(crate) enum Passed {
    Send { peer: PeerId, datagram: Vec<u8> },
    Datagram { peer: PeerId, datagram: Vec<u8> },
    Left { peer: PeerId },
}

/// The guard of a listener: it needs keys.
pub(crate) struct Guard(Infallible);

impl Guard {
    pub(crate) fn new(keys: &Arc<Keys>) -> Self {
        Self(keys.0)
    }

    pub(crate) fn poll(&mut self) -> Option<Passed> {
        match self.0 {}
    }

    pub(crate) fn identity(&self, _: PeerId) -> Option<String> {
        match self.0 {}
    }

    pub(crate) fn failed(&self) -> u64 {
        match self.0 {}
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self.0 {}
    }

    pub(crate) fn handle_datagram(&mut self, _: Instant, _: PeerId, _: &[u8]) {
        match self.0 {}
    }

    pub(crate) fn send(&mut self, _: PeerId, _: &[u8]) {
        match self.0 {}
    }

    pub(crate) fn handle_deadline(&mut self, _: Instant) {
        match self.0 {}
    }
}
