//! Programs of the system.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// The path of a program: a path as it is, a name in `PATH` or in the system's directories for servers.
pub fn find(command: &str) -> Option<PathBuf> {
    let runs = |path: &PathBuf| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if command.contains('/') {
        return Some(PathBuf::from(command)).filter(runs);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let servers = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(servers).map(|directory| directory.join(command)).find(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        assert!(find("sh").is_some_and(|path| path.ends_with("sh")));
        assert!(find("/bin/sh").is_some());
        assert!(find("/bin").is_none(), "a directory is no program");
        assert!(find("no-program-has-this-name").is_none());
    }
}
