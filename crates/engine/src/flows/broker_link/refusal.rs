//! A broker refuses a filter.

use crate::event::Attempt;
use crate::events::reason::Reason;
use crate::flows::contexts::BrokerLinking;
use crate::flows::contexts::subscribing;
use crate::groups::JOINING_INDEX;
use crate::ids::BrokerLinkKey;
use crate::ids::ShardId;
use crate::link::envelope::Ticket;
use crate::link::record::Record;
use crate::now::Now;
use crate::orchestrator::broker_link::filters::FilterAnswers;
use crate::settings::fleet_topics::of_brokers;
use tidegate_mqtt::{ReasonCode, SubAck, TopicFilter};

impl BrokerLinking<'_> {
    /// All brokers have answered for a filter, or are gone: waiting subscribers are refused if no broker has taken it.
    /// An earlier subscription to it stays.
    pub(super) fn pass_answers_on(&mut self, now: Now, shard: ShardId, ticket: Ticket, answers: &FilterAnswers) {
        if !answers.is_refused() {
            return;
        }
        let behind = self.broker_links.wanted.who_waits_behind();
        for (shard, ticket) in std::iter::once((shard, ticket)).chain(behind) {
            if shard == self.links.place.shard {
                self.refuse_filter(now, ticket, &answers.filter, answers.code);
            } else {
                let (filter, code) = (&*answers.filter, answers.code);
                self.links.send(shard, Record::InterestRefused { ticket, filter, code });
            }
        }
    }

    /// Passes refused filters of a SUBSCRIBE packet on to the subscribers that wait for the answer. Each user's clients
    /// live on one shard, so all of them are here. An earlier subscription stays, and brings nothing from this broker.
    pub(super) fn pass_refusals_on(&mut self, now: Now, key: BrokerLinkKey, ack: &SubAck<'_>) {
        if !self.broker_links.brokers.config.brokers_decide() {
            return;
        }
        let filters =
            self.broker_links.brokers.all.get(&key).map(|broker_link| broker_link.filters.asked_under(ack.packet_id));
        let refused = filters.into_iter().flatten().zip(ack.reason_codes.iter()).filter(|(_, code)| code.is_error());
        for ((filter, wait), code) in refused {
            for ticket in self.broker_links.wanted.who_waits(wait) {
                self.refuse_filter(now, ticket, &filter, code);
            }
        }
    }

    /// Refuses a filter to a client whose SUBACK waits, if the client asked for it.
    pub(crate) fn refuse_filter(&mut self, now: Now, ticket: Ticket, filter: &str, code: ReasonCode) {
        if ticket.connection.index == JOINING_INDEX {
            // The member is at home at another shard, where its SUBACK waits.
            let joining = self.groups.joining.get(&ticket.connection.generation);
            if let Some((shard, ticket)) = joining.and_then(|joining| Some((joining.shard, joining.ticket?))) {
                self.links.send(shard, Record::InterestRefused { ticket, filter, code });
            }
            return;
        }
        let Some(session) = self.state.connections.session_of(ticket.connection) else { return };
        let Some((tenant, filter)) = of_brokers(&self.state.settings, filter) else { return };
        if self.state.sessions.get(session.0).is_none_or(|session| session.tenant != tenant) {
            return;
        }
        let extra = self.state.connections.get_mut(ticket.connection).and_then(|connection| connection.extra.as_mut());
        let Some(answer) = extra.and_then(|extra| extra.acks.sub_ack_mut(ticket.sequence)) else { return };
        let mut ended = Vec::new();
        for (granted, asked) in answer.codes.iter_mut().zip(&answer.filters) {
            if !granted.is_error() && behind_share(asked) == filter {
                *granted = code;
                answer.refusals.add(asked, Reason::NotAuthorized);
                ended.push(asked.clone());
            }
        }
        answer.fetches.retain(|fetch| **fetch != *filter);
        for asked in ended {
            self.state.counters.requests_refused[Reason::NotAuthorized.number()] += 1;
            self.state.reports().tell_denied(Attempt::Subscribe, session, &asked, Reason::NotAuthorized);
            if let Ok(asked) = TopicFilter::new(&asked) {
                subscribing!(self).unsubscribe(now, session, asked);
            }
        }
    }

    /// Ends the waits for which no broker has to be asked.
    pub(crate) fn end_decided_waits(&mut self, now: Now) {
        while let Some(wait) = self.broker_links.wanted.decided.pop() {
            self.end_wait(now, wait);
        }
    }
}

/// The filter requested of brokers: of a shared subscription the filter behind the share name.
fn behind_share(filter: &str) -> &str {
    let shared = TopicFilter::new(filter).ok().and_then(TopicFilter::shared);
    shared.map_or(filter, |(_, behind)| behind.as_str())
}
