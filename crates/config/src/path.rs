//! Paths of keys: `queue.max_messages`, or `listener.0.address` where sections are repeated.

use std::fmt;

use super::key::{Key, SectionKeys};
use super::sections::{SECTIONS, section_keys};
use super::value::Problem;
use tidegate_units::suggestion::nearest;

/// How the name of an environment variable that sets a key begins.
pub const ENVIRONMENT_PREFIX: &str = "TIDEGATE__";

/// A key in its section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyPath {
    /// The section's name.
    pub section: &'static str,
    /// The number among repeated sections, from 0; 0 for a section that is not repeated.
    pub index: usize,
    /// The key's name.
    pub key: &'static str,
}

impl KeyPath {
    /// Reads `section.key` or `section.N.key`, with the given separator.
    ///
    /// # Errors
    /// When the key does not exist, with the nearest known key.
    pub fn parse(text: &str, separator: &str) -> Result<Self, Problem> {
        let parts: Vec<&str> = text.split(separator).collect();
        let (section, rest) = match parts.split_first() {
            Some((section, rest)) if !rest.is_empty() => (known_section(section)?, rest),
            _ => return Err(unknown_key_anywhere(text)),
        };
        let (index, key) = match rest {
            [key] if !section.repeated => (0, key),
            [index, key] if section.repeated => (index.parse().map_err(|_| numbered(section))?, key),
            _ if section.repeated => return Err(numbered(section)),
            _ => return Err(Problem::new(format!("`{text}` names no key: SECTION{separator}KEY"))),
        };
        let key = known_key(section, key)?;
        Ok(Self { section: section.name, index, key: key.name })
    }

    /// Whether the key's value may hold a secret.
    pub fn holds_credentials(&self) -> bool {
        self.declared().is_some_and(|key| key.credentials)
    }

    /// Whether the command line has a flag for the key.
    pub(crate) fn has_flag(&self) -> bool {
        self.declared().is_some_and(|key| !key.flags.is_empty())
    }

    fn declared(&self) -> Option<&'static Key> {
        section_keys(self.section)?.key(self.key)
    }

    /// The environment variable that sets this key.
    pub fn environment(&self) -> String {
        ENVIRONMENT_PREFIX.to_owned() + &self.to_string().replace('.', "__").to_uppercase()
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repeated = section_keys(self.section).is_some_and(|section| section.repeated);
        if repeated {
            write!(f, "{}.{}.{}", self.section, self.index, self.key)
        } else {
            write!(f, "{}.{}", self.section, self.key)
        }
    }
}

fn numbered(section: &SectionKeys) -> Problem {
    Problem::new(format!("a [[{0}]] is named by its number: {0}.0.KEY", section.name))
}

/// The section of that name.
///
/// # Errors
/// If the section does not exist, with the nearest known section.
pub fn known_section(name: &str) -> Result<&'static SectionKeys, Problem> {
    section_keys(name).ok_or_else(|| {
        let problem = Problem::new(format!("unknown section `{name}`"));
        match nearest(name, SECTIONS.iter().map(|section| section.name)) {
            Some(near) => problem.hint(format!("did you mean `{near}`?")),
            None => problem.hint(format!("sections are {}", section_names())),
        }
    })
}

/// Keys of earlier versions, and their replacements.
const FORMER: [(&str, &str, &str); 5] = [
    ("orchestrator", "peers", MEMBERS),
    ("orchestrator", "relay", "orchestrators are members of a cluster: set cluster.relay"),
    ("orchestrator", "relay_networks", "orchestrators are members of a cluster: set cluster.networks"),
    ("orchestrator", "redirect", "orchestrators are members of a cluster: set cluster.redirect"),
    ("orchestrator", "move_settle", "remove it: a move between members of a cluster waits for brokers automatically"),
];
/// In place of a list of orchestrators.
const MEMBERS: &str = "orchestrators find each other on a bus: give each --node NAME and the same --bus ADDRESS (cluster.name, cluster.bus)";

/// The key of that name in a section.
///
/// # Errors
/// If the key does not exist, with the nearest known key, here or in another section.
pub fn known_key(section: &SectionKeys, name: &str) -> Result<&'static Key, Problem> {
    section.key(name).ok_or_else(|| {
        let former = FORMER.iter().find(|(of, key, _)| (*of, *key) == (section.name, name));
        if let Some((.., hint)) = former {
            return Problem::new(format!("`{name}` in {} is no longer used", section.header())).hint(*hint);
        }
        let problem = Problem::new(format!("unknown key `{name}` in {}", section.header()));
        let here = nearest(name, section.keys.iter().map(|key| key.name));
        match (here, holder(name)) {
            (_, Some((other, _))) => problem.hint(format!(
                "it is a key of {}; `tidegate config explain {}` lists the keys of {}",
                other.header(),
                section.name,
                section.header()
            )),
            (Some(near), None) => problem.hint(format!("did you mean `{near}`?")),
            (None, None) => {
                problem.hint(format!("`tidegate config explain {}` lists the keys of this section", section.name))
            }
        }
    })
}

/// A key where a section is expected.
pub fn unknown_key_anywhere(name: &str) -> Problem {
    match holder(name) {
        Some((section, _)) => Problem::new(format!("key `{name}` is outside its section"))
            .hint(format!("it is a key of {}", section.header())),
        None => known_section(name).err().unwrap_or_else(|| Problem::new(format!("`{name}` is a section, not a key"))),
    }
}

/// The first section that has a key of that name, and the key.
pub fn holder(name: &str) -> Option<(&'static SectionKeys, &'static Key)> {
    SECTIONS.iter().find_map(|section| Some((*section, section.key(name)?)))
}

fn section_names() -> String {
    let names: Vec<&str> = SECTIONS.iter().map(|section| section.name).collect();
    names.join(", ")
}
