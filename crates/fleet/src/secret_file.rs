//! Files that hold one secret.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest file of a secret, bytes.
const MAX_SECRET: u64 = 4096;

/// The secret in a file, without the end of its line.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_SECRET).read_to_string(&mut text)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
