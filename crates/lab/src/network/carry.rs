//! Carries packets from one TUN device to another with the delay and the losses of a link of these properties.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::Network;
use super::shaper::Shaper;
use crate::load::chance::Chance;

/// Maximum number of packets in transit in one direction; further ones are lost. A gigabit of small packets for a
/// second.
const UNDER_WAY: usize = 1 << 20;
/// Longer than any packet of a device with the usual 1,500 bytes.
const LONGEST: usize = 2048;

/// A packet and when it arrives.
type Due = (u64, Box<[u8]>);

/// Carries packets both ways until the process ends.
///
/// # Errors
/// When the system gives no thread.
pub(super) fn both_ways(one: File, other: File, network: Network, seed: u64) -> io::Result<()> {
    let (one, other) = (Arc::new(one), Arc::new(other));
    let begin = Instant::now();
    for (part, from, to) in [(0, Arc::clone(&one), Arc::clone(&other)), (1, other, one)] {
        let (sender, receiver) = sync_channel(UNDER_WAY);
        let shaper = Shaper::new(network, Chance::of_part(seed, part));
        thread::Builder::new().name("takes".to_owned()).spawn(move || take(&from, shaper, begin, &sender))?;
        thread::Builder::new().name("brings".to_owned()).spawn(move || bring(&to, begin, &receiver))?;
    }
    Ok(())
}

fn take(mut from: &File, mut shaper: Shaper, begin: Instant, sender: &SyncSender<Due>) {
    let mut packet = [0; LONGEST];
    while let Ok(len) = from.read(&mut packet) {
        let Some(packet) = packet.get(..len) else { continue };
        if let Some(due) = shaper.arrives_ns(since(begin), len) {
            // A full line loses the packet, as a router does.
            let _ = sender.try_send((due, packet.into()));
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the packet is due at this time; there is no event to wait for")]
fn bring(mut to: &File, begin: Instant, receiver: &Receiver<Due>) {
    while let Ok((due, packet)) = receiver.recv() {
        let early = due.saturating_sub(since(begin));
        if early > 0 {
            thread::sleep(Duration::from_nanos(early));
        }
        // A device that is down takes no packets; they are lost.
        let _ = to.write(&packet);
    }
}

fn since(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
