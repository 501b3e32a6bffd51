//! The shard that deals the messages published here, while the homes of groups change.
//!
//! A table reaches each shard at another moment, and so do its members the new home. So no shard acts on the table alone:
//! a shard whose table has a new home gives its members seats there and says when it has done so. The new home says
//! that it is ready when every shard has. Only then does a shard have its messages dealt there, which it says to both
//! homes in line with its messages. So for each shard there is one dealer at any time, and it knows all members. The
//! old home deals for the shards that have yet to change, and forgets its groups when no shard is left.
//!
//! When the old home is gone, no shard deals until the new one is ready: publishers of messages for these groups wait. When
//! the home is out of reach, each shard of this process with members deals for its own, until the home is ready
//! again.

use crate::cluster::exchanges::Exchanges;
use crate::groups::Groups;
use crate::ids::{ConnectionKey, MAX_SHARDS, PARTITIONS, PartitionId, Partitions, ShardId, ShardPosition};
use crate::link::Links;
use crate::link::dealing_word::DealingWord;
use crate::link::envelope::Ticket;
use crate::link::exchange_word::ExchangeName;
use crate::link::record::Record;
use crate::roster::Roster;
use crate::state::ShardState;
use std::collections::BTreeSet;

/// The dealer of each partition, as one shard sees it.
#[derive(Debug)]
pub(crate) struct Dealers {
    pub(crate) own: ShardId,
    /// The shard that deals the messages published here.
    pub(crate) by_partition: [ShardId; PARTITIONS as usize],
    /// The partitions dealt by this shard, and those dealt by any shard of this process.
    pub(crate) of_shard: Partitions,
    pub(crate) of_process: Partitions,
    /// Partitions dealt by every shard that has members.
    pub(crate) open: Partitions,
    /// Partitions whose dealer or home is gone, and whose next one is not ready.
    pub(crate) unready: Partitions,
    /// Partitions whose home this shard is, with all members known.
    pub(crate) complete: Partitions,
    /// Partitions whose home is at another node, within reach and serving.
    pub(crate) at_others: Partitions,
    /// By number, up to the last known shard.
    pub(crate) others: Vec<Other>,
    /// Publishers that wait until all receivers are known.
    pub(crate) waiting: BTreeSet<ConnectionKey>,
    /// Joins that wait until all shards have changed.
    pub(crate) late_joins: Vec<LateJoin>,
}

/// Another shard.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Other {
    /// Partitions for which we notified this shard that it does not deal the messages published here.
    notified_elsewhere: Partitions,
    /// Partitions whose home is this shard, as far as it was notified.
    pub(crate) notified_seats: Partitions,
    pub(crate) notified_round: u32,
    /// Whether it still waits for the notice that all members of this shard have their seats.
    pub(crate) seats_notice_due: bool,
    /// Its messages are dealt elsewhere.
    pub(crate) elsewhere: Partitions,
    /// Partitions that it considers to be at home here.
    pub(crate) claims: Partitions,
    /// Partitions for which its members have all their seats here.
    pub(crate) seated: Partitions,
    pub(crate) round: u32,
    /// And has received the notice that this shard is ready.
    pub(crate) answered: Partitions,
}

/// A join that waits until this shard deals the messages of all shards, or no longer deals those from the member's
/// shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LateJoin {
    pub(crate) partition: PartitionId,
    /// The member's shard.
    pub(crate) from: ShardId,
    /// The ticket of its confirmation.
    pub(crate) ticket: Ticket,
}

impl Dealers {
    /// The dealers of a process outside a cluster.
    pub(crate) fn new(place: ShardPosition) -> Self {
        // A process begins with all of this, so each shard's partitions are looked up once.
        let mut of_shards = vec![Partitions::NONE; usize::from(place.shards)];
        let by_partition = std::array::from_fn(|at| {
            let shard = place.home_of(PartitionId(at as u16));
            if let Some(its) = of_shards.get_mut(usize::from(shard.0)) {
                its.add(PartitionId(at as u16));
            }
            shard
        });
        let own = of_shards.get(usize::from(place.shard.0)).copied().unwrap_or_default();
        let other = |its: &Partitions| Other {
            notified_elsewhere: Partitions::ALL.without(*its),
            notified_seats: *its,
            elsewhere: Partitions::ALL.without(own),
            claims: own,
            seated: own,
            answered: own,
            ..Other::default()
        };
        Self {
            own: place.shard,
            by_partition,
            of_shard: own,
            of_process: Partitions::ALL,
            open: Partitions::NONE,
            unready: Partitions::NONE,
            complete: own,
            at_others: Partitions::NONE,
            others: of_shards.iter().map(other).collect(),
            waiting: BTreeSet::new(),
            late_joins: Vec::new(),
        }
    }

    pub(crate) fn other(&mut self, shard: ShardId) -> Option<&mut Other> {
        let at = usize::from(shard.0);
        if at >= self.others.len() && shard.0 < MAX_SHARDS {
            self.others.resize(at + 1, Other::default());
        }
        self.others.get_mut(at)
    }

