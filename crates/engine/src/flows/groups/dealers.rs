//! Shared groups get another dealer.

use crate::flows::contexts::Peering;
use crate::flows::contexts::Subscribing;
use crate::flows::contexts::answering;
use crate::flows::contexts::subscribing;
use crate::ids::{Partitions, ShardId, TenantId};
use crate::link::dealing_word::DealingWord;
use crate::link::got::Got;
use crate::now::Now;

impl Peering<'_> {
    /// All members of this shard have taken their seats.
    pub(crate) fn finish_dealer_change(&mut self, now: Now) {
        for shard in self.links.roster.others() {
            let Some(other) = self.groups.dealers.other(shard) else { continue };
            if std::mem::take(&mut other.seats_notice_due) {
                let (partitions, round) = (other.notified_seats, other.notified_round);
                self.links.send_dealing(shard, DealingWord::Seats { partitions, round, all: true });
            }
        }
        self.groups.tell_elsewhere(self.links);
        self.become_ready(now);
        subscribing!(self).drop_groups_dealt_elsewhere(now);
        answering!(self).confirm_late_joins(now);
    }

    /// Takes a word about dealing.
    pub(crate) fn handle_dealing(&mut self, now: Now, from: ShardId, word: DealingWord) -> bool {
        if let DealingWord::Dealt { name, partitions } = word {
            let got = Got { groups: partitions, ..Got::EMPTY };
            self.state.exchanges.put_mark(self.links.place, &mut self.state.journal, name, got);
            return false;
        }
        let Some(other) = self.groups.dealers.other(from) else { return false };
        match word {
            DealingWord::Elsewhere { partitions } => {
                other.elsewhere = partitions;
                self.groups.unseat_those_elsewhere(from);
                subscribing!(self).drop_groups_dealt_elsewhere(now);
                answering!(self).confirm_late_joins(now);
                false
            }
            DealingWord::Seats { partitions, round, all } => {
                other.seated = if all { partitions } else { other.seated.among(other.claims).among(partitions) };
                (other.claims, other.round, other.answered) = (partitions, round, Partitions::NONE);
                self.groups.unseat_those_elsewhere(from);
                let changed = self.become_ready(now);
                subscribing!(self).drop_groups_dealt_elsewhere(now);
                changed
            }
            DealingWord::Ready { partitions, round } => {
                round == other.notified_round && self.deal_at(now, from, partitions)
            }
            DealingWord::Dealt { .. } => false,
        }
    }

    /// Reports to the waiting shards that this shard knows all members of groups.
    fn become_ready(&mut self, now: Now) -> bool {
        let (roster, dealers) = (&self.links.roster, &self.groups.dealers);
        let own = roster.at_home(dealers.own).filtered(|partition| !roster.is_substitute_for(partition));
        let others = roster.others().into_iter().map(|shard| dealers.known(shard));
        let complete = others.fold(own, |all, other| all.among(other.seated));
        let before = std::mem::replace(&mut self.groups.dealers.complete, complete);
        for shard in self.links.roster.others() {
            let Some(other) = self.groups.dealers.other(shard) else { continue };
            let partitions = complete.among(other.seated).without(other.answered);
            if !partitions.is_empty() {
                other.answered = other.answered.with(partitions);
                let round = other.round;
                self.links.send_dealing(shard, DealingWord::Ready { partitions, round });
            }
        }
        let changed = self.deal_at(now, self.links.place.shard, complete);
        if !complete.without(before).is_empty() {
            subscribing!(self).remove_forsaken_groups(now);
        }
        changed
    }

    /// The home of partitions knows all members: from now on it deals the messages published here.
    fn deal_at(&mut self, now: Now, home: ShardId, partitions: Partitions) -> bool {
        let roster = &self.links.roster;
        let dealers = &mut self.groups.dealers;
        let partitions = partitions.filtered(|partition| roster.home_of(partition) == home);
        let known = partitions.iter().all(|partition| dealers.dealer_of(partition) == home);
        if known && partitions.among(dealers.open.with(dealers.unready)).is_empty() {
            return false;
        }
        for partition in partitions.iter() {
            dealers.set_dealer(roster, partition, home);
        }
        dealers.open = dealers.open.without(partitions);
        dealers.unready = dealers.unready.without(partitions);
        self.groups.tell_elsewhere(self.links);
        subscribing!(self).drop_groups_dealt_elsewhere(now);
        answering!(self).confirm_late_joins(now);
        true
    }
}

impl Subscribing<'_> {
    /// Forgets groups that this shard has dealt for, when no shard's messages are dealt here any more.
    pub(crate) fn drop_groups_dealt_elsewhere(&mut self, now: Now) {
        let dropped = self.groups.dealers.dealt_by_others(&self.links.roster);
        let groups = self.groups.dealt.iter();
        let (state, roster) = (&*self.state, &self.links.roster);
        let stays = |partition| state.departures.keep(roster, state.moving, partition);
        let is_dropped = |partition| dropped.has(partition) && !stays(partition);
        let of_those = groups.filter(|(_, group)| is_dropped(group.partition));
        let names: Vec<(TenantId, Box<str>, Box<str>)> =
            of_those.map(|(_, group)| (group.tenant, group.share.clone(), group.filter.clone())).collect();
        for (tenant, share, filter) in names {
            self.remove_group(now, crate::link::record::GroupName { tenant, share: &share, filter: &filter });
        }
    }
}
