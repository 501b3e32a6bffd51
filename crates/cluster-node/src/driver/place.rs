//! The address at which a process listens for links: no two running processes share it.

use std::fs;
use std::net::SocketAddr;

/// The system since its start, its network and the address, on which only one process listens at a time (`SO_REUSEPORT` is
/// off). `None` where the system does not name them.
pub(super) fn of_listener(at: SocketAddr) -> Option<String> {
    let start = tidegate_proc::boot()?;
    let network = fs::read_link("/proc/self/ns/net").ok()?;
    Some(format!("{} {} {at}", start, network.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_place_is_of_one_address() {
        let [one, other] = ["127.0.0.1:7000", "127.0.0.1:7001"].map(|at| of_listener(at.parse().unwrap()));
        assert!(one.is_some());
        assert_eq!(one, of_listener("127.0.0.1:7000".parse().unwrap()));
        assert_ne!(one, other);
    }
}
