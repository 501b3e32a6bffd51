//! A shard's half of the links: its batches go out, those of other nodes come in, and rosters come by the same way.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_engine::{Batch, Durability, Roster, ShardId, WireError};

use crate::cluster::{LinksSender, PeerNews, PeerSeat, RosterOrder, ToLinks};
use crate::flight::FlightEvent;
use crate::shard::facets::PeerCalls;

/// A batch that has to wait for a commit.
#[derive(Debug)]
struct Held {
    /// The last batch of the journal that it must not overtake.
    until: u64,
    seat: usize,
    seats: Arc<[PeerSeat]>,
    batch: Batch,
}

/// What a shard knows of the other nodes.
#[derive(Debug)]
pub(crate) struct ClusterShard {
    links: LinksSender,
    roster: Roster,
    seats: Arc<[PeerSeat]>,
    /// Whether batches wait for commits at all, where there is a store.
    commits: bool,
    held: VecDeque<Held>,
    /// Something was put before the thread of the links that it has not been woken for.
    unannounced: bool,
    /// The roster of which it is still to be told that everybody knows what is wanted here.
    settling: Option<u64>,
}

impl ClusterShard {
    pub(crate) fn new(links: LinksSender, alone: Roster, durability: Durability) -> Self {
        Self {
            links,
            roster: alone,
            seats: Arc::new([]),
            commits: durability == Durability::Commit,
            held: VecDeque::new(),
            unannounced: false,
            settling: None,
        }
    }

    /// Whether something for this shard waits for a commit.
    fn holds_for(&self, slot: ShardId) -> bool {
        self.held.iter().any(|held| held.seats.get(held.seat).is_some_and(|seat| seat.slot == slot))
    }

    fn push(&mut self, seats: &[PeerSeat], at: usize, batch: &Batch) {
        if let Some(seat) = seats.get(at) {
            seat.outbox.push(seat.number, batch);
            self.unannounced = true;
        }
    }

    /// Wakes the thread of the links once for all that was put before it.
    fn announce(&mut self) {
        if std::mem::take(&mut self.unannounced) {
            self.links.wake();
        }
    }
}

impl PeerCalls<'_> {
    /// Hands over what was gathered for shards of other nodes. `submitted` is the last batch of the journal that was
    /// given to the store in this turn.
    ///
    /// What promises something must not leave before the commit that holds it. The engine keeps answers back by itself;
    /// a batch that may carry what this node must remember having sent says so. It does not say whose promise that is:
    /// another shard of this node may have written it. So such a batch waits as long as anything is uncommitted, and
    /// then for a batch of this shard's journal that stands behind all of that in the store's one order. What comes
    /// behind it for the same shard keeps its place. All else leaves at once.
    pub(crate) fn send_to_nodes(&mut self, submitted: Option<u64>) {
        let Some(cluster) = &mut self.shard.cluster else { return };
        let seats = Arc::clone(&cluster.seats);
        for (at, seat) in seats.iter().enumerate() {
            let Some(batch) = self.shard.engine.take_batch(seat.slot) else { continue };
            let journal = self.shard.journal.as_ref().filter(|_| cluster.commits);
            let uncommitted = journal.is_some_and(|journal| journal.status.pending_bytes() > 0);
            let waits = batch.promises() && (uncommitted || submitted.is_some());
            if !waits && !cluster.holds_for(seat.slot) {
                cluster.push(&seats, at, &batch);
                continue;
            }
            match submitted.or_else(|| self.shard.engine.moves().written_batch()).filter(|_| journal.is_some()) {
                Some(until) => cluster.held.push_back(Held { until, seat: at, seats: Arc::clone(&seats), batch }),
                None => cluster.push(&seats, at, &batch),
            }
        }
    }

    /// All batches of the journal up to this one are committed.
    pub(crate) fn release_to_nodes(&mut self, committed: u64) {
        let Some(cluster) = &mut self.shard.cluster else { return };
        while cluster.held.front().is_some_and(|held| held.until <= committed)
            && let Some(Held { seat, seats, batch, .. }) = cluster.held.pop_front()
        {
            cluster.push(&seats, seat, &batch);
        }
        cluster.announce();
    }

    /// Wakes the thread of the links for what was put before it.
    pub(crate) fn announce_to_nodes(&mut self) {
        if let Some(cluster) = &mut self.shard.cluster {
            cluster.announce();
        }
    }

    /// Takes a batch of another shard, or of a shard of another node.
    pub(crate) fn take_batch(&mut self, batch: Batch) {
        let from = batch.from;
        if from.0 < self.shard.place.shards {
            let whole = self.shard.engine.cluster().handle_batch(self.shard.now, batch);
            debug_assert!(whole.is_ok(), "both ends are this process");
            return;
        }
        let Some(cluster) = self.shard.cluster.as_ref().filter(|cluster| cluster.roster.has(from)) else { return };
        let links = cluster.links.clone();
        if let Err(error) = self.shard.engine.cluster().handle_batch(self.shard.now, batch) {
            self.break_link(&links, from, error);
        }
    }

    /// A node has sent what cannot be read: its session ends.
    fn break_link(&self, links: &LinksSender, from: ShardId, error: WireError) {
        tracing::error!(shard = self.shard.place.shard.0, %error, "another node sent unreadable records");
        links.send(ToLinks::Broken { slot: from, error });
    }

    /// Puts a roster in force. It comes by the inbox, behind the last batch of who leaves and before the first of who
    /// comes.
    pub(crate) fn set_roster(&mut self, order: RosterOrder) {
        // All that was gathered for those who leave goes to where they were.
        self.shard.send_batches();
        self.shard.engine.cluster().set_roster(self.shard.now, order.roster.clone());
        let Some(cluster) = &mut self.shard.cluster else { return };
        cluster.roster = order.roster;
        cluster.seats = order.seats;
        cluster.settling = Some(order.number);
        // What the new roster has caused goes to the other shards before they hear that this one has it: a number is
        // not given to anybody else as long as one of them may still speak of whoever had it.
        self.shard.take_events();
        self.shard.send_batches();
        if let Some(cluster) = &self.shard.cluster {
            cluster.links.send(ToLinks::Heard { shard: self.shard.place.shard, number: order.number });
        }
    }

    /// Tells when the other nodes know what is wanted here.
    pub(crate) fn tell_settled_with_nodes(&mut self) {
        let settled = self.shard.engine.questions().is_known_to_nodes();
        if let Some(cluster) = self.shard.cluster.as_mut().filter(|_| settled)
            && let Some(number) = cluster.settling.take()
        {
            cluster.links.send(ToLinks::Settled { shard: self.shard.place.shard, number });
        }
    }

    /// Remembers that a node came or went.
    pub(crate) fn record_peer_news(&mut self, news: &PeerNews) {
        let event = FlightEvent::new(self.shard.now.unix, self.shard.place.shard, news.kind);
        self.shard.flight.record(self.shard.now, event.address(Some(news.address)).detail(&news.detail));
    }
}
