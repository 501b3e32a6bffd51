//! The ends of long queues go to the store of the new home ahead of their sessions.

use tidegate_engine::{LongQueue, Partitions, PieceTaken, SentAhead};

use super::Net;

/// Bytes of a piece, so that queues have several.
const PIECE: usize = 2_000;

/// A key and its value in a store.
type Pair = (Vec<u8>, Vec<u8>);

impl Net {
    /// Sends the ends of queues ahead for the next move, or the present one. Returns the number of messages.
    pub(crate) fn send_ahead(&mut self, from: usize, to: usize, partitions: Partitions, transfer: u64) -> usize {
        let queues = self.on_node(from, |engine, _| engine.moves().long_queues(partitions));
        let queues: Vec<LongQueue> = queues.into_iter().flatten().collect();
        if queues.is_empty() || !self.nodes.lives(to) {
            return 0;
        }
        // The store has all that they name when its batches are committed.
        self.nodes.engines_of(from).for_each(|engine| self.write_journal(engine));
        self.commit_all_of(from);
        let (mut sent, mut messages) = (Vec::new(), 0);
        for queue in queues {
            let of = (transfer, queue.session);
            let before = self.sent_ahead.get(&of).copied().unwrap_or_default();
            let mut last = before;
            while last < queue.last {
                let (pairs, ends) = self.pairs_behind(from, &queue, last);
                let (piece, reached) = queue.piece(transfer, &pairs, ends).expect("messages of the queue");
                messages += pairs.len();
                let taken = self.on_node(to, |engine, now| engine.moves().take_ahead(now, &piece));
                assert_eq!(taken.iter().filter(|it| **it == Ok(PieceTaken::Written)).count(), 1, "{taken:?}");
                assert!(reached > last, "the queue ends at {}", queue.last);
                last = reached;
            }
            self.sent_ahead.insert(of, last);
            sent.push(SentAhead { transfer, partition: queue.partition, session: queue.session, last });
        }
        self.nodes.engines_of(to).for_each(|engine| self.write_journal(engine));
        self.trace.note(format!("{messages} messages go ahead from node {from} to node {to}: {sent:?}"));
        self.on_node(from, |engine, _| engine.moves().note_sent_ahead(&sent));
        messages
    }

    fn pairs_behind(&mut self, node: usize, queue: &LongQueue, number: u64) -> (Vec<Pair>, bool) {
        let (from, to) = queue.keys_behind(number).expect("a stored session");
        let (mut pairs, mut bytes) = (Vec::new(), 0);
        for (key, value) in self.store.pairs_of_mut(node).range(from..to) {
            if bytes > PIECE {
                return (pairs, false);
            }
            bytes += key.len() + value.len();
            pairs.push((key.clone(), value.clone()));
        }
        (pairs, true)
    }
}
