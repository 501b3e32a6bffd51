//! Networks by address and prefix.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::admission::unmapped;

/// A network: `10.0.0.0/8`, `2001:db8::/32`, or a single address. IPv4 addresses inside IPv6 count as IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

/// Why a text is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Neither an address nor one with a prefix.
    #[error("`{0}` is no network: write an address with the length of its prefix, such as 10.0.0.0/8, or an address")]
    Form(String),
    /// A prefix that is longer than the address.
    #[error("the prefix of `{text}` is longer than {max} bits")]
    Prefix {
        /// The text.
        text: String,
        /// Bits of such an address.
        max: u8,
    },
    /// An address that has more than the network's own bits.
    #[error("`{text}` has bits behind its prefix: the network is {network}")]
    HostBits {
        /// The text.
        text: String,
        /// The network that was probably intended.
        network: Network,
    },
}

impl Network {
    /// Whether an address belongs to it.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => {
                masked(address.to_canonical(), self.prefix) == self.address
            }
            _ => false,
        }
    }
}

/// Without the bits behind the prefix.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            IpAddr::from((address.to_bits() & mask).to_be_bytes())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            IpAddr::from((address.to_bits() & mask).to_be_bytes())
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let form = || NetworkError::Form(text.into());
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => max,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().map_err(|_| form())?,
            Some(_) => return Err(form()),
        };
        if prefix > max {
            return Err(NetworkError::Prefix { text: text.into(), max });
        }
        let (address, prefix) = unmapped(address, prefix);
        let network = Self { address: masked(address, prefix), prefix };
        if network.address == address {
            Ok(network)
        } else {
            Err(NetworkError::HostBits { text: text.into(), network })
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_others() {
        let contains =
            |network: &str, address: &str| network.parse::<Network>().unwrap().contains(address.parse().unwrap());
        for (network, address) in [
            ("10.0.0.0/8", "10.255.0.1"),
            ("10.0.0.0/8", "::ffff:10.0.0.1"),
            ("::ffff:10.0.0.0/104", "10.255.0.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("0.0.0.0/0", "192.0.2.1"),
            ("192.0.2.1", "192.0.2.1"),
            ("2001:db8::/32", "2001:db8:1::1"),
            ("::/0", "2001:db8::1"),
            ("::1", "::1"),
        ] {
            assert!(contains(network, address), "{network} {address}");
        }
        for (network, address) in [
            ("10.0.0.0/8", "11.0.0.1"),
            ("10.0.0.0/9", "10.128.0.0"),
            ("192.0.2.1/32", "192.0.2.2"),
            ("0.0.0.0/0", "2001:db8::1"),
            ("::/0", "10.0.0.1"),
            ("2001:db8::/33", "2001:db8:8000::"),
        ] {
            assert!(!contains(network, address), "{network} {address}");
        }
    }

    #[test]
    fn an_invalid_network_is_refused_with_a_fix() {
        for (text, part) in [
            ("", "such as 10.0.0.0/8"),
            ("10.0.0/8", "is no network"),
            ("10.0.0.0/", "is no network"),
            ("10.0.0.0/+8", "is no network"),
            ("10.0.0.0/33", "longer than 32 bits"),
            ("::/129", "longer than 128 bits"),
            ("10.1.0.0/8", "the network is 10.0.0.0/8"),
        ] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
