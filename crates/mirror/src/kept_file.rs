//! A small file of the broker's own beside the files of the store, which is replaced as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::MirrorDisk;

/// Ending of the file with the next content until it is complete.
const ASIDE: &str = ".new";
/// Only the owner may read and write it.
const MODE: u32 = 0o600;

/// Replaces a file of the data directory. When this returns, a crash leaves the new content; before, the old or the new
/// one. Where the files of the store are on the bus, the mirror writes it, so that the directory and the bus never
/// differ, and it waits for the bus.
///
/// # Errors
/// When the disk or the bus refuses.
pub fn replace(directory: &Path, name: &str, content: &[u8], mirror: Option<&MirrorDisk>) -> io::Result<()> {
    if let Some(mirror) = mirror {
        return mirror.replace(name, content);
    }
    let aside = directory.join(format!("{name}{ASIDE}"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(&aside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&aside, directory.join(name))?;
    File::open(directory)?.sync_all()
}
