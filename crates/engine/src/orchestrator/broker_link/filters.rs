//! Each filter of this process once at each broker (BRK-24), however many clients and shards want it.

use super::Stage;
use super::asking::{Change, put_subscribe, put_unsubscribe};
use super::changes::{FilterChange, Replaced};
use super::copies::subscription_identifier;
use super::disjoint::Disjoint;
use super::ending::Ending;
use crate::ids::BrokerLinkKey;
use crate::ids::{ShardId, TenantId};
use crate::link::envelope::Ticket;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::Brokers;
use crate::settings::Settings;
use crate::settings::fleet_topics::at_brokers;
use crate::state::ShardState;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tidegate_mqtt::{PacketId, PacketType, ReasonCode, SubAck};

/// Packets that wait for their answer at once, under packet ids that no message of a broker link gets.
pub(crate) const PACKETS_UNDER_WAY: u16 = 8;

/// Filters remembered that an offline broker still holds; beyond it, the broker sends unwanted messages.
pub(crate) const GONE_MAX: usize = 100_000;

/// The filters of this process's clients, and the clients that wait until brokers have them.
#[derive(Debug, Default)]
pub(crate) struct WantedFilters {
    /// The shards that want a filter, one bit each.
    pub(super) filters: BTreeMap<Box<str>, u64>,
    /// The common filters that brokers are asked for instead which send a copy for each filter.
    pub(super) disjoint: Option<Disjoint>,
    pub(crate) waits: BTreeMap<u64, Waiter>,
    next_wait: u64,
    /// SUBACKs that wait until all waits up to one have ended, in order.
    pub(crate) behind: VecDeque<(u64, ShardId, Ticket)>,
    /// Waits that end with the packet at hand, since no broker has to be asked.
    pub(crate) decided: Vec<u64>,
}

/// A SUBACK that waits for the brokers.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) shard: ShardId,
    pub(crate) ticket: Ticket,
    /// Brokers that have not answered.
    pub(crate) left: u32,
    pub(crate) answers: FilterAnswers,
}

/// The answers of brokers for a filter with a waiting SUBACK.
#[derive(Debug)]
pub(crate) struct FilterAnswers {
    pub(crate) filter: Box<str>,
    /// Brokers that have the request.
    pub(super) asked: u32,
    /// Brokers that have refused it.
    pub(super) refused: u32,
    /// The code of the last answer.
    pub(crate) code: ReasonCode,
}

impl FilterAnswers {
    /// Whether all brokers have refused it. One that was lost meanwhile has not.
    pub(crate) fn is_refused(&self) -> bool {
        self.asked > 0 && self.refused >= self.asked
    }
}

impl WantedFilters {
    /// How many filters the clients of this process want.
    pub(crate) fn len(&self) -> usize {
        self.filters.len()
    }
}

/// How many times the time for a probe's answer a broker has to answer for filters: it may have to look up much that it
/// has kept.
pub(crate) const SUB_ACK_PROBES: u64 = 6;

/// Filters in one SUBSCRIBE or UNSUBSCRIBE packet.
const FILTERS_PER_PACKET: usize = 256;
/// Bytes of filters in one packet, but for a single filter of any length.
const FILTER_BYTES_PER_PACKET: usize = 16 * 1024;

/// After how long a broker is asked again for filters that it has refused, milliseconds.
const ASK_AGAIN_MS: u64 = 60_000;

/// The filters that one broker has.
#[derive(Debug)]
pub(crate) struct FilterSync {
    /// To be asked for, in order.
    pub(crate) queue: VecDeque<Change>,
    /// Asked for and not answered.
    pub(crate) asked: VecDeque<(PacketId, Vec<Change>)>,
    /// Time since which it has answered for none of these.
    pub(crate) asked_since: Millis,
    /// How many of the first round are not confirmed.
    pub(crate) first_left: u64,
    /// How many of the first round it was not even asked for.
    pub(crate) first_unasked: u64,
    /// Filters that it holds.
    pub(crate) held: u64,
    /// Whether subscriptions may have identifiers.
    pub(crate) identifies: bool,
    /// Filters that are wanted no more, and that it may still hold.
    pub(crate) gone: BTreeSet<Box<str>>,
    /// Filters that it has refused.
    pub(crate) refused: BTreeSet<Box<str>>,
    /// Refused filters that it must forget all the same.
    pub(crate) not_held: BTreeSet<Box<str>>,
    /// Time of the next request for these.
    pub(crate) ask_again_at: Millis,
    /// Filters that end its connections.
    pub(crate) ending: Ending,
    /// Topics whose messages it takes and does not bring back, although it has granted the filters.
    pub(crate) kept_back: BTreeSet<Box<str>>,
    /// Filters that others have replaced, and that it is to forget later.
    pub(super) replaced: Replaced,
}

