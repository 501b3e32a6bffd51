//! Checks before any process is started.

use std::collections::BTreeMap;
use std::net::TcpListener;

use tidegate_proc::program;

use super::{Processes, placeholder};
use crate::level::Level;
use crate::provider::ProviderError;

impl Processes {
    /// Finds out whether processes can listen where they shall, and whether the programs of some templates are
    /// installed.
    ///
    /// # Errors
    /// The first missing requirement.
    pub fn check<'a>(&self, templates: impl Iterator<Item = &'a str>) -> Result<(), ProviderError> {
        for level in Level::ALL {
            for host in self.settings.place(level).hosts.all() {
                // Any port: whether the configured ones are free is checked when one is needed.
                if let Err(source) = TcpListener::bind((host.as_str(), 0)) {
                    return Err(ProviderError::Address { level, host, source });
                }
            }
        }
        let values = BTreeMap::from([("exe".to_owned(), self.settings.executable.display().to_string())]);
        for name in templates {
            let template = self.template_of(name)?;
            let commands: Result<Vec<String>, _> =
                template.commands.iter().map(|command| placeholder::fill(command, &values)).collect();
            // A program below the directory of a process that is not there yet cannot be looked for.
            let Ok(commands) = commands else { continue };
            if !commands.iter().any(|command| program::find(command).is_some()) {
                return Err(ProviderError::MissingCommand { template: name.to_owned(), commands });
            }
        }
        Ok(())
    }
}
