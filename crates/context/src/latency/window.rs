//! The window in which pongs count (`CTX-21`, `CTX-22`): it opens when pings are sent, and a pong after its end is
//! discarded. One round at a time keeps the state small; the study found that collecting without end costs too much.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The outcome for a pong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pong {
    /// It came in time.
    Counted,
    /// Its window has closed, or it belongs to an earlier round.
    Late,
    /// The node has not been pinged in this round, or has answered before.
    Unasked,
}

/// A round of pings that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PingRound {
    /// Which round.
    pub number: u64,
    /// When it began, on the clock of the caller.
    pub sent_at: Duration,
    /// How long pongs counted.
    pub window: Duration,
    /// Nodes that were pinged.
    pub pinged: u64,
    /// The nodes that answered in time, each with its round-trip time.
    pub answers: Vec<(Arc<str>, Duration)>,
    /// Pongs that came too late since the round before this one was closed.
    pub late: u64,
}

/// The pings of a gateway. Times are since any fixed moment.
#[derive(Debug, Default)]
pub struct PingWindow {
    round: u64,
    open: Option<Open>,
    late: u64,
}

#[derive(Debug)]
struct Open {
    sent_at: Duration,
    window: Duration,
    /// Each node that was pinged: when, and after how long it answered.
    asked: HashMap<Arc<str>, (Duration, Option<Duration>)>,
}

impl PingWindow {
    /// Begins a round; an open one is dropped. Returns its number, which pongs carry.
    pub fn open(&mut self, now: Duration, window: Duration) -> u64 {
        self.round += 1;
        self.open = Some(Open { sent_at: now, window, asked: HashMap::new() });
        self.round
    }

    /// Notes that a node was sent its ping of the open round.
    pub fn sent(&mut self, now: Duration, node: &Arc<str>) {
        if let Some(open) = &mut self.open {
            open.asked.entry(Arc::clone(node)).or_insert((now, None));
        }
    }

    /// Takes a pong of a round.
    pub fn pong(&mut self, now: Duration, round: u64, node: &str) -> Pong {
        let Some(open) = self.open.as_mut().filter(|open| round == self.round && now < open.sent_at + open.window)
        else {
            self.late += 1;
            return Pong::Late;
        };
        match open.asked.get_mut(node) {
            Some((sent, answer @ None)) => {
                *answer = Some(now.saturating_sub(*sent));
                Pong::Counted
            }
            _ => Pong::Unasked,
        }
    }

    /// When the open window closes.
    pub fn closes_at(&self) -> Option<Duration> {
        self.open.as_ref().map(|open| open.sent_at + open.window)
    }

    /// Ends the round once its window has closed.
    pub fn close(&mut self, now: Duration) -> Option<PingRound> {
        let open = self.open.take_if(|open| now >= open.sent_at + open.window)?;
        let mut answers: Vec<_> =
            open.asked.iter().filter_map(|(node, (_, answer))| Some((Arc::clone(node), (*answer)?))).collect();
        answers.sort_unstable();
        Some(PingRound {
            number: self.round,
            sent_at: open.sent_at,
            window: open.window,
            pinged: open.asked.len() as u64,
            answers,
            late: std::mem::take(&mut self.late),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn late_pongs_are_discarded_and_counted() {
        let (a, b, c): (Arc<str>, Arc<str>, Arc<str>) = ("a".into(), "b".into(), "c".into());
        let mut pings = PingWindow::default();
        let first = pings.open(ms(0), ms(100));
        for node in [&a, &b, &c] {
            pings.sent(ms(1), node);
        }
        assert_eq!(pings.pong(ms(31), first, "a"), Pong::Counted);
        assert_eq!(pings.pong(ms(40), first, "a"), Pong::Unasked, "a second pong of a node");
        assert_eq!(pings.pong(ms(41), first, "z"), Pong::Unasked);
        assert_eq!(pings.pong(ms(100), first, "b"), Pong::Late, "the window has closed at 100");
        let round = pings.close(ms(100)).unwrap();
        assert_eq!((round.pinged, round.answers.as_slice(), round.late), (3, [(a, ms(30))].as_slice(), 1));
        let second = pings.open(ms(200), ms(100));
        pings.sent(ms(200), &c);
        assert_eq!(pings.pong(ms(210), first, "c"), Pong::Late, "a pong of the round before");
        assert_eq!(pings.pong(ms(211), second, "c"), Pong::Counted);
    }

    #[test]
    fn a_window_closes_when_its_time_is_over_and_once() {
        let mut pings = PingWindow::default();
        assert_eq!(pings.close(ms(5)), None);
        pings.open(ms(10), ms(5));
        assert_eq!((pings.closes_at(), pings.close(ms(14))), (Some(ms(15)), None));
        assert!(pings.close(ms(15)).is_some() && pings.close(ms(16)).is_none());
    }

    proptest! {
        #[test]
        fn no_pong_counts_twice_or_after_the_window(pongs in proptest::collection::vec((0_u64..200, 0_usize..6), 0..60)) {
            let nodes: Vec<Arc<str>> = (0..4).map(|n| n.to_string().into()).collect();
            let mut pings = PingWindow::default();
            let round = pings.open(ms(0), ms(100));
            for node in &nodes {
                pings.sent(ms(0), node);
            }
            for (at, node) in &pongs {
                pings.pong(ms(*at), round, &node.to_string());
            }
            let round = pings.close(ms(200)).unwrap();
            prop_assert!(round.answers.len() <= 4);
            prop_assert!(round.answers.iter().all(|(_, took)| *took < ms(100)));
            prop_assert_eq!(round.late, pongs.iter().filter(|(at, _)| *at >= 100).count() as u64);
        }
    }
}