    /// Another shard, if it is known.
    pub(crate) fn known(&self, shard: ShardId) -> Other {
        self.others.get(usize::from(shard.0)).copied().unwrap_or_default()
    }

    /// The shard that deals for a partition from now on.
    pub(crate) fn set_dealer(&mut self, roster: &Roster, partition: PartitionId, dealer: ShardId) {
        let Some(at) = self.by_partition.get_mut(usize::from(partition.0)) else { return };
        *at = dealer;
        let put = |set: &mut Partitions, is_in| if is_in { set.add(partition) } else { set.remove(partition) };
        put(&mut self.of_shard, dealer == self.own);
        put(&mut self.of_process, roster.is_own(dealer));
    }

    /// The shard that deals the messages published here.
    pub(crate) fn dealer_of(&self, partition: PartitionId) -> ShardId {
        self.by_partition.get(usize::from(partition.0)).copied().unwrap_or(self.own)
    }

    /// Whether this shard deals the messages published at a shard.
    #[inline]
    pub(crate) fn deals_for(&self, shard: ShardId, partition: PartitionId) -> bool {
        if shard == self.own {
            return self.open.has(partition) || self.dealer_of(partition) == self.own;
        }
        self.others.get(usize::from(shard.0)).is_none_or(|other| !other.elsewhere.has(partition))
    }

    /// Partitions for which this shard deals the messages published at a shard.
    pub(crate) fn all_dealt_for(&self, shard: ShardId) -> Partitions {
        if shard == self.own {
            return self.open.with(self.of_shard);
        }
        Partitions::ALL.without(self.known(shard).elsewhere)
    }

    /// Partitions for which this process deals the messages published here.
    pub(crate) fn dealt_by_process(&self) -> Partitions {
        self.open.with(self.of_process)
    }

    /// Whether this shard is the home of a partition and knows all members.
    pub(crate) fn is_complete(&self, partition: PartitionId) -> bool {
        self.complete.has(partition)
    }

    /// Whether all live members have seats here, or will have them elsewhere. A shard that replaces the home deals to
    /// the members that it knows.
    pub(super) fn knows_members(&self, roster: &Roster, partition: PartitionId) -> bool {
        if roster.home_of(partition) == self.own {
            return roster.is_substitute_for(partition) || self.is_complete(partition);
        }
        !self.others.iter().any(|other| other.claims.has(partition))
    }

    /// Whether there is a partition whose dealer or home is gone, and whose next one is not ready.
    pub(crate) fn miss_any(&self) -> bool {
        !self.unready.is_empty()
    }

    /// Notices to and from a shard of another node are no longer valid.
    fn forget(&mut self, peer: ShardId) {
        if let Some(other) = self.other(peer) {
            *other = Other::default();
        }
    }

    /// A table is in force. `taken` are partitions whose homes are known again.
    fn follow(&mut self, old: &Roster, new: &Roster, taken: Partitions) {
        self.at_others = Partitions::that(|it| !new.is_own(new.home_of(it)) && !new.lacks_home(it));
        for partition in PartitionId::all() {
            let (dealer, home) = (self.dealer_of(partition), new.home_of(partition));
            let mut next = dealer;
            if new.is_substitute_for(partition) && new.misses(partition) && new.has(dealer) {
                // The home that is gone did not deal for this shard yet: the present dealer continues until there is another
                // home.
            } else if new.is_substitute_for(partition) {
                next = home;
                self.open.add(partition);
                if !new.misses(partition) {
                    self.unready.remove(partition);
                } else if !new.has(dealer) {
                    self.unready.add(partition);
                }
            } else if self.open.has(partition) || home == dealer {
                // It changes when the home is ready, or not at all.
            } else if !new.has(dealer) {
                next = home;
                self.unready.add(partition);
            } else if new.is_own(dealer) && !old.has(home) && !old.is_substitute_for(partition) {
                // This process was alone.
                self.open.add(partition);
            }
            self.set_dealer(new, partition, next);
            if taken.has(partition) && !new.is_substitute_for(partition) {
                // Its new home may still be sending its subscriptions.
                self.unready.add(partition);
            }
        }
    }

    /// Partitions whose groups are dealt elsewhere for every shard.
    pub(crate) fn dealt_by_others(&self, roster: &Roster) -> Partitions {
        let own = roster.at_home(self.own).with(self.all_dealt_for(self.own));
        let others = roster.others().into_iter().map(|shard| self.known(shard));
        others.fold(Partitions::ALL.without(own), |all, other| all.among(other.elsewhere.without(other.claims)))
    }
}

