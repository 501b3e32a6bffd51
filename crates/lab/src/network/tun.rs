//! A TUN device: a network interface whose packets a program reads and writes.

use std::fs::File;
use std::io;

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `TUNSETIFF`.
const SET_INTERFACE: Opcode = opcode::write::<std::ffi::c_int>(b'T', 202);
/// IP packets (`IFF_TUN`) without a header of the device's own (`IFF_NO_PI`).
const FLAGS: u16 = 0x0001 | 0x1000;

/// `struct ifreq`, as far as `TUNSETIFF` reads it.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// Makes a device in the network namespace of this thread. It goes when the file is closed.
///
/// # Errors
/// When this user may not, there is no `/dev/net/tun`, or the name is too long.
#[expect(unsafe_code, reason = "ioctl(TUNSETIFF) has no safe wrapper among the crates we use")]
pub(super) fn open(name: &str) -> io::Result<File> {
    let mut request = Request { name: [0; 16], flags: FLAGS, rest: [0; 22] };
    // The last byte stays 0: the kernel reads a C string.
    let place = request.name.get_mut(..name.len()).filter(|place| place.len() < 16);
    place.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(name.as_bytes());
    let file = File::options().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: the kernel reads a `struct ifreq` of 40 bytes for this opcode, which `Request` has, and writes to no
    // other place; the descriptor is open as long as `file` is.
    unsafe {
        let request = Setter::<SET_INTERFACE, Request>::new(request);
        ioctl(&file, request)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_the_kernel_s_size_and_bounds_the_name() {
        assert_eq!(size_of::<Request>(), 40);
        assert_eq!(open("a-name-of-16-by.").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
