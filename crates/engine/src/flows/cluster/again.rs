//! Messages that a publisher sends again, since it was not answered.

use crate::connection::Answer;
use crate::events::reason::Reason;
use crate::flows::contexts::Deciding;
use crate::flows::contexts::Publishing;
use crate::flows::contexts::answering;
use crate::flows::contexts::dealing;
use crate::flows::contexts::parking;
use crate::flows::contexts::publishing;
use crate::flows::publish::dispatch::Reach;
use crate::flows::publish::dispatch::at_home;
use crate::flows::publish::dispatch::reach;
use crate::ids::{BROKER_LINK_PARTITION, PartitionId, ShardId, partition_of};
use crate::link::envelope::{DELIVER, Passage};
use crate::link::exchange_word::ExchangeName;
use crate::link::got::Got;
use crate::message::Publication;
use crate::now::Now;
use crate::publish::dispatch::Source;
use crate::publish::inbound::Inbound;
use crate::roster::Shards;
use crate::session::exchange::Exchange;
use crate::session::terms::Terms;
use crate::settings::fleet_topics::owner_of;
use crate::topics::stages::Step;
use crate::topics::{Route, RouteSlot};
use tidegate_mqtt::{PacketId, ReasonCode};

impl Deciding<'_> {
    /// A publisher has returned before all nodes have confirmed its message. It waits for their confirmations, since a
    /// node that dies first may not have got the message. Returns true if there is a confirmation to wait for.
    #[cold]
    pub(crate) fn wait_for_exchange(&mut self, it: &Inbound<'_>, id: PacketId, exchange: &Exchange) -> bool {
        let heir = self.state.connections.next_ticket(it.key);
        let waits = exchange.ticket.map_or(0, |ticket| self.links.pass_on(ticket, heir));
        if waits == 0 {
            return false;
        }
        let stored = it.session.is_some_and(|session| self.state.sessions.is_stored(session));
        let answer = Answer::PubRec(Ok(ReasonCode::Success), self.digest_if_refusable(it));
        answering!(self).answer(it.now, it.key, id, answer, waits, stored);
        true
    }

    /// Sends a message whose exchange is in doubt to the partitions that lack it.
    #[cold]
    pub(crate) fn publish_again(&mut self, exchange: &Exchange, it: &Inbound<'_>) -> Step {
        let Inbound { now, key, session, slot, raw, .. } = *it;
        let Some((of_session, id)) = session.zip(raw.packet_id) else { return Step::Continue };
        let missing = self.defer_if_missing(it);
        if missing != Step::Continue {
            return missing;
        }
        let mark = self.state.journal.mark();
        let source = Source::publisher_here(
            self.links.place.shard,
            now,
            session,
            key,
            Some(self.state.connections.next_ticket(key)),
        );
        let topic = self.router.cache.topic_of(it);
        let mut publication = it.publication(&topic);
        publication.priority = self.router.cache.traits(slot).priority.level(it.properties);
        self.state.gave_up = false;
        let (exchange, waits, refused) =
            publishing!(self).send_exchange_again(now, exchange, slot, &mut publication, &source);
        self.state.sessions.set_exchange(&mut self.state.journal, of_session, id, &exchange);
        let outcome = answering!(self).outcome_of(raw.qos, refused, true);
        let digest = self.digest_if_refusable(it);
        answering!(self).answer_publish(now, key, raw, (outcome, digest), waits, mark);
        parking!(self).wait_for_full_links(now, key);
        Step::Done
    }
}

