//! A shard's half of the links: it sends its batches and receives the batches of other nodes and the rosters, both in
//! one order.

use std::collections::VecDeque;
use std::sync::Arc;

use mio::Token;
use tidegate_engine::{Batch, Durability, Millis, Now, Roster, ShardId, WireError};

use crate::cluster::{AttachedLinks, LinksSender, PeerNews, PeerSeat, RosterOrder, SharedLinks, ToLinks};
use crate::flight::FlightEvent;
use crate::shard::LINKS;
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

/// A shard's state about the other nodes.
#[derive(Debug)]
pub(crate) struct ClusterShard {
    links: LinksSender,
    roster: Roster,
    seats: Arc<[PeerSeat]>,
    /// Whether batches wait for commits at all, where there is a store.
    commits: bool,
    held: VecDeque<Held>,
    /// The links, where this shard works them in its turns.
    attached: Option<AttachedLinks>,
    /// An outbox was filled since the links were worked or woken last.
    unannounced: bool,
    /// The roster for which this shard has yet to report that all nodes know its interest.
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
            attached: None,
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

    /// Writes all that was put into outboxes, or wakes the thread of the links once for it.
    fn announce(&mut self, now: Now) {
        if std::mem::take(&mut self.unannounced) {
            match &self.attached {
                Some(attached) => attached.write(now),
                None => self.links.wake(),
            }
        }
    }
}

impl PeerCalls<'_> {
    /// Hands over the batches for shards of other nodes. `submitted` is the last batch of the journal that was given to
    /// the store in this turn, if its commit is awaited.
    ///
    /// A batch that promises an effect must not leave before the commit of that effect. The engine itself keeps answers
    /// back, and marks a batch that may carry such a promise. The mark does not say which shard wrote the effect. So a
    /// marked batch waits while any write is uncommitted, and then for a batch of this shard's journal that comes after
    /// these writes in the store's one order. Later batches for the same shard keep their place. All others leave at
    /// once.
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

    /// All batches of the journal up to this one are committed. The released batches leave at the end of the turn.
    pub(crate) fn release_to_nodes(&mut self, committed: u64) {
        let Some(cluster) = &mut self.shard.cluster else { return };
        while cluster.held.front().is_some_and(|held| held.until <= committed)
            && let Some(Held { seat, seats, batch, .. }) = cluster.held.pop_front()
        {
            cluster.push(&seats, seat, &batch);
        }
    }

    /// Works the links in this shard's turns from now on.
    pub(crate) fn attach_links(&mut self, links: Arc<SharedLinks>) {
        let Some(cluster) = &mut self.shard.cluster else { return };
        match AttachedLinks::attach(links, &cluster.links, self.shard.poll.registry(), LINKS) {
            Ok(attached) => cluster.attached = Some(attached),
            Err(error) => tracing::warn!(%error, "the links to other nodes stay with their own thread"),
        }
    }

    /// The poller reports an event; returns whether it is one of the links.
    pub(crate) fn take_links_readiness(&mut self, token: Token) -> bool {
        if token == LINKS
            && let Some(attached) = self.shard.cluster.as_mut().and_then(|cluster| cluster.attached.as_mut())
        {
            attached.note_event();
        }
        token == LINKS
    }

    /// Takes the batches of other nodes into the inbox, where this shard works the links.
    pub(crate) fn work_links(&mut self) {
        if let Some(attached) = self.shard.cluster.as_mut().and_then(|cluster| cluster.attached.as_mut()) {
            attached.begin_turn(self.shard.now.monotonic);
        }
    }

    /// When the links need this shard, which would sleep: 0 for at once.
    pub(crate) fn rest_links(&mut self) -> Millis {
        let attached = self.shard.cluster.as_mut().and_then(|cluster| cluster.attached.as_mut());
        attached.map_or(Millis::NEVER, AttachedLinks::rest)
    }

    /// Has the filled outboxes written.
    pub(crate) fn announce_to_nodes(&mut self) {
        if let Some(cluster) = &mut self.shard.cluster {
            cluster.announce(self.shard.now);
        }
    }

    /// Takes a batch of another shard, or of a shard of another node. Returns the rest, which is for the next
    /// turn.
    pub(crate) fn take_batch(&mut self, batch: Batch) -> Option<Batch> {
        let from = batch.from;
        if from.0 < self.shard.place.shards {
            let taken = self.shard.engine.cluster().handle_batch(self.shard.now, batch);
            debug_assert!(taken.is_ok(), "both ends are this process");
            return taken.ok().flatten();
        }
        let cluster = self.shard.cluster.as_ref().filter(|cluster| cluster.roster.has(from))?;
        let links = cluster.links.clone();
        match self.shard.engine.cluster().handle_batch(self.shard.now, batch) {
            Ok(rest) => rest,
            Err(error) => {
                self.break_link(&links, from, error);
                None
            }
        }
    }

    /// A node has sent an unreadable frame: its session ends.
    fn break_link(&self, links: &LinksSender, from: ShardId, error: WireError) {
        tracing::error!(shard = self.shard.place.shard.0, %error, "another node sent unreadable records");
        links.send(ToLinks::Broken { slot: from, error });
    }

    /// Puts a roster in force. It comes by the inbox, after the last batch of leaving nodes and before the first of
    /// arriving ones.
    pub(crate) fn set_roster(&mut self, order: RosterOrder) {
        // The batches gathered for leaving shards go to their present addresses.
        self.shard.send_batches();
        self.shard.engine.cluster().set_roster(self.shard.now, order.roster.clone());
        let Some(cluster) = &mut self.shard.cluster else { return };
        cluster.roster = order.roster;
        cluster.seats = order.seats;
        cluster.settling = Some(order.number);
        // The records that the new roster has caused go to the other shards before the notice that this one has it: a
        // number is not reused as long as a shard may still send records about its former owner.
        self.shard.take_events();
        self.shard.send_batches();
        if let Some(cluster) = &self.shard.cluster {
            cluster.links.send(ToLinks::HasRoster { shard: self.shard.place.shard, number: order.number });
        }
    }

    /// Reports when the other nodes know the interest of this shard.
    pub(crate) fn tell_settled_with_nodes(&mut self) {
        let settled = self.shard.engine.questions().is_known_to_nodes();
        if let Some(cluster) = self.shard.cluster.as_mut().filter(|_| settled)
            && let Some(number) = cluster.settling.take()
        {
            cluster.links.send(ToLinks::Settled { shard: self.shard.place.shard, number });
        }
    }

    /// Records the arrival or departure of a node.
    pub(crate) fn record_peer_news(&mut self, news: &PeerNews) {
        let event = FlightEvent::new(self.shard.now.unix, self.shard.place.shard, news.kind);
        self.shard.flight.record(self.shard.now, event.address(Some(news.address)).detail(&news.detail));
    }
}
