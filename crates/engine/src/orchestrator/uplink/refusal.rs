//! A filter that no broker takes is refused to the client, and so is one that any broker refuses where brokers decide
//! what their users may do (BRK-10).

use crate::orchestrator::uplink::Brokers;
use crate::orchestrator::uplink::uplinking::Uplinking;
use crate::subscribe::subscribing::subscribing;
use tidegate_mqtt::{PacketId, ReasonCode, SubAck, TopicFilter};

use super::UplinkKey;
use super::filters::{FilterSync, WantedFilters};
use crate::event::Attempt;
use crate::ids::ShardId;
use crate::link::envelope::Ticket;
use crate::link::record::Record;
use crate::now::Now;
use crate::settings::fleet_topics::of_brokers;
use crate::telling::reason::Reason;

/// What brokers have said of a filter that somebody waits for.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) filter: Box<str>,
    /// Brokers that know of it.
    pub(super) asked: u32,
    /// Of these, those that have refused it.
    pub(super) refused: u32,
    /// What the last one has said.
    pub(super) code: ReasonCode,
}

impl Verdict {
    /// Whether all brokers have refused it. One that was lost meanwhile has not.
    fn is_refused(&self) -> bool {
        self.asked > 0 && self.refused >= self.asked
    }
}

impl WantedFilters {
    /// Who waits for brokers to answer, and all who wait behind others.
    fn who_waits(&self, wait: u64) -> Vec<Ticket> {
        let first = self.waits.get(&wait).map(|waiter| waiter.ticket);
        first.into_iter().chain(self.behind.iter().map(|(_, _, ticket)| *ticket)).collect()
    }

    /// All who wait behind others: they may have asked for the same filter.
    fn who_waits_behind(&self) -> Vec<(ShardId, Ticket)> {
        self.behind.iter().map(|(_, shard, ticket)| (*shard, *ticket)).collect()
    }
}

impl FilterSync {
    /// The filters that it was asked for under a packet id, each with the number of the wait that its answer ends.
    fn asked_under(&self, id: PacketId) -> Vec<(Box<str>, u64)> {
        let changes = self.asked.iter().filter(|(asked, _)| *asked == id).flat_map(|(_, changes)| changes);
        changes.map(|change| (change.filter.clone(), change.wait)).collect()
    }
}

impl Uplinking<'_> {
    /// All brokers have answered for a filter, or are gone: whoever waits for it is refused it if none has taken it.
    /// Whoever has subscribed before keeps the subscription.
    pub(super) fn pass_verdict_on(&mut self, now: Now, shard: ShardId, ticket: Ticket, verdict: &Verdict) {
        if !verdict.is_refused() {
            return;
        }
        let behind = self.uplinks.wanted.who_waits_behind();
        for (shard, ticket) in std::iter::once((shard, ticket)).chain(behind) {
            if shard == self.place.shard {
                self.refuse_filter(now, ticket, &verdict.filter, verdict.code);
            } else {
                let (filter, code) = (&*verdict.filter, verdict.code);
                self.links.send(shard, Record::InterestRefused { ticket, filter, code });
            }
        }
    }

    /// Some filters of a SUBSCRIBE packet were refused: whoever waits for the answer is refused them as well. Each
    /// user's clients live on one shard, so all who wait are here. Whoever has subscribed before keeps the
    /// subscription, which brings nothing from this broker.
    pub(super) fn pass_refusals_on(&mut self, now: Now, key: UplinkKey, ack: &SubAck<'_>) {
        if !self.uplinks.brokers.config.brokers_decide() {
            return;
        }
        let filters = self.uplinks.brokers.all.get(&key).map(|uplink| uplink.filters.asked_under(ack.packet_id));
        let refused = filters.into_iter().flatten().zip(ack.reason_codes.iter()).filter(|(_, code)| code.is_error());
        for ((filter, wait), code) in refused {
            for ticket in self.uplinks.wanted.who_waits(wait) {
                self.refuse_filter(now, ticket, &filter, code);
            }
        }
    }

    /// Refuses a filter to a client whose SUBACK waits, if it is among those that it asked for.
    pub(crate) fn refuse_filter(&mut self, now: Now, ticket: Ticket, filter: &str, code: ReasonCode) {
        let Some(session) = self.desk.connections.session_of(ticket.connection) else { return };
        let Some((tenant, filter)) = of_brokers(self.settings, filter) else { return };
        if self.desk.sessions.get(session.0).is_none_or(|session| session.tenant != tenant) {
            return;
        }
        let extra = self.desk.connections.get_mut(ticket.connection).and_then(|connection| connection.extra.as_mut());
        let Some(answer) = extra.and_then(|extra| extra.acks.sub_ack_mut(ticket.sequence)) else { return };
        let mut ended = Vec::new();
        for (granted, asked) in answer.codes.iter_mut().zip(&answer.filters) {
            if !granted.is_error() && behind_share(asked) == filter {
                *granted = code;
                answer.refusals.add(asked, Reason::NotAuthorized);
                ended.push(asked.clone());
            }
        }
        answer.fetches.retain(|fetch| &*fetch.filter != filter);
        for asked in ended {
            self.desk.counters.requests_refused[Reason::NotAuthorized.number()] += 1;
            self.desk.reports().tell_denied(Attempt::Subscribe, session, &asked, Reason::NotAuthorized);
            if let Ok(asked) = TopicFilter::new(&asked) {
                subscribing!(self).unsubscribe(now, session, asked);
            }
        }
    }

    /// Ends the waits for which no broker has to be asked.
    pub(crate) fn end_decided_waits(&mut self, now: Now) {
        while let Some(wait) = self.uplinks.wanted.decided.pop() {
            self.end_wait(now, wait);
        }
    }
}

impl WantedFilters {
    /// Counts the brokers that have refused what somebody waits for.
    pub(super) fn note_verdicts(&mut self, brokers: &Brokers, key: UplinkKey, ack: &SubAck<'_>) {
        let Some(uplink) = brokers.all.get(&key) else { return };
        let changes = uplink.filters.asked.iter().filter(|(id, _)| *id == ack.packet_id);
        let codes = changes.flat_map(|(_, changes)| changes).zip(ack.reason_codes.iter());
        for (change, code) in codes.filter(|(_, code)| code.is_error()) {
            if let Some(waiter) = self.waits.get_mut(&change.wait) {
                waiter.verdict.refused += 1;
                waiter.verdict.code = code;
            }
        }
    }
}

/// What brokers are asked for: of a shared subscription the filter behind the share name.
fn behind_share(filter: &str) -> &str {
    let shared = TopicFilter::new(filter).ok().and_then(TopicFilter::shared);
    shared.map_or(filter, |(_, behind)| behind.as_str())
}
