//! The statements of a broker's makers: facts in our words, each with the address of its page.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::misspelt;

/// A file for each broker.
macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../criteria/", $name, ".toml")))),*]
    };
}

const SHIPPED: &[(&str, &str)] = shipped![
    "tidegate",
    "mosquitto",
    "rabbitmq",
    "nats",
    "kafka",
    "zeromq",
    "qpid",
    "artemis",
    "hivemq",
    "rumqttd",
    "mochi",
    "aedes",
];

/// The datasheet of one broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Datasheet {
    /// Its name: that of the peer.
    #[serde(skip)]
    pub name: String,
    /// Its common name.
    pub title: String,
    /// The pages that facts are from, by a short name.
    pub(super) sources: BTreeMap<String, String>,
    /// Facts by the id of their criterion.
    pub(super) facts: BTreeMap<String, Fact>,
}

/// A fact.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fact {
    pub(super) text: String,
    /// The short name of its source.
    pub(super) source: String,
}

/// Why a datasheet cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the datasheet {name} is wrong: {message}")]
pub struct DatasheetError {
    name: String,
    message: String,
}

impl Datasheet {
    /// All that are shipped.
    ///
    /// # Errors
    /// Never with the shipped datasheets: a test reads them all.
    pub fn all() -> Result<Vec<Self>, DatasheetError> {
        SHIPPED.iter().map(|(name, text)| Self::parse(name, text)).collect()
    }

    /// That of a peer; peers that are the same broker in another way have its sheet.
    pub fn of(peer: &str) -> Option<Self> {
        let name = peer.split([':', '=']).next()?;
        let kind = if name.starts_with("tidegate") || name.starts_with("gateways") { "tidegate" } else { name };
        let (name, text) = SHIPPED.iter().find(|(known, _)| *known == kind)?;
        Self::parse(name, text).ok()
    }

    /// A fact with the address of its source.
    pub(super) fn fact(&self, id: &str) -> Option<(&str, &str)> {
        let fact = self.facts.get(id)?;
        Some((&fact.text, self.sources.get(&fact.source).map_or("", String::as_str)))
    }

    fn parse(name: &str, text: &str) -> Result<Self, DatasheetError> {
        let wrong = |message| DatasheetError { name: name.to_owned(), message };
        let mut sheet: Self = toml::from_str(text).map_err(|error| wrong(misspelt::of_file(&error)))?;
        name.clone_into(&mut sheet.name);
        Ok(sheet)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::criteria::CRITERIA;

    #[test]
    fn every_fact_belongs_to_a_criterion_and_has_an_address() {
        let sheets = Datasheet::all().unwrap();
        for sheet in &sheets {
            for (id, fact) in &sheet.facts {
                assert!(CRITERIA.iter().any(|criterion| criterion.id == id), "{}: no criterion is {id}", sheet.name);
                assert!(!fact.text.is_empty() && !fact.text.ends_with('.'), "{}: {id}", sheet.name);
                let source =
                    sheet.sources.get(&fact.source).unwrap_or_else(|| panic!("{}: {id} has no source", sheet.name));
                assert!(source.starts_with("https://") || source.starts_with("docs/"), "{}: {source}", sheet.name);
            }
            for source in sheet.sources.keys() {
                assert!(
                    sheet.facts.values().any(|fact| fact.source == *source),
                    "{}: {source} is not used",
                    sheet.name
                );
            }
        }
    }

    #[test]
    fn every_file_in_the_folder_is_shipped() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("criteria");
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), SHIPPED.len());
    }

    #[test]
    fn a_peer_by_another_name_has_the_sheet_of_its_broker() {
        assert_eq!(Datasheet::of("rabbitmq:amqp").unwrap().name, "rabbitmq");
        assert_eq!(Datasheet::of("tidegate-priority").unwrap().name, "tidegate");
        assert!(Datasheet::of("edge").is_none());
    }
}
