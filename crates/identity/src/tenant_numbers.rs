//! Keeps the numbers of tenants with the store, whose keys carry them: a tenant has the same one after every restart,
//! in any order of the configuration, and no other tenant ever gets the number of a removed one.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tidegate_engine::Durability;
use tidegate_mirror::MirrorDisk;

use tidegate_config::Config;
use tidegate_config::sections::tenant::Tenant;
use tidegate_mirror::kept_file;

/// The file in the directory of the store: a line for each number, from 1 on, with the name of its tenant.
pub const NAME: &str = "tenants";
/// Numbers that there are, beside that of the default tenant.
const MAX_NUMBERS: usize = u16::MAX as usize;

/// Why a cluster does not agree on numbers of tenants.
pub type AgreeError = Box<dyn std::error::Error + Send + Sync>;

/// Agrees with the other nodes of a cluster on numbers: takes the names that this node has, in their order, and returns
/// the names that the cluster has.
pub type Agree = dyn Fn(&[String]) -> Result<Vec<String>, AgreeError> + Send + Sync;

/// Why tenants have no numbers.
#[derive(Debug, thiserror::Error)]
pub enum NumbersError {
    /// The file of numbers cannot be read.
    #[error("cannot read the numbers of tenants in {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The file of numbers cannot be written.
    #[error("cannot write the numbers of tenants in {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// No number is left.
    #[error("all {MAX_NUMBERS} tenant numbers are in use{}", in_place(.0.as_ref()))]
    NoneLeft(Option<String>),
    /// The cluster does not answer.
    #[error(transparent)]
    NotAgreed(AgreeError),
    /// The cluster has other numbers than the data directory.
    #[error(
        "tenants have other numbers in the data directory ({known}) than in the cluster ({agreed}). If the bus has lost its data, start the nodes with the older data first. If this directory \
             is of another cluster, start the node with an empty one"
    )]
    Other {
        /// The names in the data directory.
        known: String,
        /// The names in the cluster.
        agreed: String,
    },
}

/// The place whose numbers are given away, behind the message.
fn in_place(place: Option<&String>) -> String {
    place.map(|place| format!(" in {place}")).unwrap_or_default()
}

/// The configuration with its tenants in the order of their numbers. An unused tenant keeps the place of a removed one.
/// Called once the store is open, so that no other broker writes the file.
///
/// # Errors
/// When the file cannot be read, has another format, or cannot be written; when the cluster has other
/// numbers, or does not answer.
pub fn settle(config: &Config, agree: Option<&Agree>, mirror: Option<&MirrorDisk>) -> Result<Config, NumbersError> {
    let directory = config.store.directory.as_ref().filter(|_| config.store.engine_durability() != Durability::Memory);
    let Some(directory) = directory else {
        let names = config.tenants.iter().map(|tenant| tenant.name.clone()).collect();
        return Ok(with_names(config, agreed(&[], names, agree)?));
    };
    let directory = Path::new(directory);
    let path = directory.join(NAME);
    let known = read(&path).map_err(|source| NumbersError::Read { path: path.clone(), source })?;
    let names = with_new(known.clone(), config.tenants.iter().map(|tenant| tenant.name.as_str()));
    if names.len() > MAX_NUMBERS {
        return Err(NumbersError::NoneLeft(Some(path.display().to_string())));
    }
    let names = agreed(&known, names, agree)?;
    // A mirror may be new to a directory that has the file. It sends nothing that the bus has.
    if names != known || mirror.is_some() && !names.is_empty() {
        write(directory, &names, mirror).map_err(|source| NumbersError::Write { path, source })?;
    }
    Ok(with_names(config, names))
}

/// The names as the cluster has them, if there is one. Its order has to begin with the numbers that are in use here.
fn agreed(known: &[String], names: Vec<String>, agree: Option<&Agree>) -> Result<Vec<String>, NumbersError> {
    let Some(agree) = agree.filter(|_| !names.is_empty()) else { return Ok(names) };
    let agreed = agree(&names).map_err(NumbersError::NotAgreed)?;
    if agreed.len() > MAX_NUMBERS {
        return Err(NumbersError::NoneLeft(Some("the cluster".to_owned())));
    }
    if agreed.starts_with(known) {
        Ok(agreed)
    } else {
        Err(NumbersError::Other { known: known.join(", "), agreed: agreed.join(", ") })
    }
}

/// The same for a configuration that a running broker takes: the known tenants keep their numbers, in memory or on
/// disk, and new ones get others.
///
/// # Errors
/// When the file cannot be written, or no number is left.
pub fn settle_again(
    config: &Config,
    known: &[String],
    agree: Option<&Agree>,
    mirror: Option<&MirrorDisk>,
) -> Result<Config, NumbersError> {
    let names = with_new(known.to_vec(), config.tenants.iter().map(|tenant| tenant.name.as_str()));
    let has_new = names.len() > known.len();
    if names.len() > MAX_NUMBERS {
        return Err(NumbersError::NoneLeft(None));
    }
    let names = agreed(known, names, agree.filter(|_| has_new))?;
    if let Some(directory) = config.store.directory.as_ref().filter(|_| has_new)
        && config.store.engine_durability() != Durability::Memory
    {
        let path = Path::new(directory).join(NAME);
        write(Path::new(directory), &names, mirror).map_err(|source| NumbersError::Write { path, source })?;
    }
    Ok(with_names(config, names))
}

/// The configuration with the tenants of these names.
fn with_names(config: &Config, names: Vec<String>) -> Config {
    let tenants = names.into_iter().map(|name| of_name(config, name)).collect();
    let mut config = config.clone();
    config.tenants = tenants;
    config
}

