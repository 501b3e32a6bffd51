//! QoS 2 messages of other nodes that are passed to the next home of their group.
//!
//! While the homes of groups change, a former home still receives messages to deal. It may have no partition left: no
//! node reads its store if it is killed then, and no node learns which messages it has dealt. So it deals no QoS 2 message
//! of another node. It passes the message to the next home, and confirms it when that home has it. The publisher of an
//! unconfirmed message sends it again, to the next home, which knows the message by its id: each shard derives the same
//! id from the name of the exchange and from the group. The message is in no store here.

use super::{Deal, Doubt, Kept};
use crate::durable::Way;
use crate::events::reason::Reason;
use crate::groups::Groups;
use crate::hash::hash_bytes;
use crate::ids::{PartitionId, Partitions, ShardId};
use crate::link::Links;
use crate::link::envelope::Ticket;
use crate::link::exchange_word::ExchangeName;
use crate::link::promised::Promised;
use crate::message::Publication;
use crate::now::Now;
use crate::state::ShardState;
use crate::topics::GroupKey;
use std::collections::BTreeMap;

/// Confirmations of messages that were passed on.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    made: u64,
    /// The numbers of the confirmations that wait for a message, by its id.
    waiting: BTreeMap<u64, Vec<u64>>,
    open: BTreeMap<u64, Open>,
    /// Ids that the present message waits for.
    present: Vec<u64>,
    ready: Vec<(ShardId, Promised)>,
}

/// A confirmation that a shard of another node waits for.
#[derive(Debug)]
struct Open {
    origin: ShardId,
    ticket: Ticket,
    refused: Option<Reason>,
    /// Messages that it waits for.
    left: usize,
}

impl Passed {
    /// Whether the present message waits for a next home.
    #[inline]
    pub(crate) fn has_present(&self) -> bool {
        !self.present.is_empty()
    }

    /// A message is kept no more: the next home has it, or it has ended here.
    pub(super) fn end(&mut self, id: u64) {
        for number in self.waiting.remove(&id).unwrap_or_default() {
            let Some(open) = self.open.get_mut(&number) else { continue };
            open.left -= 1;
            if open.left == 0
                && let Some(Open { origin, ticket, refused, .. }) = self.open.remove(&number)
            {
                self.ready.push((origin, Promised::Confirm { ticket, refused }));
            }
        }
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn take_ready(&mut self) -> Vec<(ShardId, Promised)> {
        std::mem::take(&mut self.ready)
    }

    /// A shard of another node is gone: it waits for nothing.
    pub(crate) fn forget_origin(&mut self, origin: ShardId) {
        self.open.retain(|_, open| open.origin != origin);
        self.ready.retain(|(other, _)| *other != origin);
        let open = &self.open;
        self.waiting.retain(|_, numbers| {
            numbers.retain(|number| open.contains_key(number));
            !numbers.is_empty()
        });
    }
}

impl Kept {
    /// Keeps a message for the shard that it is passed to, in memory only: its publisher has no answer. Returns false if there is no
    /// room.
    pub(crate) fn keep_passed(
        &mut self,
        now: Now,
        state: &mut ShardState,
        publication: &mut Publication<'_>,
        (share, filter): (&str, &str),
        (home, id, name): (ShardId, u64, ExchangeName),
        hops: u8,
    ) -> bool {
        let message = publication.keep();
        if self.bytes + message.cost() > state.settings.limits.kept_deal_bytes {
            return false;
        }
        state.memory.held += message.cost();
        let (since, order, at, name) = (now.monotonic, self.added, Some(home), Some(name));
        let (share, filter, doubt) = (share.into(), filter.into(), Doubt::None);
        self.add(id, Deal { share, filter, message, at, client: 0, stored: 0, hops, doubt, name, since, order });
        self.passed.present.push(id);
        true
    }

    /// Whether the present message is kept already, and passed on. The confirmation to a shard of another node waits for
    /// the next home. The answer to a publisher of this node waits for the store.
    pub(crate) fn waits_for(&mut self, state: &mut ShardState, id: u64, is_foreign: bool) -> bool {
        let is_passed = self.deals.get(&id).is_some_and(|deal| deal.name.is_some());
        if is_passed && is_foreign {
            self.passed.present.push(id);
        } else if is_passed {
            self.store_passed(state, id);
        }
        is_passed
    }

    /// The confirmation of the present message waits for the next homes that do not have it yet. Without a ticket no node
    /// waits for it.
    pub(crate) fn hold(&mut self, origin: ShardId, ticket: Option<Ticket>, refused: Option<Reason>) {
        let ids = std::mem::take(&mut self.passed.present);
        let Some(ticket) = ticket else { return };
        let ids: Vec<u64> = ids.into_iter().filter(|id| self.has(*id)).collect();
        if ids.is_empty() {
            return self.passed.ready.push((origin, Promised::Confirm { ticket, refused }));
        }
        self.passed.made += 1;
        let number = self.passed.made;
        self.passed.open.insert(number, Open { origin, ticket, refused, left: ids.len() });
        for id in ids {
            self.passed.waiting.entry(id).or_default().push(number);
        }
    }

    /// Stores a message that is in memory only, since the shard that passed it here forgets it.
    pub(crate) fn store_passed(&mut self, state: &mut ShardState, id: u64) {
        let Some(deal) = self.deals.get_mut(&id).filter(|deal| deal.stored == 0 && state.journal.is_on()) else {
            return;
        };
        let way = Way::Deal { share: deal.share.clone(), filter: deal.filter.clone(), client: deal.client, id };
        deal.stored = state.journal.put_crossing(&deal.message.publication(), &way);
    }
}

impl Groups {
    /// The id under which a message of another node is passed on for a group: the same at each shard.
    pub(crate) fn id_of_exchange(&self, key: GroupKey, name: ExchangeName) -> u64 {
        let Some(group) = self.dealt.get(key.0) else { return 0 };
        let seed = hash_bytes(name.origin ^ u64::from(group.tenant.0), &name.number.to_le_bytes());
        hash_bytes(hash_bytes(seed, group.share.as_bytes()), group.filter.as_bytes()).max(1)
    }

    /// The partitions whose messages from a shard of another node are passed to the next homes. A home passes messages
    /// back while it takes this shard for the home, so it gets none then.
    pub(crate) fn passing(&self, links: &Links, from: ShardId) -> Partitions {
        let passing = self.dealers.all_dealt_for(from).among(self.dealers.at_others);
        if passing.is_empty() || !links.is_foreign(from) {
            return Partitions::NONE;
        }
        passing.filtered(|partition| self.next_home(links, partition).is_some())
    }

    /// The next home of the groups of a partition.
    pub(crate) fn next_home(&self, links: &Links, partition: PartitionId) -> Option<ShardId> {
        let home = links.roster.home_of(partition);
        let knows = links.is_foreign(home) && !self.dealers.known(home).claims.has(partition);
        (knows && self.dealers.at_others.has(partition)).then_some(home)
    }
}