impl Groups {
    /// A table has come: begins to announce the dealers. Members take their seats next. `decided` are the partitions that
    /// it reports as moved, or not moved, to a node that is gone.
    pub(crate) fn begin_dealer_change(
        &mut self,
        state: &ShardState,
        links: &mut Links,
        old: &Roster,
        decided: Partitions,
    ) {
        for peer in old.peers().without(links.roster.peers()) {
            self.dealers.forget(peer);
        }
        for peer in links.roster.peers().without(old.peers()) {
            self.dealers.forget(peer);
        }
        let taken = old.missed_partitions().with(decided).without(links.roster.missed_partitions());
        self.dealers.follow(old, &links.roster, taken);
        for shard in links.roster.others() {
            let partitions = links.roster.at_home(shard);
            // A shard that has taken over a place answers again, behind all subscriptions there.
            let took = !partitions.among(taken).is_empty();
            let Some(other) = self.dealers.other(shard).filter(|it| took || it.notified_seats != partitions) else {
                continue;
            };
            let before = std::mem::replace(&mut other.notified_seats, partitions);
            other.notified_round = other.notified_round.wrapping_add(1);
            other.seats_notice_due = true;
            let round = other.notified_round;
            links.send_dealing(shard, DealingWord::Seats { partitions, round, all: false });
            state.exchanges.tell_dealt_before(links, shard, if took { partitions } else { partitions.without(before) });
        }
    }

    /// Notifies the next homes that a message of this name is dealt here to groups of these partitions.
    pub(crate) fn tell_next_homes(
        &mut self,
        state: &mut ShardState,
        links: &mut Links,
        name: ExchangeName,
        partitions: Partitions,
    ) {
        let (own, roster) = (links.place.shard, &links.roster);
        let stays = |partition| roster.home_of(partition) == own && !state.transfers.leaves(partition);
        let with_groups: Partitions = self.dealt.iter().map(|(_, group)| group.partition).collect();
        let partitions = partitions.among(with_groups).filtered(|partition| !stays(partition));
        links.tell_homes(state, name, partitions);
    }

    /// Notifies the shards that no longer deal the messages published here.
    pub(crate) fn tell_elsewhere(&mut self, links: &mut Links) {
        for shard in links.roster.others() {
            let dealers = &self.dealers;
            let partitions = Partitions::that(|partition| dealers.dealer_of(partition) != shard).without(dealers.open);
            let Some(other) = self.dealers.other(shard) else { continue };
            if std::mem::replace(&mut other.notified_elsewhere, partitions) != partitions {
                links.send_dealing(shard, DealingWord::Elsewhere { partitions });
            }
        }
    }

    /// A shard for which this one neither deals nor is the home tells it of no member that leaves. So its members keep
    /// no seats here for the case that this shard is the home once more before it has forgotten the group.
    pub(crate) fn unseat_those_elsewhere(&mut self, peer: ShardId) {
        let Some(other) = self.dealers.other(peer) else { return };
        let partitions = other.elsewhere.without(other.claims);
        self.unseat(peer, partitions);
    }

    /// The shards where the members of a group have seats: its home, and the present dealer.
    pub(crate) fn tables_of(&self, roster: &Roster, partition: PartitionId) -> impl Iterator<Item = ShardId> + use<> {
        let (home, dealer) = (roster.home_of(partition), self.dealers.dealer_of(partition));
        let dealer = Some(dealer).filter(|dealer| *dealer != home && roster.has(*dealer));
        std::iter::once(home).chain(dealer)
    }
}

impl Exchanges {
    /// A shard becomes the home of partitions: sends it the names of the messages dealt to their groups here, before the notice
    /// that all members have their seats and it deals. A home notified before may be dead.
    fn tell_dealt_before(&self, links: &mut Links, home: ShardId, partitions: Partitions) {
        let all: Vec<_> = self.marks.dealt_to(partitions).collect();
        for (name, partitions) in all {
            links.send_dealing(home, DealingWord::Dealt { name, partitions });
        }
    }
}

impl Links {
    pub(crate) fn send_dealing(&mut self, shard: ShardId, word: DealingWord) {
        self.send(shard, Record::Dealing(Box::new(word)));
    }

    /// Notifies the homes of these partitions, and the next homes of moving ones, that a message of this name was dealt to
    /// their groups.
    pub(crate) fn tell_homes(&mut self, state: &mut ShardState, name: ExchangeName, partitions: Partitions) {
        let own = self.place.shard;
        let transfers = &mut state.transfers;
        let mut next: Vec<(ShardId, Partitions)> = Vec::new();
        for partition in partitions.iter() {
            let home = transfers.new_home(partition).unwrap_or_else(|| self.roster.home_of(partition));
            if home == own {
                // Its images may have been given out: then this follows with the later messages.
                transfers.note_dealt(partition, name);
                continue;
            }
            match next.iter_mut().find(|(shard, _)| *shard == home) {
                Some((_, those)) => those.add(partition),
                None => next.push((home, Partitions::of(partition))),
            }
        }
        for (home, partitions) in next {
            self.send_dealing(home, DealingWord::Dealt { name, partitions });
        }
    }
}

impl super::Groups {
    /// Whether this shard deals the messages of another shard to a group.
    #[inline]
    pub(crate) fn deals_for(&self, shard: ShardId, key: crate::topics::GroupKey) -> bool {
        self.dealt.get(key.0).is_some_and(|group| self.dealers.deals_for(shard, group.partition))
    }
}
