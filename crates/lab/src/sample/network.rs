//! Bytes and packets of a network namespace.

use std::fs;

/// What all interfaces of the namespace of a process have received. On the loopback interface what is sent is what is received, so one
/// direction says it all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) bytes: u64,
    pub(super) packets: u64,
}

pub(super) fn of(pid: u32) -> Option<Traffic> {
    Some(parse(&fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?))
}

fn parse(text: &str) -> Traffic {
    let counts = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let mut fields = rest.split_whitespace();
        Some((fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?))
    });
    counts.fold(Traffic::default(), |sum, (bytes, packets)| Traffic {
        bytes: sum.bytes + bytes,
        packets: sum.packets + packets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_added_up() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes    packets errs\n    lo:  100   2 0 0 0 0 0 0 100 2\n  eth0: 50 1 0 0 0 0 0 0 7 1\n";
        assert_eq!(parse(text), Traffic { bytes: 150, packets: 3 });
    }
}
