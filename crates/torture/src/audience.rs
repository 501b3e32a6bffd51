//! Subscribers beside the usual ones: the watchers of wills, the members of a group and its guests, mobile nodes, and the
//! collector of receipts.

use mio::Token;

use crate::application::{MOBILES, is_lasting};
use crate::ledger::Expectation;
use crate::rng::Rng;
use crate::session::Session;
use crate::size::Size;
use crate::subscriber::Subscriber;
use crate::workload::{self, Kind};

/// Subscribers that watch for wills, the second one at QoS 2.
const WATCHERS: usize = 2;

/// A mobile node that sleeps is away for this long, in milliseconds.
const ASLEEP: std::ops::Range<u64> = 500..3_000;

/// The number of the first member of the group, under which receipts of all of them are booked.
fn first_member(size: Size) -> u16 {
    size.subscribers + if size.mortals > 0 { WATCHERS as u16 } else { 0 }
}

/// Adds the watchers of wills and the members of a group.
pub(crate) fn add_watchers_and_members(subscribers: &mut Vec<Subscriber>, size: Size, rng: &mut Rng) {
    let first_member = first_member(size);
    let watchers = usize::from(first_member - size.subscribers);
    for place in 0..watchers + usize::from(size.members) {
        let index = subscribers.len() as u16;
        let (name, account, wishes) = match place.checked_sub(watchers) {
            None => (format!("watcher-{place}"), index, workload::watches(place)),
            Some(member) => (format!("member-{member}"), first_member, workload::membership()),
        };
        let token = Token(usize::from(size.senders() + index));
        let is_member = account == first_member;
        let session = Session::new(name, size.version(is_member || place.is_multiple_of(2)), true, token);
        subscribers.push(Subscriber::new(session, account, wishes, rng.fork(1000 + u64::from(index))));
    }
}

/// Adds members of the group whose sessions end with their connections: messages that they have not acknowledged are due to
/// other members. They are there at QoS 1, since a message at QoS 2 may be lost with its session (section 4.8.2).
pub(crate) fn add_guests(subscribers: &mut Vec<Subscriber>, size: Size, seed: u64) {
    // A choice of its own, so that the other clients of a seed stay the same.
    let mut rng = Rng::new(seed ^ 0x9e57);
    for guest in 0..if size.members > 0 { size.guests } else { 0 } {
        let index = subscribers.len() as u16;
        let token = Token(usize::from(size.senders() + index));
        let session = Session::new(format!("guest-{guest}"), size.version(guest.is_multiple_of(2)), false, token);
        let own = rng.fork(1000 + u64::from(index));
        let mut subscriber = Subscriber::new(session, first_member(size), workload::visit(), own);
        subscriber.is_guest = true;
        subscribers.push(subscriber);
    }
}

/// Adds mobile nodes, which subscribe to nothing, and the subscriber that collects receipts.
pub(crate) fn add_mobiles_and_collector(subscribers: &mut Vec<Subscriber>, size: Size, seed: u64) {
    // A choice of its own, so that the other clients of a seed stay the same.
    let mut rng = Rng::new(seed ^ 0x30b1);
    for mobile in 0..if size.applications > 0 { MOBILES + 1 } else { 0 } {
        let index = subscribers.len() as u16;
        let token = Token(usize::from(size.senders() + index));
        let own = rng.fork(u64::from(index));
        let is_collector = mobile == MOBILES;
        let (name, wishes) = if is_collector {
            ("collector".to_owned(), workload::collection())
        } else {
            (Kind::mobile(mobile), workload::address(mobile, is_lasting(mobile)))
        };
        let version = size.version(is_collector || mobile.is_multiple_of(2));
        let session = Session::new(name, version, is_collector || is_lasting(mobile), token);
        let mut subscriber = Subscriber::new(session, index, wishes, own);
        if !is_collector && mobile % 2 == 1 {
            subscriber.away_ms = ASLEEP;
        }
        subscribers.push(subscriber);
    }
}

/// The subscriptions that a message to this topic is owed to from now on: one for a group.
pub(crate) fn expected(subscribers: &[Subscriber], topic: &str) -> Vec<Expectation> {
    let mut expected: Vec<Expectation> = Vec::new();
    for subscriber in subscribers {
        if let Some(owed) = subscriber.expectation(topic)
            && expected.iter().all(|other| other.subscriber != owed.subscriber)
        {
            expected.push(owed);
        }
    }
    expected
}
