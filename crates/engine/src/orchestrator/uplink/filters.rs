//! Each filter of this process once at each broker (BRK-24), however many clients and shards want it.

use crate::desk::Desk;
use crate::groups::dealing::dealing;
use crate::orchestrator::uplink::Brokers;
use crate::orchestrator::uplink::uplinking::Uplinking;
use crate::publish::answering::answering;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_mqtt::{Frame, PacketId, PacketType, ReasonCode, SubAck, UnsubAck};

use super::asking::{put_subscribe, put_unsubscribe};
use super::copies::subscription_identifier;
use super::ending::Ending;
use super::refusal::Verdict;
use super::{Stage, UplinkKey};
use crate::connection::input::Refused;
use crate::ids::{ConnectionKey, ShardId, TenantId};
use crate::link::envelope::Ticket;
use crate::now::{Millis, Now};
use crate::settings::Settings;
use crate::settings::fleet_topics::at_brokers;
use crate::topics::is_own_topic;

/// Packets that wait for their answer at once, under packet ids that no message of an uplink gets.
pub(crate) const PACKETS_UNDER_WAY: u16 = 8;
/// Filters remembered that a broker that is away still holds; beyond it it sends in vain what nobody wants.
const GONE_MAX: usize = 100_000;

/// What the clients of this process want, and who waits until the brokers know of it.
#[derive(Debug, Default)]
pub(crate) struct WantedFilters {
    /// The shards that want a filter, one bit each.
    pub(super) filters: BTreeMap<Box<str>, u64>,
    pub(super) waits: BTreeMap<u64, Waiter>,
    next_wait: u64,
    /// Those who wait until all waits up to one have ended, in order.
    pub(super) behind: VecDeque<(u64, ShardId, Ticket)>,
    /// Waits that end with the packet at hand, since no broker has to be asked.
    pub(super) decided: Vec<u64>,
}

/// Somebody whose SUBACK waits for the brokers.
#[derive(Debug)]
pub(super) struct Waiter {
    shard: ShardId,
    pub(super) ticket: Ticket,
    /// Brokers that have not answered.
    left: u32,
    pub(super) verdict: Verdict,
}

impl WantedFilters {
    /// How many filters the clients of this process want.
    pub(crate) fn len(&self) -> usize {
        self.filters.len()
    }
}

/// One filter that a broker is asked for, or to forget.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) filter: Box<str>,
    pub(super) subscribe: bool,
    /// Whose wait it ends, 0 for nobody's.
    pub(super) wait: u64,
}

/// How many times the time for a probe's answer a broker has to answer for filters: it may have to look up much that it
/// has kept.
pub(crate) const SUB_ACK_PROBES: u64 = 6;
/// After how long a broker is asked again for filters that it has refused, milliseconds.
const ASK_AGAIN_MS: u64 = 60_000;

/// What one broker holds of the filters.
#[derive(Debug)]
pub(crate) struct FilterSync {
    /// To be asked for, in order.
    pub(super) queue: VecDeque<Change>,
    /// Asked for and not answered.
    pub(super) asked: VecDeque<(PacketId, Vec<Change>)>,
    /// Since when it has answered for none of these.
    pub(crate) asked_since: Millis,
    /// How many of the first round are not confirmed.
    first_left: u64,
    /// How many of the first round it was not even asked for.
    first_unasked: u64,
    /// Filters that it holds.
    held: u64,
    /// Whether subscriptions may have identifiers.
    pub(super) identifies: bool,
    /// Filters that nobody wants any more, and that it may hold still.
    gone: BTreeSet<Box<str>>,
    /// Filters that it has refused.
    pub(super) refused: BTreeSet<Box<str>>,
    /// Those that it had refused and is to forget all the same.
    not_held: BTreeSet<Box<str>>,
    /// When it is asked for these again.
    ask_again_at: Millis,
    /// Filters that end its connections.
    pub(super) ending: Ending,
    /// Topics whose messages it takes and does not bring back, although it has granted the filters.
    pub(super) kept_back: BTreeSet<Box<str>>,
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

    /// Whether it was asked for all that there was when it came, so that what it is given now comes back.
    pub(super) fn are_asked(&self) -> bool {
        self.first_unasked == 0 && self.ending.suspects_nothing()
    }

    /// Whether it has answered all that it was asked for.
    pub(super) fn nothing_asked(&self) -> bool {
        self.asked.is_empty()
    }

    /// Asks it for a filter, for nobody who waits.
    pub(super) fn ask(&mut self, filter: Box<str>) {
        self.queue.push_back(Change { filter, subscribe: true, wait: 0 });
    }

