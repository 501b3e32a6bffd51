//! How much is logged.

use tidegate_config::Config;
use tidegate_config::path::KeyPath;
use tidegate_logging::Log;
use tidegate_logging::LogLevel;

use tidegate_config::reload::{PrepareError, Prepared, Reloadable};

/// `log.level`.
pub struct LogLevels {
    log: Log,
}

impl LogLevels {
    /// Of this log.
    pub fn new(log: Log) -> Self {
        Self { log }
    }
}

struct NewLevel {
    log: Log,
    level: LogLevel,
}

impl Reloadable for LogLevels {
    fn name(&self) -> &'static str {
        "log level"
    }

    fn takes(&self, key: &KeyPath) -> bool {
        (key.section, key.key) == ("log", "level")
    }

    fn prepare(&self, new: &Config) -> Result<Box<dyn Prepared>, PrepareError> {
        Ok(Box::new(NewLevel { log: self.log.clone(), level: new.log.level }))
    }
}

impl Prepared for NewLevel {
    fn commit(self: Box<Self>) -> Vec<String> {
        self.log.set_level(self.level);
        Vec::new()
    }
}
