//! A table of networks and their places; the most specific network decides.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Found, PlacesError};
use crate::location::Location;

/// Nodes of both trees together, 32 bytes each. A network has at most as many nodes as its prefix has bits, and shares
/// most of them with its neighbours.
const MAX_NODES: usize = 1 << 20;

/// A node of a tree of bits.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// The node that the next bit leads to; 0 for none, since no branch leads back to a root.
    branches: [u32; 2],
    location: Option<Location>,
}

/// Networks and their places, as a binary tree for each family.
///
/// A tree says not only which network an address is in, but also after how many bits no other entry can be meant any
/// more: the scope for which a resolver may keep an answer (RFC 7871, section 7.2.1).
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The roots are the first two, of IPv4 and IPv6.
    nodes: Vec<Node>,
}

impl Table {
    /// Adds a network, in the place of the same network if it was there.
    ///
    /// # Errors
    /// When the table is full; it is then as it was, but for nodes without a place.
    pub fn insert(&mut self, network: IpNet, location: Location) -> Result<(), PlacesError> {
        if self.nodes.is_empty() {
            self.nodes.resize(2, Node::default());
        }
        let (bits, root) = bits_of(network.network());
        let mut place = root;
        for depth in 0..network.prefix_len() {
            let branch = branch(bits, depth);
            let next = self.nodes.get(place).map_or(0, |node| node.branches[branch]) as usize;
            place = if next == 0 { self.grow(place, branch)? } else { next };
        }
        if let Some(node) = self.nodes.get_mut(place) {
            node.location = Some(location);
        }
        Ok(())
    }

    fn grow(&mut self, place: usize, branch: usize) -> Result<usize, PlacesError> {
        let new = self.nodes.len();
        if new >= MAX_NODES {
            return Err(PlacesError::TooLarge { limit: MAX_NODES });
        }
        self.nodes.push(Node::default());
        if let Some(node) = self.nodes.get_mut(place) {
            node.branches[branch] = new as u32;
        }
        Ok(new)
    }

    /// Reads lines of `NETWORK LATITUDE LONGITUDE`; `#` begins a comment.
    ///
    /// # Errors
    /// With the first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, PlacesError> {
        let mut table = Self::default();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.split('#').next().unwrap_or_default();
            let words: Vec<&str> = text.split_whitespace().collect();
            let [network, latitude, longitude] = words.as_slice() else {
                if words.is_empty() {
                    continue;
                }
                return Err(PlacesError::Line { line });
            };
            let (Ok(network), Ok(latitude), Ok(longitude)) = (network.parse(), latitude.parse(), longitude.parse())
            else {
                return Err(PlacesError::Line { line });
            };
            let location =
                Location::new(latitude, longitude).map_err(|source| PlacesError::Location { line, source })?;
            table.insert(network, location)?;
        }
        Ok(table)
    }

    /// The location of the network of the first `bits` of an address.
    pub(super) fn find(&self, address: IpAddr, bits: u8) -> Found {
        let (address, root) = bits_of(address);
        let mut found = Found { location: None, prefix: 0 };
        let mut place = root;
        for depth in 0..=bits.min(128) {
            let Some(node) = self.nodes.get(place) else { break };
            found.location = node.location.or(found.location);
            if depth == bits || node.branches == [0, 0] {
                break;
            }
            // The next bit decides, even if it leads nowhere.
            found.prefix = depth + 1;
            place = match node.branches[branch(address, depth)] {
                0 => break,
                next => next as usize,
            };
        }
        found
    }
}

/// The bits of an address, from the highest, and the root of its family.
fn bits_of(address: IpAddr) -> (u128, usize) {
    match address.to_canonical() {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 0),
        IpAddr::V6(address) => (address.to_bits(), 1),
    }
}

fn branch(bits: u128, depth: u8) -> usize {
    usize::from((bits << depth) >> 127 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        # Two offices, and a laboratory in the second.
        192.0.2.0/24     41.9 12.5
        198.51.100.0/24  52.5 13.4   # Berlin
        198.51.100.64/26 48.1 11.6
        2001:db8::/32    -33.9 151.2
    ";

    fn find(table: &Table, address: &str, bits: u8) -> (Option<f64>, u8) {
        let found = table.find(address.parse().unwrap(), bits);
        (found.location.map(Location::latitude), found.prefix)
    }

    #[test]
    fn the_most_specific_network_decides() {
        let table = Table::parse(TEXT).unwrap();
        assert_eq!(find(&table, "192.0.2.77", 32), (Some(41.9), 24));
        assert_eq!(find(&table, "198.51.100.1", 32), (Some(52.5), 26));
        assert_eq!(find(&table, "198.51.100.65", 32), (Some(48.1), 26));
        assert_eq!(find(&table, "::ffff:192.0.2.77", 32), (Some(41.9), 24));
        assert_eq!(find(&table, "2001:db8:1::1", 128), (Some(-33.9), 32));
        assert_eq!(find(&table, "203.0.113.1", 32).0, None);
        assert_eq!(find(&Table::default(), "203.0.113.1", 32), (None, 0));
    }

    #[test]
    fn a_scope_covers_no_other_entry_nor_exceeds_the_query() {
        let table = Table::parse(TEXT).unwrap();
        // The upper half of the second office differs from the laboratory in its first bit already.
        assert_eq!(find(&table, "198.51.100.129", 32), (Some(52.5), 25));
        // A network of 24 bits may be inside or outside the laboratory.
        assert_eq!(find(&table, "198.51.100.0", 24), (Some(52.5), 24));
        // Too few bits for any entry.
        assert_eq!(find(&table, "198.51.0.0", 16), (None, 16));
        // 10/8 leaves the tree with the first bit: all that begins with 0 is unknown.
        assert_eq!(find(&table, "10.0.0.1", 32), (None, 1));
        // An address without an entry has no location.
        assert_eq!(find(&table, "0.0.0.0", 0), (None, 0));
    }

    #[test]
    fn a_wrong_line_is_named() {
        assert!(matches!(Table::parse("\n192.0.2.0/24 1"), Err(PlacesError::Line { line: 2 })));
        assert!(matches!(Table::parse("192.0.2.0/33 1 2"), Err(PlacesError::Line { line: 1 })));
        assert!(matches!(Table::parse("192.0.2.0/24 91 2"), Err(PlacesError::Location { line: 1, .. })));
    }

    #[test]
    fn an_entry_for_everything_has_a_scope_of_0() {
        let table = Table::parse("0.0.0.0/0 1 2").unwrap();
        assert_eq!(find(&table, "203.0.113.1", 32), (Some(1.0), 0));
    }
}
