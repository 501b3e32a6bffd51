//! The names of the levels of a fleet in files and reports.

pub use crate::decide::Level;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

impl Serialize for Level {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = Self::ALL.into_iter().find(|level| level.name() == name);
        found.ok_or_else(|| de::Error::custom(format!("no level is called {name:?}")))
    }
}
