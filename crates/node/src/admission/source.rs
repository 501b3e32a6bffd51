//! Sources of connections for limits and bans: networks, and the share of one subscriber.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The source of one subscriber: an IPv4 address, or the /64 of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source(Network);

impl Source {
    /// The source that an address belongs to.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(Network::new(IpAddr::V4(address), 32)),
            IpAddr::V6(address) => Self(Network::new(IpAddr::V6(address), 64)),
        }
    }

    /// It as a network.
    pub fn network(self) -> Network {
        self.0
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// All addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    v4: bool,
    /// The address, an IPv4 address in the upper 32 bits; bits outside the prefix are 0.
    bits: u128,
    prefix: u8,
}

/// A text names no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an address or network: write one such as 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32")]
pub struct NetworkError {
    /// The text.
    pub text: String,
}

impl Network {
    /// The network of an address and a number of leading bits; more bits than the address has mean the address itself. A
    /// network of IPv4 addresses inside IPv6 is one of IPv4.
    pub fn new(address: IpAddr, prefix: u8) -> Self {
        let (address, prefix) = unmapped(address, prefix);
        let (v4, bits) = bits_of(address);
        let prefix = prefix.min(if v4 { 32 } else { 128 });
        Self { v4, bits: bits & mask(prefix), prefix }
    }

    /// The network of one address.
    pub fn host(address: IpAddr) -> Self {
        Self::new(address.to_canonical(), 128)
    }

    /// Whether the network contains an address. A network of IPv6 contains no IPv4 address.
    pub fn contains(self, address: IpAddr) -> bool {
        let (v4, bits) = bits_of(address.to_canonical());
        v4 == self.v4 && bits & mask(self.prefix) == self.bits
    }

    /// The first address.
    pub fn address(self) -> IpAddr {
        if self.v4 {
            IpAddr::V4(Ipv4Addr::from_bits((self.bits >> 96) as u32))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(self.bits))
        }
    }

    /// The number of leading bits that all addresses share.
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether it is a single address.
    fn is_host(self) -> bool {
        self.prefix == if self.v4 { 32 } else { 128 }
    }
}

/// Leading bits of the IPv4 addresses inside IPv6, `::ffff:0:0/96`.
const MAPPED_BITS: u8 = 96;

/// The IPv4 network inside IPv6 as one of IPv4: addresses of clients are compared in that form.
pub(crate) fn unmapped(address: IpAddr, prefix: u8) -> (IpAddr, u8) {
    match (address.to_canonical(), prefix.checked_sub(MAPPED_BITS)) {
        (IpAddr::V4(inner), Some(prefix)) if address.is_ipv6() => (IpAddr::V4(inner), prefix),
        _ => (address, prefix),
    }
}

fn bits_of(address: IpAddr) -> (bool, u128) {
    match address {
        IpAddr::V4(address) => (true, u128::from(address.to_bits()) << 96),
        IpAddr::V6(address) => (false, address.to_bits()),
    }
}

fn mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let refused = || NetworkError { text: text.to_owned() };
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().map_err(|_| refused())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| refused())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        match prefix {
            None => Ok(Self::host(address)),
            Some(prefix) if prefix <= most => Ok(Self::new(address, prefix)),
            Some(_) => Err(refused()),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_host() { self.address().fmt(f) } else { write!(f, "{}/{}", self.address(), self.prefix) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn networks_are_read_and_written() {
        for (text, written) in [
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7/32", "192.0.2.7"),
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:db8::1", "2001:db8::1"),
            ("2001:db8:1:2:3::/64", "2001:db8:1:2::/64"),
            ("::/0", "::/0"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7/120", "192.0.2.0/24"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:192.0.2.7/128", "192.0.2.7"),
        ] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), written, "{text}");
        }
        for text in ["", "192.0.2", "192.0.2.7/33", "::/129", "192.0.2.7/", "192.0.2.7/-1", "host", "192.0.2.0/24/8"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_network_holds_its_own_family_only() {
        let all: Network = "::/0".parse().unwrap();
        assert!(all.contains(ip("2001:db8::1")));
        assert!(!all.contains(ip("192.0.2.7")) && !all.contains(ip("::ffff:192.0.2.7")));
        let mapped: Network = "::ffff:192.0.2.0/120".parse().unwrap();
        assert!(mapped.contains(ip("192.0.2.255")) && mapped.contains(ip("::ffff:192.0.2.1")));
        let net: Network = "192.0.2.0/24".parse().unwrap();
        assert!(net.contains(ip("192.0.2.255")) && net.contains(ip("::ffff:192.0.2.255")));
        assert!(!net.contains(ip("192.0.3.0")) && !net.contains(ip("c000:200::")));
    }

    #[test]
    fn a_subscriber_with_a_whole_prefix_is_one_source() {
        assert_eq!(Source::of(ip("2001:db8::1")), Source::of(ip("2001:db8::ffff:1")));
        assert_ne!(Source::of(ip("2001:db8::1")), Source::of(ip("2001:db8:0:1::1")));
        assert_eq!(Source::of(ip("::ffff:192.0.2.7")), Source::of(ip("192.0.2.7")));
        assert_eq!(Source::of(ip("2001:db8::1")).to_string(), "2001:db8::/64");
    }

    proptest! {
        #[test]
        fn a_network_holds_what_shares_its_bits(base in any::<u32>(), other in any::<u32>(), prefix in 0_u8..=32) {
            let network = Network::new(IpAddr::V4(base.into()), prefix);
            let shared = (base ^ other).leading_zeros() >= u32::from(prefix);
            prop_assert_eq!(network.contains(IpAddr::V4(other.into())), shared);
            prop_assert_eq!(network.to_string().parse::<Network>().unwrap(), network);
        }
    }
}
