//! Calls of the three commands, and their placeholders.
//!
//! | placeholder | value |
//! | --- | --- |
//! | `{fleet}` | the name of the fleet |
//! | `{name}`, `{id}` | the name of the machine, and the identifier that `list` printed for it |
//! | `{role}` | `broker` or `orchestrator` |
//! | `{size}`, `{cores}` | `size` of the level's section, and `cpu` of the level |
//! | `{bus}`, `{routing}` | the bus of the orchestrators, and how they choose a broker |
//!
//! A program is called without a shell, so a value cannot become another argument.

use std::collections::BTreeMap;
use std::fmt;

use super::settings::MachineSettings;
use crate::level::Level;
use crate::provider::process::placeholder;
use crate::provider::{Allocation, ResourceName};

/// A call of a command. Two equal ones are never under way at once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    List,
    Allocate(ResourceName),
    /// The machine of a name that has an identifier.
    Release(ResourceName, String),
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List => f.write_str("list"),
            Self::Allocate(name) => write!(f, "allocate of {name}"),
            Self::Release(name, id) if name.as_str() == id => write!(f, "release of {name}"),
            Self::Release(name, id) => write!(f, "release of {name} ({id})"),
        }
    }
}

impl Call {
    /// The program and its arguments.
    pub(super) fn command(&self, settings: &MachineSettings, wanted: Option<&Allocation>) -> Vec<String> {
        self.fill(settings, wanted, &settings.bus)
    }

    /// The same for logs and errors: without the password of the bus.
    pub(super) fn shown(&self, settings: &MachineSettings, wanted: Option<&Allocation>) -> String {
        self.fill(settings, wanted, &without_login(&settings.bus)).join(" ")
    }

    fn fill(&self, settings: &MachineSettings, wanted: Option<&Allocation>, bus: &str) -> Vec<String> {
        let (template, name, id) = match self {
            Self::List => (&settings.commands.list, "", ""),
            Self::Allocate(name) => (&settings.commands.allocate, name.as_str(), ""),
            Self::Release(name, id) => (&settings.commands.release, name.as_str(), id.as_str()),
        };
        let level = wanted.map(|wanted| wanted.level).or_else(|| level_of(name));
        let of_level = level.and_then(|level| settings.levels.get(&level));
        let cores = wanted.map(|wanted| wanted.cores.to_string());
        let values = [
            ("fleet", settings.fleet.as_str()),
            ("name", name),
            ("id", id),
            ("role", level.map_or("", Level::name)),
            ("size", of_level.map_or("", |level| level.size.as_str())),
            ("cores", cores.as_deref().unwrap_or_default()),
            ("bus", bus),
            ("routing", settings.routing.as_str()),
        ];
        let values: BTreeMap<String, String> =
            values.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        // Unknown placeholders were refused with the fleet file.
        template.iter().map(|text| placeholder::fill(text, &values).unwrap_or_else(|_| text.clone())).collect()
    }
}

/// The address of a bus with `***` for its user and password.
fn without_login(bus: &str) -> String {
    match bus.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1))) {
        Some((scheme, servers)) => format!("{scheme}://***@{servers}"),
        None => bus.to_owned(),
    }
}

/// The level of a name that a manager has given: `LEVEL-NUMBER`.
pub(super) fn level_of(name: &str) -> Option<Level> {
    let (level, number) = name.rsplit_once('-')?;
    let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    Level::ALL.into_iter().find(|known| plain && known.name() == level)
}
