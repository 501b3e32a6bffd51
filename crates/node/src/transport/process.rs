//! The process at the other end of a Unix socket.

use std::os::fd::AsRawFd;

/// Whether this process has connected the socket. False where the system does not say it.
#[expect(unsafe_code, reason = "getsockopt(SO_PEERCRED) has no stable safe wrapper among the crates we use")]
pub(super) fn is_own(stream: &impl AsRawFd) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let Ok(mut len) = libc::socklen_t::try_from(size_of::<libc::ucred>()) else { return false };
    // SAFETY: the descriptor is open as long as `stream` is, and the system writes at most `len` bytes to `peer`, which
    // has as many; all its fields are integers.
    let outcome = unsafe {
        let place = (&raw mut peer).cast();
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, place, &raw mut len)
    };
    outcome == 0 && u32::try_from(peer.pid).is_ok_and(|pid| pid == std::process::id())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    use super::is_own;

    #[test]
    fn a_socket_of_this_process_is_own() {
        let (one, other) = UnixStream::pair().unwrap();
        assert!(is_own(&one) && is_own(&other));
    }

    /// The socket that the child connects in the test below.
    const AT: &str = "TIDEGATE_TEST_SOCKET";

    #[test]
    fn a_socket_of_another_process_is_not_own() {
        if let Some(at) = std::env::var_os(AT) {
            // The child: it stays until the other end is closed.
            let _ = UnixStream::connect(at).unwrap().read(&mut [0]);
            return;
        }
        let place = std::env::temp_dir().join(format!("tidegate-own-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&place);
        let listener = UnixListener::bind(&place).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "transport::process::tests::a_socket_of_another_process_is_not_own"])
            .env(AT, &place)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (stream, _) = listener.accept().unwrap();
        assert!(!is_own(&stream));
        drop(stream);
        assert!(child.wait().unwrap().success());
        std::fs::remove_file(&place).unwrap();
    }
}