    /// Whether it has refused no filter and keeps nothing back.
    pub(super) fn refuses_nothing(&self) -> bool {
        self.refused.is_empty() && self.kept_back.is_empty()
    }

    /// When something is to be done about filters, where a probe is to be answered within `timeout`.
    pub(super) fn due(&self, timeout: u64) -> Millis {
        let answer = if self.asked_since == Millis::NEVER { Millis::NEVER } else { self.answer_due(timeout) };
        answer.min(self.ask_again_at).min(self.ending.again_at)
    }

    pub(crate) fn answer_due(&self, timeout: u64) -> Millis {
        self.asked_since.plus(timeout.saturating_mul(SUB_ACK_PROBES))
    }

    /// Whether it holds all that there was when it came.
    pub(super) fn is_complete(&self) -> bool {
        self.first_left == 0
    }
}

/// A filter as brokers are asked for it, if they are. `$SYS` is this process's own.
fn for_brokers<'a>(settings: &Settings, tenant: TenantId, filter: &'a str) -> Option<Cow<'a, str>> {
    if is_own_topic(filter) { None } else { at_brokers(settings, tenant, filter) }
}

impl Uplinking<'_> {
    /// A broker is gone: nobody waits for its answers. What was unanswered when it closed the connection may be why.
    pub(super) fn end_filters(&mut self, now: Now, key: UplinkKey, closed: bool) {
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        let filters = &mut uplink.filters;
        let asked = filters.asked.iter().filter(|_| closed).flat_map(|(_, changes)| changes);
        if let Some(filter) = filters.ending.note_closed(asked, now.monotonic) {
            uplink.last_error = format!("the broker closes the connection when it is asked for the filter {filter:?}");
            uplink.suspicion.told = true;
            // The next connection will do better.
            uplink.backoff_ms = 0;
        }
        let changes = filters.asked.drain(..).flat_map(|(_, changes)| changes).chain(filters.queue.drain(..));
        let changes: Vec<Change> = changes.collect();
        filters.held = 0;
        filters.asked_since = Millis::NEVER;
        filters.first_unasked = 0;
        filters.refused.clear();
        filters.not_held.clear();
        filters.ask_again_at = Millis::NEVER;
        filters.kept_back.clear();
        let unsubscribed = changes.iter().filter(|change| !change.subscribe).map(|change| change.filter.clone());
        filters.gone.extend(unsubscribed.take(GONE_MAX));
        self.uplinks.brokers.note_flaws(key);
        for change in changes {
            self.end_wait(now, change.wait);
        }
    }

    pub(crate) fn handle_sub_ack(&mut self, now: Now, key: ConnectionKey, frame: &Frame<'_>) -> Result<(), Refused> {
        let Some((uplink, version)) = self.uplinks.brokers.uplink_of(key) else { return Ok(()) };
        let ack = SubAck::decode(version, frame.first_byte, frame.body)?;
        self.uplinks.brokers.note_refused(now, &self.uplinks.wanted, uplink, &ack);
        self.uplinks.wanted.note_verdicts(&self.uplinks.brokers, uplink, &ack);
        self.pass_refusals_on(now, uplink, &ack);
        self.note_answered(now, uplink, ack.packet_id);
        Ok(())
    }

    pub(crate) fn handle_unsub_ack(&mut self, now: Now, key: ConnectionKey, frame: &Frame<'_>) -> Result<(), Refused> {
        let Some((uplink, version)) = self.uplinks.brokers.uplink_of(key) else { return Ok(()) };
        let ack = UnsubAck::decode(version, frame.first_byte, frame.body)?;
        self.note_answered(now, uplink, ack.packet_id);
        Ok(())
    }

    /// A broker has answered for some filters.
    fn note_answered(&mut self, now: Now, key: UplinkKey, id: PacketId) {
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        let filters = &mut uplink.filters;
        let Some(at) = filters.asked.iter().position(|(asked, _)| *asked == id) else { return };
        let Some((_, changes)) = filters.asked.remove(at) else { return };
        filters.asked_since = if filters.asked.is_empty() { Millis::NEVER } else { now.monotonic };
        let asked_before = filters.are_asked();
        for change in &changes {
            filters.ending.note_answered(&change.filter);
            if change.subscribe {
                filters.not_held.remove(&change.filter);
                filters.held += u64::from(!filters.refused.contains(&change.filter));
            } else if !filters.not_held.remove(&change.filter) {
                filters.held = filters.held.saturating_sub(1);
            }
        }
        let before = filters.first_left;
        filters.first_left = before.saturating_sub(changes.len() as u64);
        let complete = before > 0 && filters.first_left == 0;
        for change in changes {
            self.end_wait(now, change.wait);
        }
        self.uplinks.brokers.send_filters(self.desk, key);
        if !asked_before && self.uplinks.brokers.all.get(&key).is_some_and(|uplink| uplink.filters.are_asked()) {
            self.uplinks.brokers.note_flaws(key);
            dealing!(self).keep_order(now);
            self.uplinks.brokers.open_window(now, self.desk, self.layouts, key);
        }
        self.uplinks.brokers.set_uplink_timer(self.desk, key);
        if complete {
            self.uplinks.brokers.begin_serving(now, self.desk, key);
        }
    }

    /// One broker less is waited for.
    pub(super) fn end_wait(&mut self, now: Now, wait: u64) {
        let wanted = &mut self.uplinks.wanted;
        let Some(waiter) = wanted.waits.get_mut(&wait) else { return };
        waiter.left = waiter.left.saturating_sub(1);
        if waiter.left > 0 {
            return;
        }
        let Some(Waiter { shard, ticket, verdict, .. }) = wanted.waits.remove(&wait) else { return };
        self.pass_verdict_on(now, shard, ticket, &verdict);
        self.confirm_wait(now, shard, ticket);
        while let Some((last, shard, ticket)) = self.uplinks.wanted.behind.front().copied() {
            if self.uplinks.wanted.waits.first_key_value().is_some_and(|(first, _)| *first <= last) {
                break;
            }
            self.uplinks.wanted.behind.pop_front();
            self.confirm_wait(now, shard, ticket);
        }
    }

    fn confirm_wait(&mut self, now: Now, shard: ShardId, ticket: Ticket) {
        if shard == self.place.shard {
            answering!(self).handle_interest_seen(now, ticket);
        } else {
            self.links.confirm_interest(shard, ticket);
        }
    }
}