impl Default for FilterSync {
    fn default() -> Self {
        Self {
            queue: VecDeque::new(),
            asked: VecDeque::new(),
            asked_since: Millis::NEVER,
            first_left: 0,
            first_unasked: 0,
            held: 0,
            identifies: false,
            gone: BTreeSet::new(),
            refused: BTreeSet::new(),
            not_held: BTreeSet::new(),
            ask_again_at: Millis::NEVER,
            ending: Ending::default(),
            kept_back: BTreeSet::new(),
            replaced: Replaced::default(),
        }
    }
}

impl FilterSync {
    pub(super) fn held(&self) -> u64 {
        self.held
    }

    pub(super) fn pending(&self) -> u64 {
        (self.queue.len() + self.asked.iter().map(|(_, changes)| changes.len()).sum::<usize>()) as u64
    }

    /// A packet id that no SUBSCRIBE or UNSUBSCRIBE under way has.
    fn free_id(&self) -> Option<PacketId> {
        let ids = (u16::MAX - PACKETS_UNDER_WAY..u16::MAX).filter_map(|below| PacketId::new(below + 1));
        ids.into_iter().find(|id| self.asked.iter().all(|(asked, _)| asked != id))
    }

    /// True if it has been asked for all filters that existed when it came, so that new messages return.
    pub(crate) fn are_asked(&self) -> bool {
        self.first_unasked == 0 && self.ending.suspects_nothing()
    }

    /// Whether it has answered for all filters that existed when it came, and was asked for all others.
    pub(crate) fn are_held(&self) -> bool {
        self.is_complete() && self.queue.is_empty()
    }

    /// Whether it has answered all that it was asked for.
    pub(crate) fn nothing_asked(&self) -> bool {
        self.asked.is_empty()
    }

    /// Asks it for a filter without a waiting SUBACK.
    pub(super) fn ask(&mut self, filter: Box<str>) {
        self.queue.push_back(Change { filter, subscribe: true, wait: 0 });
    }

    /// Whether it has refused no filter and withholds none.
    pub(super) fn refuses_nothing(&self) -> bool {
        self.refused.is_empty() && self.kept_back.is_empty()
    }

    /// When something is to be done about filters, where a probe is to be answered within `timeout`.
    pub(super) fn due(&self, timeout: u64) -> Millis {
        let answer = if self.asked_since == Millis::NEVER { Millis::NEVER } else { self.answer_due(timeout) };
        answer.min(self.ask_again_at).min(self.ending.again_at).min(self.replaced.due())
    }

    pub(crate) fn answer_due(&self, timeout: u64) -> Millis {
        self.asked_since.plus(timeout.saturating_mul(SUB_ACK_PROBES))
    }

    /// The changes for the next packet: changes of one kind, in order, and with the same identifier if they have one. A
    /// suspect goes alone, when all filters before it are answered.
    fn next_changes(&mut self, identifies: bool) -> Vec<Change> {
        let (queue, ending) = (&mut self.queue, &self.ending);
        let is_alone = |change: &Change| ending.is_suspect(&change.filter);
        let mut asked = self.asked.iter().flat_map(|(_, changes)| changes);
        if asked.clone().any(is_alone) || queue.front().is_some_and(is_alone) && asked.next().is_some() {
            return Vec::new();
        }
        let mut changes: Vec<Change> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = queue.front() {
            let alike = |first: &Change| {
                let same = || subscription_identifier(&first.filter) == subscription_identifier(&next.filter);
                first.subscribe == next.subscribe && (!identifies || !next.subscribe || same())
            };
            let same_kind = changes.first().is_none_or(alike);
            let fits = changes.is_empty() || bytes + next.filter.len() <= FILTER_BYTES_PER_PACKET;
            let alone = changes.first().is_some_and(|first| is_alone(first) || is_alone(next));
            if alone || !same_kind || !fits || changes.len() >= FILTERS_PER_PACKET {
                break;
            }
            bytes += next.filter.len();
            changes.extend(queue.pop_front());
        }
        changes
    }

    /// Whether it has all filters that existed at its connection.
    pub(crate) fn is_complete(&self) -> bool {
        self.first_left == 0
    }
}

/// A filter as brokers are asked for it, if they are.
fn for_brokers<'a>(settings: &Settings, tenant: TenantId, filter: &'a str) -> Option<Cow<'a, str>> {
    if settings.is_kept_from_brokers(filter) { None } else { at_brokers(settings, tenant, filter) }
}