impl Publishing<'_> {
    /// Sends a message to the partitions that lack it. Returns the state of its exchange from now on, how many shards
    /// have to confirm it, and why its value was not retained here.
    pub(crate) fn send_exchange_again(
        &mut self,
        now: Now,
        exchange: &Exchange,
        slot: RouteSlot,
        publication: &mut Publication<'_>,
        source: &Source,
    ) -> (Exchange, u32, Option<Reason>) {
        // Before the message came here, this shard may have got it from where it was.
        let marked = self.state.exchanges.marks.get(exchange.name);
        let known = exchange.covered.with(marked);
        let mut refused = None;
        publication.beyond_quota = publication.retain
            && crate::state::is_of_own(source.session, (&self.state.sessions, &self.state.connections));
        let (tenant, topic) = owner_of(&self.state.settings, publication.tenant, publication.topic);
        if publication.retain && !known.sessions.has(partition_of(tenant, topic)) {
            refused = self.retain_of(now, publication, source.session);
        }
        let (_, route) = self.router.cache.get(slot);
        reach!(self).deliver_to_rest(now, route, publication, source, (Some(exchange.name), &known));
        let in_transit = self.state.exchanges.mark_in_transit(
            self.links.place,
            &self.links.roster,
            &self.state.transfers,
            &mut self.state.journal,
            exchange.name,
        );
        let got = self.state.exchanges.got_here(self.groups, self.links.place.shard);
        self.state.exchanges.mark_sent_again(self.links.place, &mut self.state.journal, exchange.name, got);
        let covered = exchange.covered.with(marked.with(got).without_sessions(in_transit));
        let exchange = Exchange { covered, ticket: source.ticket, ..*exchange };
        let waits = self.pass_again(&exchange, slot, publication, source);
        (exchange, waits, refused)
    }

    /// Sends it to all shards that want it; returns how many have to confirm it.
    fn pass_again(
        &mut self,
        exchange: &Exchange,
        slot: RouteSlot,
        publication: &mut Publication<'_>,
        source: &Source,
    ) -> u32 {
        let (_, route) = self.router.cache.get(slot);
        let deliver = Shards(self.links.roster.living(route.remote_bits()));
        let (tenant, topic) = owner_of(&self.state.settings, publication.tenant, publication.topic);
        let home = self.links.roster.home_of_topic(tenant, topic);
        let retain = publication.retain;
        let is_retained = |shard: ShardId| retain && home == shard;
        let mut waits = 0;
        self.links.exchange = Some(self.state.exchanges.word(exchange.name, exchange.covered));
        for shard in self.links.roster.others() {
            let purpose = if deliver.has(shard) { DELIVER } else { 0 }
                | if is_retained(shard) { at_home(publication) } else { 0 };
            if purpose == 0 {
                continue;
            }
            let from = source.connection.or(source.ticket.map(|ticket| ticket.connection));
            let passage = Passage {
                purpose,
                origin: source.origin,
                entered_at: source.entered_at,
                priority: publication.priority,
                hops: source.hops,
                from,
                ticket: source.ticket,
            };
            self.links.send_publish(shard, &passage, publication, true);
            self.state.counters.shard_messages_out += 1;
            waits += 1;
        }
        self.links.exchange = None;
        waits
    }

    /// A message from another shard, with its name if it has one, which `known` have got already.
    #[inline]
    pub(crate) fn dispatch_coming(
        &mut self,
        now: Now,
        slot: RouteSlot,
        publication: &mut Publication<'_>,
        source: &Source,
        (name, known): (Option<ExchangeName>, Option<&Got>),
    ) {
        let (_, route) = self.router.cache.get(slot);
        match (known, name.filter(|_| !route.groups().is_empty())) {
            (None, None) => reach!(self).dispatch_here(now, route, publication, source),
            (None, Some(name)) => reach!(self).dispatch_named(now, route, publication, source, name),
            (Some(known), name) => reach!(self).deliver_to_rest(now, route, publication, source, (name, known)),
        }
    }
}

impl Reach<'_> {
    /// Delivers to those sessions and groups of this shard that have not got the message.
    fn deliver_to_rest(
        &mut self,
        now: Now,
        route: &Route,
        publication: &mut Publication<'_>,
        source: &Source,
        (name, known): (Option<ExchangeName>, &Got),
    ) {
        // An exchange is named in the turn in which the brokers get its message.
        let deals = |partition| partition != BROKER_LINK_PARTITION && !known.groups.has(partition);
        let wants = |partition| !known.sessions.has(partition);
        match name {
            Some(name) => {
                self.deliver_some(now, route, publication, source, wants, |_| false);
                self.deal_exchange(now, route, publication, source, name, deals);
            }
            None => self.deliver_some(now, route, publication, source, wants, deals),
        }
    }

    /// Delivers to the sessions of this shard whose partitions lack the message, and deals to the groups whose partitions
    /// lack it; [`BROKER_LINK_PARTITION`] is that of the brokers.
    pub(crate) fn deliver_some(
        &mut self,
        now: Now,
        route: &Route,
        publication: &mut Publication<'_>,
        source: &Source,
        wants: impl Fn(PartitionId) -> bool,
        deals: impl Fn(PartitionId) -> bool,
    ) {
        publication.wide = route.targets().len() > 1;
        self.layouts.begin(route.targets().len());
        for target in route.targets() {
            let session = self.state.sessions.get(target.session.0);
            if !session.is_some_and(|session| wants(partition_of(session.tenant, &session.client_id))) {
                continue;
            }
            let terms = Terms {
                qos: target.qos(),
                retain: publication.retain && target.options.retain_as_published(),
                subscription_ids: route.subscription_ids(target),
                group: None,
                publisher: None,
                metered: false,
            };
            self.state.deliver(now.monotonic, publication, self.layouts, target.session, &terms);
        }
        let from = self.state.transfers.source;
        let of_brokers = self.is_of_brokers(publication);
        for group in route.groups() {
            if self.deals_here(from, *group, of_brokers) && self.groups.partition_of(*group).is_some_and(&deals) {
                dealing!(self).deal_to(now, *group, publication, source, None);
            }
        }
    }
}
