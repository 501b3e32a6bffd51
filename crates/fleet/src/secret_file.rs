//! Files that hold one secret.

use std::io::{self, Read};
use std::path::Path;

/// Largest file of a secret, bytes.
const MAX_SECRET: u64 = 4096;

/// The secret in a file, without the end of its line.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    tidegate_setting_file::open(path)?.take(MAX_SECRET).read_to_string(&mut text)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_in_the_place_of_a_secret_is_not_waited_for() {
        let path = std::env::temp_dir().join(format!("tidegate-fleet-secret-{}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = read(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(error.to_string().contains("it is a pipe"), "{error}");
    }
}