impl Brokers {
    /// A broker is there: it is asked for everything that is wanted.
    pub(crate) fn begin_filters(
        &mut self,
        state: &mut ShardState,
        wanted: &WantedFilters,
        key: BrokerLinkKey,
        session_present: bool,
    ) {
        let Some(broker_link) = self.all.get_mut(&key) else { return };
        let are_common = wanted.are_common(broker_link);
        let wanted = wanted.at(broker_link);
        let filters = &mut broker_link.filters;
        let gone = std::mem::take(&mut filters.gone);
        if session_present {
            for filter in gone.into_iter().filter(|filter| !wanted.contains_key(filter)) {
                if are_common {
                    // A new filter may have replaced it: until the broker has that one, it brings the messages of this one.
                    filters.replaced.add(state.journal.now.monotonic, filter);
                } else {
                    filters.queue.push_back(Change { filter, subscribe: false, wait: 0 });
                }
            }
        } else {
            filters.replaced.clear();
        }
        // The session of a dead orchestrator is worked off as it is: it has the filters of all its partitions.
        let all = wanted.keys().filter(|_| broker_link.adopted.is_none());
        filters.queue.extend(all.map(|filter| Change { filter: filter.clone(), subscribe: true, wait: 0 }));
        filters.refused = filters.ending.arrange(&mut filters.queue, wanted);
        filters.first_left = filters.queue.len() as u64;
        filters.first_unasked = filters.first_left;
        filters.held = 0;
        self.note_flaws(key);
        self.send_filters(state, key);
    }

    /// Sends as many SUBSCRIBE and UNSUBSCRIBE packets as may be under way.
    pub(crate) fn send_filters(&mut self, state: &mut ShardState, key: BrokerLinkKey) {
        let now = state.journal.now.monotonic;
        loop {
            let Some(broker_link) = self.all.get_mut(&key) else { return };
            let Some(connection) = broker_link.connection.filter(|_| broker_link.stage == Stage::Open) else { return };
            let Some(id) = broker_link.filters.free_id() else { return };
            let version = broker_link.version;
            let names_them = version.is_v5() && broker_link.filters.identifies;
            let changes = broker_link.filters.next_changes(names_them);
            let Some(subscribe) = changes.first().map(|change| change.subscribe) else { return };
            if subscribe {
                let named = changes.first().filter(|_| names_them);
                let number = named.map(|change| subscription_identifier(&change.filter));
                state.send(connection, PacketType::Subscribe, |out| put_subscribe(version, id, number, &changes, out));
            } else {
                state.send(connection, PacketType::Unsubscribe, |out| put_unsubscribe(version, id, &changes, out));
            }
            let Some(broker_link) = self.all.get_mut(&key) else { return };
            let filters = &mut broker_link.filters;
            filters.first_unasked = filters.first_unasked.saturating_sub(changes.len() as u64);
            if filters.asked.is_empty() {
                filters.asked_since = now;
            }
            filters.asked.push_back((id, changes));
        }
    }

    /// Notes the filters that a broker has refused, or grants now: messages that only refused filters match do not come
    /// back from it.
    pub(crate) fn note_refused(&mut self, now: Now, wanted: &WantedFilters, key: BrokerLinkKey, ack: &SubAck<'_>) {
        let Some(broker_link) = self.all.get_mut(&key) else { return };
        let wanted = wanted.at(broker_link);
        let filters = &mut broker_link.filters;
        let Some((_, changes)) = filters.asked.iter().find(|(id, _)| *id == ack.packet_id) else { return };
        let before = filters.refused.len();
        for (change, code) in changes.iter().zip(ack.reason_codes.iter()) {
            // Without a subscriber no message is awaited.
            if code.is_error() && wanted.contains_key(&change.filter) {
                filters.refused.insert(change.filter.clone());
            } else {
                filters.refused.remove(&change.filter);
            }
        }
        let refused = filters.refused.len();
        if refused == 0 {
            filters.ask_again_at = Millis::NEVER;
        } else if filters.ask_again_at == Millis::NEVER {
            filters.ask_again_at = now.monotonic.plus(ASK_AGAIN_MS);
        }
        if refused > before {
            broker_link.last_error =
                format!("the broker has refused {refused} of the filters; do its rules allow them?");
        }
        self.note_flaws(key);
    }

    /// Asks a broker again for its refused filters, whose rules may have changed, and to forget filters that others have
    /// replaced.
    pub(crate) fn ask_filters_again(&mut self, now: Now, state: &mut ShardState, key: BrokerLinkKey) {
        let Some(broker_link) = self.all.get_mut(&key) else { return };
        let filters = &mut broker_link.filters;
        let ended = filters.end_replaced(now.monotonic);
        if filters.ask_again_at > now.monotonic {
            if ended {
                self.send_filters(state, key);
            }
            return;
        }
        filters.ask_again_at = now.monotonic.plus(ASK_AGAIN_MS);
        let again = filters.refused.iter().filter(|filter| !filters.ending.is_known(filter));
        filters.queue.extend(again.map(|filter| Change { filter: filter.clone(), subscribe: true, wait: 0 }));
        self.send_filters(state, key);
    }

