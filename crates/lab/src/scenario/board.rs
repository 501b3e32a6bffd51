//! Small boards, as far as limits can stand for them.

use crate::limits::Limits;
use crate::network::Network;
use crate::span::{BitRate, Bytes};

/// A board.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Board {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its hardware.
    pub about: &'static str,
    cores: f64,
    /// The speed of one of its cores, in cores of a server of today. An estimate: clock times work for each cycle.
    speed: f64,
    /// Its network, bits in a second; none where it has no Ethernet.
    network: Option<u64>,
    /// The part of its memory for a broker, in MiB: the system has the rest.
    memory_mib: u64,
}

/// All boards.
pub const BOARDS: [Board; 3] = [
    Board {
        name: "raspberry-pi-2",
        about: "4 cores of 900 MHz (Cortex-A7), 1 GB, 100 Mbit/s (PI-04)",
        cores: 4.0,
        speed: 0.1,
        network: Some(100_000_000),
        memory_mib: 870,
    },
    Board {
        name: "raspberry-pi-3",
        about: "4 cores of 1.2 GHz (Cortex-A53), 1 GB, 100 Mbit/s",
        cores: 4.0,
        speed: 0.16,
        network: Some(100_000_000),
        memory_mib: 870,
    },
    Board {
        name: "raspberry-pi-zero",
        about: "1 core of 1 GHz (ARM11), 512 MB",
        cores: 1.0,
        speed: 0.07,
        network: None,
        memory_mib: 400,
    },
];

impl Board {
    /// The board with a name.
    pub fn named(name: &str) -> Option<Self> {
        BOARDS.into_iter().find(|board| board.name == name)
    }

    /// The limits of a broker on it; of a case's own limits the narrower ones hold.
    pub fn within(&self, limits: Limits) -> Limits {
        let cpus = self.cores * self.speed;
        let memory = Bytes(self.memory_mib << 20);
        Limits {
            cpus: Some(limits.cpus.map_or(cpus, |own| own.min(cpus))),
            memory: Some(limits.memory.map_or(memory, |own| Bytes(own.0.min(memory.0)))),
            descriptors: limits.descriptors,
        }
    }
}

impl Board {
    /// The network of a broker on it; of a case's own rate the slower one holds.
    pub fn network(&self, network: Option<Network>) -> Option<Network> {
        let Some(rate) = self.network.map(BitRate) else { return network };
        let own = network.unwrap_or_default();
        Some(Network { rate: Some(own.rate.map_or(rate, |own| own.min(rate))), ..own })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_narrows_the_limits_of_a_case_and_widens_none() {
        let board = Board::named("raspberry-pi-2").unwrap();
        let own = Limits { cpus: Some(0.2), ..Limits::default() };
        assert_eq!(board.within(own), Limits { cpus: Some(0.2), memory: Some(Bytes(870 << 20)), ..own });
        let wide = Limits { cpus: Some(8.0), memory: Some(Bytes(64 << 30)), descriptors: None };
        assert_eq!(board.within(wide), board.within(Limits::default()));
        assert_eq!(Board::named("abacus"), None);
    }

    #[test]
    fn a_board_adds_its_ethernet_to_the_network_of_a_case() {
        let board = Board::named("raspberry-pi-2").unwrap();
        assert_eq!(board.network(None).unwrap().rate, Some(BitRate(100_000_000)));
        let slow: Network = toml::from_str("delay = '20ms'\nrate = '1Mbit'").unwrap();
        assert_eq!(board.network(Some(slow)), Some(slow));
        assert_eq!(Board::named("raspberry-pi-zero").unwrap().network(None), None);
    }
}
