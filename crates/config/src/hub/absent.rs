//! The files of sinks and the stores of pipelines, in a program without pipelines. Their sections are refused
//! (`crate::feature`).

use super::FilesOf;
use crate::Config;
use crate::finding::Findings;
use crate::sections::Store;
use crate::sections::hub::Pipeline;

/// A program without pipelines has no files of sinks.
///
/// # Errors
/// Never.
pub fn check_files(_: &Config, _: FilesOf) -> Result<(), Findings> {
    Ok(())
}

/// A program without pipelines needs no store for them.
pub fn store_warning(_: &[Pipeline], _: &Store, _: bool) -> Option<String> {
    None
}
