//! `manifest.toml`: a row for every normative statement, with its tests or the reason why it has no test.

use crate::registry::cases;
use crate::version::{UnknownVersion, Version};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;

/// The identifiers of all statements, one `VERSION IDENTIFIER` to the line.
const STATEMENTS: &str = include_str!("../statements.txt");
const MANIFEST: &str = include_str!("../manifest.toml");

/// The parties that a statement binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Binds {
    /// The server alone.
    Server,
    /// The client alone.
    Client,
    /// Both, each in its direction.
    Both,
}

/// How the statement is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// By black-box cases of this suite.
    Tested,
    /// By tests of the codec, because no conversation can show it.
    Codec,
    /// It binds the client: by tests of the client, or by the reason that none is possible.
    Client,
    /// It cannot be shown; the reason says why.
    Untestable,
}

impl Status {
    /// Every status, as the report lists them.
    pub const ALL: [Self; 4] = [Self::Tested, Self::Codec, Self::Client, Self::Untestable];
}

impl fmt::Display for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&format!("{self:?}").to_lowercase())
    }
}

/// A row of the manifest.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The parties that the statement binds.
    pub binds: Binds,
    /// How it is proved.
    pub status: Status,
    /// Names of cases; with `::` the crate and the name of a test function there, such as `mqtt::rejects_overlong`.
    #[serde(default)]
    pub tests: Vec<String>,
    /// Why no test proves it.
    pub reason: Option<String>,
    /// A few words on the proof, where the names of the tests do not say it.
    pub about: Option<String>,
}

/// The manifest, by version and identifier.
#[derive(Clone, Debug)]
pub struct Manifest {
    rows: BTreeMap<(Version, String), Row>,
}

/// The faults in the text of a manifest.
#[derive(Debug)]
pub struct ManifestError(String);

impl fmt::Display for ManifestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the manifest cannot be read: {}", self.0)
    }
}

impl std::error::Error for ManifestError {}

impl Manifest {
    /// The manifest of this source tree.
    ///
    /// # Errors
    /// When its text is not a manifest.
    pub fn in_tree() -> Result<Self, ManifestError> {
        Self::parse(MANIFEST)
    }

    /// Reads a manifest: one table for each version, with a table for each statement. TOML itself refuses a second row
    /// for the same statement.
    ///
    /// # Errors
    /// When the text is not TOML, a field is unknown or missing, or a version does not exist.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        let tables: BTreeMap<String, BTreeMap<String, Row>> =
            toml::from_str(text).map_err(|error| ManifestError(error.to_string()))?;
        let mut rows = BTreeMap::new();
        for (version, table) in tables {
            let version: Version = version.parse().map_err(|error: UnknownVersion| ManifestError(error.to_string()))?;
            rows.extend(table.into_iter().map(|(statement, row)| ((version, statement), row)));
        }
        Ok(Self { rows })
    }

    /// The row of a statement.
    pub fn row(&self, version: Version, statement: &str) -> Option<&Row> {
        self.rows.get(&(version, statement.to_owned()))
    }

    /// All rows, in the order of the specifications.
    pub fn rows(&self) -> impl Iterator<Item = (Version, &str, &Row)> {
        let mut rows: Vec<_> =
            self.rows.iter().map(|((version, statement), row)| (*version, statement.as_str(), row)).collect();
        rows.sort_by_cached_key(|(version, statement, _)| (*version, numbers(statement)));
        rows.into_iter()
    }

    /// Everything in which statements, rows and cases disagree; empty when all is well.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = self.unmapped();
        for (version, statement, row) in self.rows() {
            problems.extend(row.problems(version, statement));
        }
        problems.extend(self.unlisted_cases());
        problems
    }

    /// Statements without a row, and rows without a statement.
    fn unmapped(&self) -> Vec<String> {
        let known: Vec<_> = statements().collect();
        let unmapped = known
            .iter()
            .filter(|(version, statement)| self.row(*version, statement).is_none())
            .map(|(version, statement)| format!("{version} {statement}: no row in manifest.toml"));
        let unknown = self
            .rows()
            .filter(|(version, statement, _)| !known.contains(&(*version, statement)))
            .map(|(version, statement, _)| format!("{version} {statement}: not in statements.txt"));
        unmapped.chain(unknown).collect()
    }

    /// Cases that claim a statement whose row does not name them.
    fn unlisted_cases(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for case in cases() {
            for version in [Version::V311, Version::V5] {
                for statement in case.statements(version) {
                    let row = self.row(version, statement);
                    if !row.is_some_and(|row| row.tests.iter().any(|test| test == case.name)) {
                        problems.push(format!("{version} {statement}: the row does not name the case {}", case.name));
                    }
                }
            }
        }
        problems
    }

    /// How many statements of a version have which status.
    pub fn count(&self, version: Version, status: Status) -> usize {
        self.rows().filter(|(of, _, row)| *of == version && row.status == status).count()
    }
}