/// The tenant of this name, or an unused one with it.
fn of_name(config: &Config, name: String) -> Tenant {
    let known = config.tenants.iter().find(|tenant| tenant.name == name);
    known.cloned().unwrap_or_else(|| Tenant { name, ..Tenant::default() })
}

/// The names by their numbers, with the new ones at the end.
fn with_new<'a>(mut names: Vec<String>, configured: impl Iterator<Item = &'a str>) -> Vec<String> {
    let known: HashSet<String> = names.iter().cloned().collect();
    names.extend(configured.filter(|name| !known.contains(*name)).map(str::to_owned));
    names
}

/// The names that are there; none where there is no file yet.
fn read(path: &Path) -> io::Result<Vec<String>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let names: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut seen = HashSet::new();
    match names.iter().position(|name| name.is_empty() || !seen.insert(name)) {
        None if text.is_empty() || text.ends_with('\n') => Ok(names),
        None => Err(damaged("the last line has no end")),
        Some(at) => Err(damaged(&format!("line {} is empty or there twice", at + 1))),
    }
}

fn damaged(problem: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{problem}; bring the file back from a copy of the directory"))
}

/// Replaces the file.
fn write(directory: &Path, names: &[String], mirror: Option<&MirrorDisk>) -> io::Result<()> {
    let lines: String = names.iter().flat_map(|name| [name.as_str(), "\n"]).collect();
    kept_file::replace(directory, NAME, lines.as_bytes(), mirror)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A folder of a test's own.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("tidegate-tenant-numbers-{}-{name}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        /// The names of the tenants by their numbers, for a configuration with these.
        fn settle(&self, tenants: &[&str]) -> Result<Vec<String>, NumbersError> {
            self.settle_in(tenants, None)
        }

        /// The same in a cluster.
        fn settle_in(&self, tenants: &[&str], agree: Option<&Agree>) -> Result<Vec<String>, NumbersError> {
            let mut config = Config::default();
            config.store.directory = self.0.to_str().map(str::to_owned);
            let tenant = |name: &&str| Tenant { name: (*name).to_owned(), max_sessions: 7, ..Tenant::default() };
            config.tenants = tenants.iter().map(tenant).collect();
            let settled = settle(&config, agree, None)?.tenants;
            for tenant in &settled {
                assert_eq!(tenant.max_sessions == 7, tenants.contains(&tenant.name.as_str()), "{}", tenant.name);
            }
            Ok(settled.into_iter().map(|tenant| tenant.name).collect())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_number_stays_whatever_becomes_of_the_others() {
        let folder = Folder::new("stay");
        assert_eq!(folder.settle(&[]).unwrap(), [""; 0]);
        assert!(!folder.0.join(NAME).exists(), "who has no tenants has no file of them");
        assert_eq!(folder.settle(&["a", "b"]).unwrap(), ["a", "b"]);
        assert_eq!(folder.settle(&["c", "b", "a"]).unwrap(), ["a", "b", "c"]);
        assert_eq!(folder.settle(&["d", "c"]).unwrap(), ["a", "b", "c", "d"]);
        assert_eq!(folder.settle(&[]).unwrap(), ["a", "b", "c", "d"]);
        assert_eq!(fs::read_to_string(folder.0.join(NAME)).unwrap(), "a\nb\nc\nd\n");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_damaged_file_is_not_taken_for_another_one() {
        let folder = Folder::new("damaged");
        for (text, problem) in [("a\nb", "no end"), ("a\n\nb\n", "line 2"), ("a\nb\na\n", "line 3")] {
            fs::write(folder.0.join(NAME), text).unwrap();
            let error = folder.settle(&["a"]).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("tenants"), "{error}");
            assert_eq!(fs::read_to_string(folder.0.join(NAME)).unwrap(), text, "it is left alone");
        }
    }

    #[test]
    fn a_broker_in_memory_needs_no_numbers() {
        let mut config = Config::default();
        config.tenants.push(Tenant { name: "a".to_owned(), ..Tenant::default() });
        assert_eq!(settle(&config, None, None).unwrap().tenants.len(), 1);
    }

    /// A cluster that has these names, in their order, and adds the given ones.
    fn cluster(names: &[&str]) -> Box<Agree> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Box::new(move |told| Ok(with_new(names.clone(), told.iter().map(String::as_str))))
    }

    #[test]
    fn a_node_takes_the_numbers_of_its_cluster() {
        let folder = Folder::new("cluster");
        assert_eq!(folder.settle_in(&["b", "c"], Some(&cluster(&["a", "b"]))).unwrap(), ["a", "b", "c"]);
        assert_eq!(fs::read_to_string(folder.0.join(NAME)).unwrap(), "a\nb\nc\n");
        let mut config = Config::default();
        config.tenants.push(Tenant { name: "b".to_owned(), ..Tenant::default() });
        let names = |config: Config| config.tenants.into_iter().map(|tenant| tenant.name).collect::<Vec<_>>();
        assert_eq!(names(settle(&config, Some(&cluster(&["a"])), None).unwrap()), ["a", "b"], "in memory as well");
        let known = ["a".to_owned()];
        assert_eq!(names(settle_again(&config, &known, Some(&cluster(&["a", "x"])), None).unwrap()), ["a", "x", "b"]);
    }

    #[test]
    fn a_node_with_other_numbers_than_its_cluster_is_refused() {
        let folder = Folder::new("other");
        folder.settle(&["b", "a"]).unwrap();
        let error = folder.settle_in(&["a", "b"], Some(&cluster(&["a"]))).unwrap_err().to_string();
        assert!(error.contains("(b, a)") && error.contains("(a, b)"), "{error}");
        assert_eq!(fs::read_to_string(folder.0.join(NAME)).unwrap(), "b\na\n", "it is left alone");
    }
}
