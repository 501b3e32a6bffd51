//! Opens the files that settings name. A reload reads them while clients are served, so it may not wait for the other
//! end of a pipe.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Where a program finds files that its caller has opened for it. Their other ends are there.
const OPENED_BEFORE: [&str; 3] = ["/dev/fd", "/dev/stdin", "/proc/self/fd"];

/// Opens a file to read it. Nothing that is read from it waits, unless the caller of the program has opened it.
///
/// # Errors
/// When it cannot be opened, or is a pipe.
pub fn open(path: &Path) -> io::Result<File> {
    if OPENED_BEFORE.iter().any(|place| path.starts_with(place)) {
        return File::open(path);
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe; write the text into a file"));
    }
    Ok(file)
}

/// Reads the bytes of a file, as [`open`] opens it.
///
/// # Errors
/// When it cannot be opened or read, is a pipe, or is longer than `max` bytes.
pub fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = open(path)?.take(max.saturating_add(1));
    file.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {max} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let path = std::env::temp_dir().join(format!("tidegate-setting-file-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = open(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(error.to_string(), "it is a pipe; write the text into a file");
    }

    #[test]
    fn a_file_has_a_longest_length() {
        let path = std::env::temp_dir().join(format!("tidegate-setting-length-{}", std::process::id()));
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"four");
        assert_eq!(read(&path, 3).unwrap_err().to_string(), "it is larger than 3 bytes");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(Path::new("/dev/null"), 3).unwrap(), b"");
        assert_eq!(read(Path::new("/dev/zero"), 3).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
