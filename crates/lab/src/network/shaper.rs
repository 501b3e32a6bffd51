//! When a packet arrives at the other end of a link, if it does: pure, so that it is tested on its own clock.

use super::Network;
use crate::load::chance::Chance;

/// Queue in front of a link with a rate, bytes: the thousand packets that Linux lets wait for an Ethernet device.
/// Further packets are lost.
pub(super) const QUEUE_BYTES: u64 = 1_500_000;

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Shaper {
    network: Network,
    chance: Chance,
    /// When the last packet has left, by the rate.
    free_ns: u64,
    /// When the last packet arrives: a line keeps the order.
    last_ns: u64,
}

impl Shaper {
    pub(super) const fn new(network: Network, chance: Chance) -> Self {
        Self { network, chance, free_ns: 0, last_ns: 0 }
    }

    /// The arrival of a packet of this length that is sent now; `None` when it is lost. Times are nanoseconds and do
    /// not go back.
    pub(super) fn arrives_ns(&mut self, now_ns: u64, len: usize) -> Option<u64> {
        if self.chance.happens(self.network.loss / 100.0) {
            return None;
        }
        let sent_ns = self.sent_ns(now_ns, len as u64)?;
        let (delay, jitter) = (nanoseconds(self.network.delay.0), nanoseconds(self.network.jitter.0));
        let off = self.chance.below(jitter.saturating_mul(2).saturating_add(1));
        self.last_ns = self.last_ns.max(sent_ns + (delay + off).saturating_sub(jitter));
        Some(self.last_ns)
    }

    /// When its last bit has left, by the rate; `None` when too much waits.
    fn sent_ns(&mut self, now_ns: u64, len: u64) -> Option<u64> {
        let Some(rate) = self.network.rate else { return Some(now_ns) };
        let takes = |bytes: u64| bytes.saturating_mul(8_000_000_000) / rate.0.max(1);
        if self.free_ns.saturating_sub(now_ns) > takes(QUEUE_BYTES) {
            return None;
        }
        self.free_ns = self.free_ns.max(now_ns) + takes(len);
        Some(self.free_ns)
    }
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shaper(text: &str) -> Shaper {
        Shaper::new(toml::from_str(text).unwrap(), Chance::new(7))
    }

    #[test]
    fn packets_take_the_delay_with_jitter_and_stay_in_order() {
        let mut shaper = shaper("delay = '20ms'\njitter = '5ms'");
        let mut last = 0;
        let mut taken = Vec::new();
        for packet in 0..2_000_u64 {
            // Far enough apart that keeping the order changes nothing.
            let sent = packet * 20_000_000;
            let arrives = shaper.arrives_ns(sent, 100).unwrap();
            assert!(arrives >= last);
            last = arrives;
            taken.push(arrives - sent);
        }
        let (shortest, longest) = (*taken.iter().min().unwrap(), *taken.iter().max().unwrap());
        assert!((15_000_000..15_200_000).contains(&shortest), "{shortest}");
        assert!((24_800_000..=25_000_000).contains(&longest), "{longest}");
        let mean = taken.iter().sum::<u64>() / 2_000;
        assert!((19_800_000..20_200_000).contains(&mean), "{mean}");
    }

    #[test]
    fn the_share_that_is_lost_is_the_one_asked_for() {
        let mut shaper = shaper("loss = 2.5");
        let lost = (0..100_000).filter(|packet| shaper.arrives_ns(*packet, 100).is_none()).count();
        assert!((2_350..2_650).contains(&lost), "{lost} of 100,000");
    }

    #[test]
    fn the_rate_spaces_packets_and_a_full_queue_drops() {
        let mut shaper = shaper("rate = '12Mbit'");
        // A packet of 1,500 bytes takes a millisecond.
        assert_eq!(shaper.arrives_ns(0, 1_500), Some(1_000_000));
        assert_eq!(shaper.arrives_ns(0, 1_500), Some(2_000_000));
        assert_eq!(shaper.arrives_ns(9_000_000, 1_500), Some(10_000_000));
        let carried = (0..2_000).filter(|_| shaper.arrives_ns(10_000_000, 1_500).is_some()).count();
        assert_eq!(carried, 1_001);
    }

    #[test]
    fn a_link_that_nothing_is_asked_of_delivers_at_once() {
        assert_eq!(shaper("").arrives_ns(5, 1_500), Some(5));
    }
}
