//! Parts that threads share, on real threads.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use mio::{Events, Poll, Waker};
use tidegate_engine::{Accepted, AuthOutcome, ConnectionKey, ShardId};

use crate::inbox::inbox;
use crate::orders::{Admin, ToShard};
use crate::shard::WAKER;
use crate::{Node, NodeSettings, Observer, Occasion};

/// Each sender waits from time to time until the receiver has taken all of its messages, so that the receiver falls
/// asleep again and again at the moment of a send. A lost wake-up would make this test hang.
#[test]
fn no_wake_up_is_lost_between_threads() {
    const SENDERS: u32 = 4;
    const ROUNDS: u32 = 2_000;
    let mut poll = Poll::new().unwrap();
    let (sender, mut receiver) = inbox(Waker::new(poll.registry(), WAKER).unwrap());
    let (acknowledge, acknowledged): (Vec<_>, Vec<_>) = (0..SENDERS).map(|_| channel::<()>()).unzip();
    let threads: Vec<_> = (0..SENDERS)
        .zip(acknowledged)
        .map(|(index, acknowledged)| {
            let sender = sender.clone();
            thread::spawn(move || {
                for generation in 0..ROUNDS {
                    let key = ConnectionKey { index, generation };
                    sender.send(ToShard::AuthOutcome { key, outcome: AuthOutcome::Accept(Accepted::default()) });
                    acknowledged.recv().unwrap();
                }
            })
        })
        .collect();
    let mut events = Events::with_capacity(4);
    let mut left = SENDERS * ROUNDS;
    let mut expected = [0; SENDERS as usize];
    while left > 0 {
        if receiver.may_sleep() {
            poll.poll(&mut events, None).unwrap();
        }
        receiver.awake();
        // A bound of one message per turn exercises the rest that stays behind.
        let Some(message) = receiver.next() else { continue };
        let ToShard::AuthOutcome { key, .. } = message else { continue };
        let next = &mut expected[key.index as usize];
        assert_eq!(key.generation, *next, "messages of one sender keep their order");
        *next += 1;
        left -= 1;
        acknowledge[key.index as usize].send(()).unwrap();
    }
    for thread in threads {
        thread.join().unwrap();
    }
}

struct FailureSeen(Sender<ShardId>);

impl Observer for FailureSeen {
    fn log(&self, _: &Occasion<'_>) {}

    fn shard_failed(&self, shard: ShardId) {
        self.0.send(shard).unwrap();
    }
}

#[test]
fn a_panicking_shard_is_reported_at_once_and_when_stopping() {
    let (failed, failures) = channel();
    let mut settings = NodeSettings::new("127.0.0.1:0".parse().unwrap());
    settings.shards = 2;
    settings.observer = Arc::new(FailureSeen(failed));
    let node = Node::start(settings).unwrap();
    node.handle().inboxes()[1].send(ToShard::Admin(Admin::Panic));
    assert_eq!(failures.recv(), Ok(ShardId(1)));
    assert_eq!(node.handle().report().unwrap_err().shard, ShardId(1));
    let stopped = node.stop(std::time::Duration::from_secs(60));
    assert_eq!((stopped.drained, stopped.failed), (false, vec![ShardId(1)]));
}
