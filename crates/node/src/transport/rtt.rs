//! The round trip that the system has measured for a TCP connection.

use mio::net::TcpStream;

/// The smoothed round trip, microseconds; `None` where the system does not report it, or has not measured it yet.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "getsockopt(TCP_INFO) has no safe wrapper among the crates we use")]
pub(super) fn of_tcp(stream: &TcpStream) -> Option<u64> {
    use std::mem::{MaybeUninit, size_of};
    use std::os::fd::AsRawFd as _;

    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = libc::socklen_t::try_from(size_of::<libc::tcp_info>()).ok()?;
    // SAFETY: the descriptor is open as long as `stream` is, and the system writes at most `len` bytes to `info`, which
    // has as many; all fields are integers, for which zeroes are valid where it writes less.
    let info = unsafe {
        let place = info.as_mut_ptr().cast();
        let outcome = libc::getsockopt(stream.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, place, &raw mut len);
        (outcome == 0).then(|| info.assume_init())
    }?;
    (info.tcpi_rtt > 0).then_some(u64::from(info.tcpi_rtt))
}

/// Only Linux is asked.
#[cfg(not(target_os = "linux"))]
pub(super) fn of_tcp(_stream: &TcpStream) -> Option<u64> {
    None
}
