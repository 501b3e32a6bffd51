//! What the node tells this process: log events go to the log, and a failed shard ends the process with its last words.

use tidegate_engine::{LogEvent, ShardId};
use tidegate_node::{FAILURE_EXIT_CODE, Observer, Occasion, TracingObserver};

use crate::logging::Log;

/// Logs events, and writes the log out before a failure ends the process.
pub(crate) struct BrokerObserver {
    log: Log,
}

impl BrokerObserver {
    /// Writes into this log.
    pub(crate) fn new(log: Log) -> Self {
        Self { log }
    }
}

impl Observer for BrokerObserver {
    fn wants(&self, event: &LogEvent) -> bool {
        TracingObserver.wants(event)
    }

    fn log(&self, occasion: &Occasion<'_>) {
        TracingObserver.log(occasion);
    }

    fn shard_failed(&self, shard: ShardId) {
        tracing::error!(shard = shard.0, "a shard has panicked; the process ends");
        self.log.flush();
        std::process::exit(FAILURE_EXIT_CODE);
    }
}
