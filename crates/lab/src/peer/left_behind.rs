//! Processes that a peer has spawned and that have left its process group, such as daemons.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// The environment variable by which they are known: children inherit it.
pub(crate) const MARK: &str = "TIDEGATE_LAB_PEER";

/// Kills all processes that have the mark of a directory, or of one below it.
pub(super) fn kill(directory: &Path) {
    let mut mark = format!("{MARK}=").into_bytes();
    mark.extend_from_slice(directory.as_os_str().as_bytes());
    let is_below =
        |entry: &[u8]| entry.strip_prefix(mark.as_slice()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]));
    for pid in tidegate_proc::marked(is_below) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_with_the_mark_is_killed_and_others_are_not() {
        let spawn = |directory: &str| Command::new("sleep").arg("3600").env(MARK, directory).spawn().unwrap();
        let mark = format!("/nowhere/{}", std::process::id());
        let (mut marked, mut below) = (spawn(&mark), spawn(&format!("{mark}/broker")));
        let mut other = spawn(&format!("{mark}0"));
        kill(Path::new(&mark));
        assert!(!marked.wait().unwrap().success() && !below.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
