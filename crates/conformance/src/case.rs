//! A case: its name, versions, statements and needs.

use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::target::Feature;
use crate::version::Version;

/// A black-box case. It runs once for each of its versions.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// `area.its_statement`, unique.
    pub name: &'static str,
    /// The versions it runs in.
    pub versions: &'static [Version],
    /// Identifiers of the statements of MQTT 3.1.1 that it proves.
    pub statements_311: &'static [&'static str],
    /// Identifiers of the statements of MQTT 5.0 that it proves.
    pub statements_5: &'static [&'static str],
    /// The features that the broker must offer.
    pub needs: &'static [Feature],
    /// Whether it waits for time to pass, as for a keep alive; such cases start first.
    pub slow: bool,
    /// Whether it must run while no other case does, because it sees the traffic of all.
    pub alone: bool,
    pub(crate) run: fn(&Scenario<'_>) -> Outcome,
}

impl Case {
    const fn new(name: &'static str, versions: &'static [Version], run: fn(&Scenario<'_>) -> Outcome) -> Self {
        Self { name, versions, statements_311: &[], statements_5: &[], needs: &[], slow: false, alone: false, run }
    }

    /// A case of every version.
    pub(crate) const fn all(name: &'static str, run: fn(&Scenario<'_>) -> Outcome) -> Self {
        Self::new(name, &[Version::V31, Version::V311, Version::V5], run)
    }

    /// A case of MQTT 3.1.1 and 5.
    pub(crate) const fn both(name: &'static str, run: fn(&Scenario<'_>) -> Outcome) -> Self {
        Self::new(name, &[Version::V311, Version::V5], run)
    }

    /// A case of MQTT 5 alone.
    pub(crate) const fn v5(name: &'static str, run: fn(&Scenario<'_>) -> Outcome) -> Self {
        Self::new(name, &[Version::V5], run)
    }

    /// A case of MQTT 3.1.1 alone.
    pub(crate) const fn v311(name: &'static str, run: fn(&Scenario<'_>) -> Outcome) -> Self {
        Self::new(name, &[Version::V311], run)
    }

    /// A case of MQTT 3.1 alone.
    pub(crate) const fn v31(name: &'static str, run: fn(&Scenario<'_>) -> Outcome) -> Self {
        Self::new(name, &[Version::V31], run)
    }

    /// Names statements of MQTT 3.1.1 that the case proves.
    pub(crate) const fn proves_311(mut self, statements: &'static [&'static str]) -> Self {
        self.statements_311 = statements;
        self
    }

    /// Names statements of MQTT 5.0 that the case proves.
    pub(crate) const fn proves_5(mut self, statements: &'static [&'static str]) -> Self {
        self.statements_5 = statements;
        self
    }

    /// Names the features that the broker needs.
    pub(crate) const fn needs(mut self, needs: &'static [Feature]) -> Self {
        self.needs = needs;
        self
    }

    /// Says that the case waits for time to pass.
    pub(crate) const fn slow(mut self) -> Self {
        self.slow = true;
        self
    }

    /// Says that no other case may run at the same time.
    pub(crate) const fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// The statements that the case proves in a version; MQTT 3.1 has none with a number.
    pub fn statements(&self, version: Version) -> &'static [&'static str] {
        match version {
            Version::V31 => &[],
            Version::V311 => self.statements_311,
            Version::V5 => self.statements_5,
        }
    }

    /// Whether a pattern chooses the case: part of its name, or a statement it proves, with or without `MQTT-`.
    pub fn is_chosen_by(&self, pattern: &str) -> bool {
        let proves = |statement: &&&str| **statement == pattern || statement.strip_prefix("MQTT-") == Some(pattern);
        self.name.contains(pattern)
            || self.statements_311.iter().chain(self.statements_5).any(|statement| proves(&statement))
    }
}