    /// A broker is asked once more for a filter that has ended its connections: it may have become another one.
    pub(crate) fn ask_ending_again(
        &mut self,
        now: Now,
        state: &mut ShardState,
        wanted: &WantedFilters,
        key: BrokerLinkKey,
    ) {
        let Some(broker_link) = self.all.get_mut(&key) else { return };
        let wanted = wanted.at(broker_link);
        let Some(filter) = broker_link.filters.ending.next_again(now.monotonic, wanted) else {
            return;
        };
        broker_link.filters.ask(filter);
        self.fit_window(state, key);
        self.send_filters(state, key);
    }
}

impl WantedFilters {
    /// A shard wants a filter, or no longer does. Returns whether the ticket is confirmed later, when the brokers know.
    pub(crate) fn note_wanted(
        &mut self,
        state: &mut ShardState,
        brokers: &mut Brokers,
        (tenant, filter): (TenantId, &str),
        shard: ShardId,
        present: bool,
        ticket: Option<Ticket>,
    ) -> bool {
        if !brokers.config.has_broker_links_here() {
            return false;
        }
        let Some(filter) = for_brokers(&state.settings, tenant, filter) else { return false };
        let filter = &*filter;
        let bits = self.filters.entry(filter.into()).or_default();
        let before = *bits;
        let bit = 1u64 << shard.0;
        *bits = if present { before | bit } else { before & !bit };
        let after = *bits;
        if after == 0 {
            self.filters.remove(filter);
        }
        if (before == 0) == (after == 0) {
            return ticket.is_some_and(|ticket| self.wait_behind(shard, ticket));
        }
        let common = brokers.config.merges_filters().then(|| self.change_common(filter, present));
        let change = FilterChange { filter, subscribe: present, common };
        self.tell_brokers(state, brokers, &change, ticket.map(|ticket| (shard, ticket)))
    }

    /// A subscriber to a filter that another client has just requested waits as long as that one. Returns true if there
    /// is an answer to wait for.
    pub(crate) fn wait_behind(&mut self, shard: ShardId, ticket: Ticket) -> bool {
        let Some(last) = self.waits.last_key_value().map(|(wait, _)| *wait) else { return false };
        self.behind.push_back((last, shard, ticket));
        true
    }

    /// Sends a change of a filter to all connected brokers; returns true if a SUBACK waits for their answers.
    fn tell_brokers(
        &mut self,
        state: &mut ShardState,
        brokers: &mut Brokers,
        change: &FilterChange<'_>,
        waits: Option<(ShardId, Ticket)>,
    ) -> bool {
        let subscribe = change.subscribe;
        let mut wait = 0;
        let (mut told, mut flawed) = (Vec::new(), Vec::new());
        if waits.is_some() && brokers.all.values().any(|broker_link| broker_link.stage == Stage::Open) {
            self.next_wait += 1;
            wait = self.next_wait;
        }
        let now = state.journal.now.monotonic;
        for (key, broker_link) in brokers.all.iter_mut().filter(|(_, broker_link)| broker_link.adopted.is_none()) {
            match broker_link.take_change(now, change, wait) {
                Some(true) => told.push(*key),
                Some(false) => flawed.push(*key),
                None => {}
            }
        }
        if let Some((shard, ticket)) = waits.filter(|_| told.is_empty() && flawed.is_empty() && change.is_covered()) {
            // The brokers have a wider filter, or are being asked for it.
            return self.wait_behind(shard, ticket);
        }
        let waited = wait != 0 && (!told.is_empty() || subscribe);
        if let (Some((shard, ticket)), true) = (waits, waited) {
            let refused = flawed.len() as u32;
            let asked = told.len() as u32 + refused;
            let filter = change.filter.into();
            let answers = FilterAnswers { filter, asked, refused, code: ReasonCode::TopicFilterInvalid };
            let left = (told.len() as u32).max(1);
            self.waits.insert(wait, Waiter { shard, ticket, left, answers });
            self.decided.extend(told.is_empty().then_some(wait));
        }
        for key in flawed {
            brokers.note_flaws(key);
        }
        for key in told {
            brokers.note_flaws(key);
            brokers.send_filters(state, key);
            brokers.set_broker_link_timer(state, key);
        }
        waited
    }
}