impl Brokers {
    /// A broker is there: it is asked for everything that is wanted.
    pub(super) fn begin_filters(
        &mut self,
        desk: &mut Desk,
        wanted: &WantedFilters,
        key: UplinkKey,
        session_present: bool,
    ) {
        let Some(uplink) = self.all.get_mut(&key) else { return };
        let filters = &mut uplink.filters;
        let gone = std::mem::take(&mut filters.gone);
        if session_present {
            let gone = gone.into_iter().filter(|filter| !wanted.filters.contains_key(filter));
            filters.queue.extend(gone.map(|filter| Change { filter, subscribe: false, wait: 0 }));
        }
        let all = wanted.filters.keys();
        filters.queue.extend(all.map(|filter| Change { filter: filter.clone(), subscribe: true, wait: 0 }));
        filters.refused = filters.ending.arrange(&mut filters.queue, &wanted.filters);
        filters.first_left = filters.queue.len() as u64;
        filters.first_unasked = filters.first_left;
        filters.held = 0;
        self.note_flaws(key);
        self.send_filters(desk, key);
    }

    /// Sends as many SUBSCRIBE and UNSUBSCRIBE packets as may be under way.
    pub(super) fn send_filters(&mut self, desk: &mut Desk, key: UplinkKey) {
        let now = desk.journal.now.monotonic;
        loop {
            let Some(uplink) = self.all.get_mut(&key) else { return };
            let Some(connection) = uplink.connection.filter(|_| uplink.stage == Stage::Open) else { return };
            let Some(id) = uplink.filters.free_id() else { return };
            let version = uplink.version;
            let names_them = version.is_v5() && uplink.filters.identifies;
            let changes = uplink.filters.next_changes(names_them);
            let Some(subscribe) = changes.first().map(|change| change.subscribe) else { return };
            if subscribe {
                let named = changes.first().filter(|_| names_them);
                let number = named.map(|change| subscription_identifier(&change.filter));
                desk.send(connection, PacketType::Subscribe, |out| put_subscribe(version, id, number, &changes, out));
            } else {
                desk.send(connection, PacketType::Unsubscribe, |out| put_unsubscribe(version, id, &changes, out));
            }
            let Some(uplink) = self.all.get_mut(&key) else { return };
            let filters = &mut uplink.filters;
            filters.first_unasked = filters.first_unasked.saturating_sub(changes.len() as u64);
            if filters.asked.is_empty() {
                filters.asked_since = now;
            }
            filters.asked.push_back((id, changes));
        }
    }

