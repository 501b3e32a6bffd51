//! Connections to a server in the same process.

use std::fmt;
use std::io;
use std::sync::Arc;

use tidegate_pipe::PipeEnd;

/// Connects to listeners of a server in the same process.
#[derive(Clone)]
pub struct Pipes(Arc<dyn Fn(u16) -> io::Result<PipeEnd> + Send + Sync>);

impl Pipes {
    /// Calls `open` with the number of a listener for each connection.
    pub fn through(open: impl Fn(u16) -> io::Result<PipeEnd> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }

    pub(super) fn open(&self, listener: u16) -> io::Result<PipeEnd> {
        (self.0)(listener)
    }
}

impl PartialEq for Pipes {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Pipes {}

impl fmt::Debug for Pipes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pipes")
    }
}
