//! Bytes and packets of a network namespace.

use std::fs;

/// Bytes that all interfaces of the namespace of a process have received, and bytes that all but the loopback interface
/// have sent: the loopback interface receives all that it sends, so one direction is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) bytes: u64,
    pub(super) packets: u64,
    pub(super) sent_bytes: u64,
    pub(super) sent_packets: u64,
}

pub(super) fn of(pid: u32) -> Option<Traffic> {
    Some(parse(&fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?))
}

fn parse(text: &str) -> Traffic {
    let interfaces = text.lines().filter_map(|line| {
        let (name, rest) = line.split_once(':')?;
        let fields: Vec<u64> = rest.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let sent = if name.trim() == "lo" { (0, 0) } else { (*fields.get(8)?, *fields.get(9)?) };
        Some((*fields.first()?, *fields.get(1)?, sent))
    });
    interfaces.fold(Traffic::default(), |sum, (bytes, packets, sent)| Traffic {
        bytes: sum.bytes + bytes,
        packets: sum.packets + packets,
        sent_bytes: sum.sent_bytes + sent.0,
        sent_packets: sum.sent_packets + sent.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_added_up_and_loopback_counts_once() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes    packets errs\n    lo:  100   2 0 0 0 0 0 0 100 2\n  eth0: 50 1 0 0 0 0 0 0 7 1\n";
        assert_eq!(parse(text), Traffic { bytes: 150, packets: 3, sent_bytes: 7, sent_packets: 1 });
    }
}