    /// Notes what a broker has refused, or grants now: messages that only refused filters match do not come back from
    /// it.
    fn note_refused(&mut self, now: Now, wanted: &WantedFilters, key: UplinkKey, ack: &SubAck<'_>) {
        let Some(uplink) = self.all.get_mut(&key) else { return };
        let filters = &mut uplink.filters;
        let Some((_, changes)) = filters.asked.iter().find(|(id, _)| *id == ack.packet_id) else { return };
        let before = filters.refused.len();
        for (change, code) in changes.iter().zip(ack.reason_codes.iter()) {
            // Nobody may want it any more, and then nobody waits for its messages.
            if code.is_error() && wanted.filters.contains_key(&change.filter) {
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
            uplink.last_error = format!("the broker has refused {refused} of the filters; do its rules allow them?");
        }
        self.note_flaws(key);
    }

    /// A broker is asked once more for what it has refused: its rules may have changed.
    pub(crate) fn ask_filters_again(&mut self, now: Now, desk: &mut Desk, key: UplinkKey) {
        let Some(uplink) = self.all.get_mut(&key) else { return };
        let filters = &mut uplink.filters;
        if filters.ask_again_at > now.monotonic {
            return;
        }
        filters.ask_again_at = now.monotonic.plus(ASK_AGAIN_MS);
        let again = filters.refused.iter().filter(|filter| !filters.ending.is_known(filter));
        filters.queue.extend(again.map(|filter| Change { filter: filter.clone(), subscribe: true, wait: 0 }));
        self.send_filters(desk, key);
    }
}

impl WantedFilters {
    /// A shard wants a filter, or no longer does. Says whether the ticket is confirmed later, when the brokers know.
    pub(crate) fn note_wanted(
        &mut self,
        desk: &mut Desk,
        brokers: &mut Brokers,
        (tenant, filter): (TenantId, &str),
        shard: ShardId,
        present: bool,
        ticket: Option<Ticket>,
    ) -> bool {
        if !brokers.config.has_uplinks_here() {
            return false;
        }
        let Some(filter) = for_brokers(&desk.settings, tenant, filter) else { return false };
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
        self.tell_brokers(desk, brokers, filter, present, ticket.map(|ticket| (shard, ticket)))
    }

    /// Whoever subscribes to what somebody else has just asked for waits as long as that one. Says whether there is
    /// anything to wait for.
    pub(crate) fn wait_behind(&mut self, shard: ShardId, ticket: Ticket) -> bool {
        let Some(last) = self.waits.last_key_value().map(|(wait, _)| *wait) else { return false };
        self.behind.push_back((last, shard, ticket));
        true
    }

    /// Tells all brokers that are there of a filter; says whether somebody waits for their answers.
    fn tell_brokers(
        &mut self,
        desk: &mut Desk,
        brokers: &mut Brokers,
        filter: &str,
        subscribe: bool,
        waits: Option<(ShardId, Ticket)>,
    ) -> bool {
        let mut wait = 0;
        let (mut told, mut flawed) = (Vec::new(), Vec::new());
        if waits.is_some() && brokers.all.values().any(|uplink| uplink.stage == Stage::Open) {
            self.next_wait += 1;
            wait = self.next_wait;
        }
        for (key, uplink) in &mut brokers.all {
            if uplink.stage == Stage::Open {
                let was_refused = !subscribe && uplink.filters.refused.remove(filter);
                if uplink.filters.ending.is_known(filter) {
                    if subscribe {
                        uplink.filters.refused.insert(filter.into());
                    }
                    flawed.push(*key);
                    continue;
                }
                uplink.filters.not_held.extend(was_refused.then(|| filter.into()));
                uplink.filters.queue.push_back(Change { filter: filter.into(), subscribe, wait });
                told.push(*key);
            } else if !subscribe && uplink.filters.gone.len() < GONE_MAX {
                uplink.filters.gone.insert(filter.into());
            }
        }
        let waited = wait != 0 && (!told.is_empty() || subscribe);
        if let (Some((shard, ticket)), true) = (waits, waited) {
            let refused = flawed.len() as u32;
            let asked = told.len() as u32 + refused;
            let verdict = Verdict { filter: filter.into(), asked, refused, code: ReasonCode::TopicFilterInvalid };
            let left = (told.len() as u32).max(1);
            self.waits.insert(wait, Waiter { shard, ticket, left, verdict });
            self.decided.extend(told.is_empty().then_some(wait));
        }
        for key in flawed {
            brokers.note_flaws(key);
        }
        for key in told {
            brokers.note_flaws(key);
            brokers.send_filters(desk, key);
        }
        waited
    }
}
