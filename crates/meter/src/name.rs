//! The name in records of usage of a broker that is no node of a cluster.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use tidegate_mirror::kept_file;

/// The file in the data directory. It belongs to the books: a copy of the books has the name of the original.
pub const NAME_FILE: &str = "usage-name";

/// The text before the random part of a name.
const PREFIX: &str = "broker-";
/// Bytes of the random part: two brokers on one bus never have the same.
const RANDOM_BYTES: usize = 16;

/// The name that a data directory has for records of usage. It is made at random at the first call.
///
/// # Errors
/// When the file cannot be read or written, or has no such name.
pub fn lasting_name(directory: &Path) -> io::Result<String> {
    match fs::read_to_string(directory.join(NAME_FILE)) {
        Ok(text) => of_text(&text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(directory),
        Err(error) => Err(error),
    }
}

fn of_text(text: &str) -> io::Result<String> {
    let name = text.trim_end();
    let random = name.strip_prefix(PREFIX).unwrap_or_default();
    if random.len() == 2 * RANDOM_BYTES && random.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(name.to_owned());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, format!("{NAME_FILE} has no name of a broker")))
}

fn make(directory: &Path) -> io::Result<String> {
    let mut random = [0; RANDOM_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let name = format!("{PREFIX}{:032x}", u128::from_be_bytes(random));
    kept_file::replace(directory, NAME_FILE, format!("{name}\n").as_bytes(), None)?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

    use super::*;

    #[test]
    fn each_data_directory_has_one_name_for_ever() {
        let folder = |name: &str| {
            let folder = std::env::temp_dir().join(format!("tidegate-usage-name-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            folder
        };
        let (one, other) = (folder("one"), folder("other"));
        let name = lasting_name(&one).unwrap();
        assert_eq!(lasting_name(&one).unwrap(), name);
        assert_ne!(lasting_name(&other).unwrap(), name);
        for damaged in ["", "broker", "broker-12", "broker-zz000000000000000000000000000000"] {
            fs::write(one.join(NAME_FILE), damaged).unwrap();
            assert_eq!(lasting_name(&one).unwrap_err().kind(), io::ErrorKind::InvalidData, "{damaged}");
        }
        fs::remove_dir_all(one).unwrap();
        fs::remove_dir_all(other).unwrap();
    }
}
