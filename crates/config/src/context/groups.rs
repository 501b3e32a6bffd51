//! The files of groups that `context.groups` names.

use std::path::PathBuf;

use tidegate_context::groups::{Definition, GroupsFileError, read_groups};
use tidegate_document::{FileText, ReadError};

use crate::sections::context::Context;

/// Why the files of groups cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GroupsError {
    /// A file cannot be read.
    #[error("context.groups: {0}")]
    Read(#[from] ReadError),
    /// A file is wrong.
    #[error("context.groups: {0}")]
    File(#[from] GroupsFileError),
    /// Two files have one definer.
    #[error("context.groups: two files have the definer `{0}`; give each a distinct one")]
    SameDefiner(String),
}

/// Reads the files of groups.
///
/// # Errors
/// When one cannot be read or is wrong, or two have one definer.
pub fn read_definitions(context: &Context) -> Result<Vec<Definition>, GroupsError> {
    let read = |path: &PathBuf| -> Result<_, GroupsError> { Ok(read_groups(&FileText::load(path)?)?) };
    let definitions: Vec<Definition> = context.groups.0.iter().map(read).collect::<Result<_, GroupsError>>()?;
    let mut names: Vec<&str> = definitions.iter().map(Definition::definer).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(GroupsError::SameDefiner(pair[0].to_owned())),
        None => Ok(definitions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_of_groups_is_named() {
        let mut context = Context::default();
        context.groups.0.push("no-such-file.toml".into());
        assert!(read_definitions(&context).unwrap_err().to_string().contains("no-such-file.toml"));
    }

    #[test]
    fn each_definer_has_one_file() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/context/groups-city.toml");
        let mut context = Context::default();
        context.groups.0 = vec![file.into()];
        assert_eq!(read_definitions(&context).unwrap()[0].definer(), "city");
        context.groups.0.push(file.into());
        let error = read_definitions(&context).unwrap_err().to_string();
        assert!(error.contains("two files have the definer `city`"));
    }
}