impl Row {
    /// The faults of this row alone.
    fn problems(&self, version: Version, statement: &str) -> Vec<String> {
        let mut problems = Vec::new();
        let mut complain = |problem: String| problems.push(format!("{version} {statement}: {problem}"));
        let has_reason = self.reason.as_ref().is_some_and(|reason| !reason.trim().is_empty());
        match self.status {
            Status::Tested | Status::Codec if self.tests.is_empty() => {
                complain(format!("{} without tests", self.status));
            }
            Status::Client if self.tests.is_empty() && !has_reason => complain("neither tests nor a reason".to_owned()),
            Status::Untestable if !has_reason => complain("untestable without a reason".to_owned()),
            Status::Untestable if !self.tests.is_empty() => complain("untestable, but it has tests".to_owned()),
            _ => {}
        }
        for name in self.tests.iter().filter(|name| !name.contains("::")) {
            match cases().find(|case| case.name == name) {
                None => complain(format!("there is no case {name}")),
                Some(case) if !case.statements(version).contains(&statement) => {
                    complain(format!("the case {name} does not name the statement"));
                }
                Some(_) => {}
            }
        }
        problems
    }
}

/// The numbers in an identifier, by which it is sorted: chapter 10 comes after chapter 9.
fn numbers(statement: &str) -> Vec<u32> {
    statement.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

/// The identifiers of all normative statements, with their version.
pub(crate) fn statements() -> impl Iterator<Item = (Version, &'static str)> {
    STATEMENTS.lines().filter_map(|line| {
        let (version, statement) = line.split_once(' ')?;
        Some((version.parse().ok()?, statement))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_of_both_standards_is_listed() {
        let count = |wanted| statements().filter(|(version, _)| *version == wanted).count();
        assert_eq!(count(Version::V311), 117);
        assert_eq!(count(Version::V5), 251);
    }

    #[test]
    fn disagreements_are_found() {
        let text = r#"
            [5."MQTT-0.0.0-0"]
            binds = "server"
            status = "tested"
            tests = ["no.such_case"]
        "#;
        let problems = Manifest::parse(text).unwrap().problems().join("\n");
        assert!(problems.contains("MQTT-0.0.0-0: not in statements.txt"), "{problems}");
        assert!(problems.contains("there is no case no.such_case"), "{problems}");
        assert!(problems.contains("MQTT-3.1.0-1: no row"), "{problems}");
        assert!(problems.contains("does not name the case connect.comes_first"), "{problems}");
    }

    #[test]
    fn a_second_row_for_a_statement_is_refused() {
        let row = "[\"5.0\".\"MQTT-1.5.4-1\"]\nbinds = \"both\"\nstatus = \"untestable\"\nreason = \"x\"\n";
        assert!(Manifest::parse(row).is_ok());
        assert!(Manifest::parse(&format!("{row}{row}")).is_err());
    }
}
