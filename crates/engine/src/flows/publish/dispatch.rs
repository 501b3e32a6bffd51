//! A message goes along its route: to sessions of this shard, to shared groups, to other shards.

use crate::addresses::Nodes;
use crate::connection::to_write::WIDE_RECEIVERS;
use crate::durable::Way;
use crate::events::reason::Reason;
use crate::flows::contexts::Publishing;
use crate::flows::contexts::dealing;
use crate::groups::Groups;
use crate::ids::{SessionKey, ShardId, TenantId, hash_name, partition_of};
use crate::link::Links;
use crate::link::envelope::{BROUGHT, DELIVER, FROM_RETAINED, RETAIN_AT_HOME};
use crate::link::exchange_word::ExchangeName;
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::BrokerLinks;
use crate::publish::dispatch::{Dispatched, Source};
use crate::publish::layouts::Layouts;
use crate::session::BlockedPublisher;
use crate::session::terms::Terms;
use crate::settings::SharedStrategy;
use crate::settings::fleet_topics::owner_of;
use crate::state::ShardState;
use crate::topics::{GroupKey, Route, RouteSlot, SubscriptionIndex, Target, is_own_topic};
use tidegate_mqtt::QoS;

/// The parts of an engine that delivering needs, apart from the cache that holds the route.
pub(crate) struct Reach<'e> {
    pub state: &'e mut ShardState,
    pub layouts: &'e mut Layouts,
    pub links: &'e mut Links,
    pub groups: &'e mut Groups,
    pub broker_links: &'e mut BrokerLinks,
    pub index: &'e mut SubscriptionIndex,
    pub scratch: &'e mut Route,
    pub nodes: &'e Nodes,
}

/// Splits an engine into its route cache and the parts for delivery.
macro_rules! reach {
    ($engine:expr) => {
        $crate::flows::publish::dispatch::Reach {
            state: &mut $engine.state,
            layouts: &mut $engine.layouts,
            links: &mut $engine.links,
            groups: &mut $engine.groups,
            broker_links: &mut $engine.broker_links,
            index: &mut $engine.router.index,
            scratch: &mut $engine.router.scratch,
            nodes: &$engine.nodes,
        }
    };
}

pub(crate) use reach;

impl Publishing<'_> {
    /// The route of a topic name that is valid.
    #[inline]
    pub(crate) fn route_of(&mut self, tenant: crate::TenantId, topic: &str) -> RouteSlot {
        if let Some(slot) = self.router.cache.lookup(self.router.index.epoch(), tenant, topic.as_bytes()) {
            return slot;
        }
        self.make_route(tenant, topic)
    }

    /// Publishes a message that no packet brought: the broker's own, or the will of `session`.
    pub(crate) fn publish_inside(&mut self, now: Now, publication: &mut Publication<'_>, session: Option<SessionKey>) {
        if self.broker_links.brokers.config.goes_to_fleet(&self.state.settings, publication) {
            self.publish_inside_to_fleet(now, publication, session);
            return;
        }
        self.route_inside(now, publication, session);
    }

    /// Sends a message that no packet brought on its way.
    pub(crate) fn route_inside(&mut self, now: Now, publication: &mut Publication<'_>, session: Option<SessionKey>) {
        let slot = self.route_of(publication.tenant, publication.topic);
        let source = Source { session, ..Source::inside(self.links.place.shard, now) };
        self.route_owed(now, slot, publication, &source);
    }

    /// The same from a given source. Returns how many shards have to confirm it.
    pub(crate) fn route_owed(
        &mut self,
        now: Now,
        slot: RouteSlot,
        publication: &mut Publication<'_>,
        source: &Source,
    ) -> u32 {
        let traits = self.router.cache.traits(slot);
        publication.priority = traits.priority.level(publication.properties);
        if let Some(addresses) = self.state.settings.addresses.as_ref().filter(|_| traits.is_address) {
            publication.expires_at = addresses.expiry(now.monotonic, publication.expires_at);
        }
        if publication.retain
            && !(publication.tenant == TenantId::BROKER_LINK && self.broker_links.brokers.config.brokers_decide())
        {
            self.retain(now, publication, Some(source.entered_at));
        }
        if !traits.observers.is_empty() {
            let session = source.session.and_then(|session| self.state.sessions.get(session.0));
            let name = session.map(|session| session.client_id.to_string()).unwrap_or_default();
            self.services.observers.tell_observers(self.state, traits.observers, publication, &name, None);
        }
        let (_, route) = self.router.cache.get(slot);
        u32::from(reach!(self).dispatch(now, route, publication, source).waits)
    }

    /// Keeps or clears the retained message of a topic whose home is here ([MQTT-3.3.1-5], [MQTT-3.3.1-6]). Does
    /// nothing where the home is elsewhere: the envelope takes it there. `entered_at` is the time at which a client has
    /// given the value, `None` for one that had entered before.
    pub(crate) fn retain(
        &mut self,
        now: Now,
        publication: &mut Publication<'_>,
        entered_at: Option<Millis>,
    ) -> Option<Reason> {
        let (tenant, topic) = owner_of(&self.state.settings, publication.tenant, publication.topic);
        let at_home = self.links.roster.home_of_topic(tenant, topic) == self.links.place.shard;
        if !at_home && !self.state.transfers.keeps(partition_of(tenant, topic)) {
            return None;
        }
        if publication.tenant == TenantId::BROKER_LINK {
            return self.retain_from_fleet(now, publication, entered_at).err();
        }
        if !self.state.transfers.are_none() && !is_own_topic(publication.topic) {
            self.state.transfers.note_retained(now, publication);
        }
        self.retaining.store.keep_retained(now, &self.links.roster, self.state, self.homes, publication)
    }
}

impl Reach<'_> {
    /// Delivers a message along its route: here, to groups, and on to other shards.
    #[inline]
    pub(crate) fn dispatch(
        &mut self,
        now: Now,
        route: &Route,
        publication: &mut Publication<'_>,
        source: &Source,
    ) -> Dispatched {
        self.dispatch_first(now, route, usize::MAX, publication, source)
    }

    /// The same, but only the `first` of this shard's own sessions get it now.
    #[expect(clippy::inline_always, reason = "a separate call costs each message 50 instructions")]
    #[inline(always)]
    pub(crate) fn dispatch_first(
        &mut self,
        now: Now,
        route: &Route,
        first: usize,
        publication: &mut Publication<'_>,
        source: &Source,
    ) -> Dispatched {
        if route.is_local() && !publication.retain {
            let targets = &route.targets()[..first.min(route.targets().len())];
            self.dispatch_local(now, route, targets, publication, source);
            return Dispatched { reached: !route.is_empty(), ..Dispatched::default() };
        }
        self.count_withheld(route);
        self.dispatch_beyond(now, route, first, publication, source)
    }

    /// The same to some of the sessions of this shard, for a message that goes to no others and is not retained.
    #[expect(clippy::inline_always, reason = "a separate call costs each message 50 instructions")]
    #[inline(always)]
    pub(crate) fn dispatch_local(
        &mut self,
        now: Now,
        route: &Route,
        targets: &[Target],
        publication: &mut Publication<'_>,
        source: &Source,
    ) {
        self.count_withheld(route);
        self.begin_receipts(now, route, publication, source, true);
        self.deliver_to(now, route, targets, publication, source);
    }

    /// The same for a message that may go to groups, to other shards, or to its topic's home.
    fn dispatch_beyond(
        &mut self,
        now: Now,
        route: &Route,
        first: usize,
        publication: &mut Publication<'_>,
        source: &Source,
    ) -> Dispatched {
        let mut done = Dispatched { waits: 0, full: 0, reached: !route.is_empty() };
        let remote = self.links.roster.living(route.remote_bits());
        let is_used_later =
            remote != 0 || (publication.retain && !publication.retain_is_done) || !route.groups().is_empty();
        if is_used_later {
            // Before anyone keeps the message: a group that it returns to deals it by its publisher again.
            self.set_publisher(publication, source);
        }
        self.begin_receipts(now, route, publication, source, true);
        self.deliver_to(now, route, &route.targets()[..first.min(route.targets().len())], publication, source);
        if is_used_later {
            if !publication.from_retained {
                self.deal(now, route, publication, source);
            }
            self.send_on(remote, publication, source, &mut done);
        }
        done
    }

    /// Delivers a message that another shard has passed on: to sessions and groups of this one, and no further.
    #[inline]
    pub(crate) fn dispatch_here(
        &mut self,
        now: Now,
        route: &Route,
        publication: &mut Publication<'_>,
        source: &Source,
    ) {
        self.count_withheld(route);
        self.begin_receipts(now, route, publication, source, false);
        self.deliver_here(now, route, publication, source);
        if !publication.from_retained {
            self.deal(now, route, publication, source);
        }
    }

    /// The same for a QoS 2 message with a name, for which there are groups.
    #[cold]
    pub(crate) fn dispatch_named(
        &mut self,
        now: Now,
        route: &Route,
        publication: &mut Publication<'_>,
        source: &Source,
        name: ExchangeName,
    ) {
        self.count_withheld(route);
        self.begin_receipts(now, route, publication, source, false);
        self.deliver_here(now, route, publication, source);
        if !publication.from_retained {
            self.deal_exchange(now, route, publication, source, name, |_| true);
        }
    }

    /// Counts a message for subscribers that may not receive it.
    #[inline]
    fn count_withheld(&mut self, route: &Route) {
        self.state.counters.dropped[Reason::NotAuthorized.number()] += u64::from(route.withheld());
    }

    /// Delivers to this shard's own sessions.
    #[inline]
    pub(crate) fn deliver_here(&mut self, now: Now, route: &Route, publication: &mut Publication<'_>, source: &Source) {
        self.deliver_to(now, route, route.targets(), publication, source);
    }

    /// Delivers to some of a route's targets.
    #[inline]
    pub(crate) fn deliver_to(
        &mut self,
        now: Now,
        route: &Route,
        targets: &[Target],
        publication: &mut Publication<'_>,
        source: &Source,
    ) {
        if targets.is_empty() {
            return;
        }
        publication.wide = targets.len() > 1 && self.state.journal.is_on();
        self.layouts.begin(targets.len());
        let before = self.state.to_write.widen(route.targets().len() > WIDE_RECEIVERS);
        let publisher = source.publisher();
        let check_no_local = route.has_no_local() && source.session.is_some();
        let by_fleet = self.broker_links.brokers.config.is_on() && route.has_no_local() && publication.publisher != 0;
        if publication.retain && self.links.roster.count() != 1 {
            for target in targets {
                let qos = target.qos().min(publication.qos);
                if let Some(session) = self.state.sessions.get_mut(target.session.0) {
                    session.note_fresh(&self.state.settings, publication, qos);
                }
            }
        }
        for target in targets {
            if check_no_local && target.options.no_local() && source.session == Some(target.session) {
                self.deliver_to_publisher(now, publication, target, publisher);
                continue;
            }
            if by_fleet
                && target.options.no_local()
                && self.state.sessions.is_named(target.session, publication.publisher)
            {
                self.deliver_to_publisher(now, publication, target, publisher);
                continue;
            }
            let terms = Terms {
                qos: target.qos(),
                retain: publication.retain && (target.options.retain_as_published() || publication.from_retained),
                subscription_ids: route.subscription_ids(target),
                group: None,
                publisher,
                metered: false,
            };
            self.state.deliver(now.monotonic, publication, self.layouts, target.session, &terms);
        }
        self.state.to_write.widen(before);
    }

    /// Delivers a publisher's own message by its subscriptions without No Local ([MQTT-3.8.3-3]).
    #[cold]
    fn deliver_to_publisher(
        &mut self,
        now: Now,
        publication: &mut Publication<'_>,
        target: &Target,
        publisher: Option<BlockedPublisher>,
    ) {
        let (tenant, topic) = (publication.tenant, publication.topic);
        let Some(own) = self.index.match_for_session(tenant, topic, target.session, self.scratch) else { return };
        let terms = Terms {
            qos: own.qos(),
            retain: publication.retain && own.options.retain_as_published(),
            subscription_ids: self.scratch.subscription_ids(&own),
            group: None,
            publisher,
            metered: false,
        };
        self.state.deliver(now.monotonic, publication, self.layouts, target.session, &terms);
    }

    /// The publisher's name as a number, where groups deal by client.
    fn set_publisher(&mut self, publication: &mut Publication<'_>, source: &Source) {
        if self.state.settings.shared.strategy != SharedStrategy::HashClient {
            return;
        }
        if let Some(session) = source.session.and_then(|session| self.state.sessions.get(session.0)) {
            publication.publisher = hash_name(session.tenant, &session.client_id);
        }
    }

    /// Deals to the shared groups whose home is here.
    pub(crate) fn deal(&mut self, now: Now, route: &Route, publication: &mut Publication<'_>, source: &Source) {
        if route.groups().is_empty() {
            return;
        }
        let from = self.state.transfers.source;
        let of_brokers = self.is_of_brokers(publication);
        for group in route.groups() {
            if self.deals_here(from, *group, of_brokers) {
                dealing!(self).deal_to(now, *group, publication, source, None);
            }
        }
    }

    /// Whether brokers bring a message to each orchestrator of a cluster that has its filter.
    pub(crate) fn is_of_brokers(&self, publication: &Publication<'_>) -> bool {
        publication.tenant != TenantId::BROKER_LINK
            && self.broker_links.brokers.config.is_on()
            && !self.state.settings.is_kept_from_brokers(publication.topic)
    }

    /// Whether this shard deals a message of a shard to a group. Messages of brokers are dealt at the group's home
    /// alone.
    pub(crate) fn deals_here(&self, from: ShardId, key: GroupKey, of_brokers: bool) -> bool {
        if !of_brokers {
            return self.groups.deals_for(from, key);
        }
        let partition = self.groups.partition_of(key);
        partition.is_some_and(|partition| self.state.departures.deals(&self.links.roster, partition))
    }

    /// Passes a message on to the shards that want it, and to its topic's home.
    fn send_on(&mut self, remote: u64, publication: &mut Publication<'_>, source: &Source, done: &mut Dispatched) {
        let mut homes = 0;
        let kept_by_brokers =
            publication.tenant == TenantId::BROKER_LINK && self.broker_links.brokers.config.brokers_decide();
        if publication.retain && !publication.retain_is_done && !kept_by_brokers {
            publication.beyond_quota |=
                crate::state::is_of_own(source.session, (&self.state.sessions, &self.state.connections));
            let (tenant, topic) = owner_of(&self.state.settings, publication.tenant, publication.topic);
            let home = self.links.roster.home_of_topic(tenant, topic);
            let partition = partition_of(tenant, topic);
            let new_home = self.state.transfers.new_home(partition).filter(|_| !is_own_topic(topic));
            homes = (1u64 << home.0 | new_home.map_or(0, |shard| 1 << shard.0)) & !(1 << self.links.place.shard.0);
        }
        let mut bits = remote | homes;
        let mut crossing = None;
        let own = bits & !self.links.roster.peers().0;
        if own != 0 && self.must_be_kept(publication, source) {
            let name = self.links.exchange.map(|word| word.name);
            let way =
                Way::Publish { shards: self.links.place.shards, deliver: remote & own, retain: homes & own, name };
            crossing = Some(self.state.crossings.begin_crossing(&mut self.state.journal, publication, &way, own));
        }
        while bits != 0 {
            let bit = bits & bits.wrapping_neg();
            bits &= bits - 1;
            let shard = ShardId(bit.trailing_zeros() as u16);
            let mut purpose = 0;
            if remote & bit != 0 {
                purpose |= DELIVER;
            }
            if homes & bit != 0 {
                purpose |= at_home(publication);
            }
            if publication.from_retained {
                purpose |= FROM_RETAINED;
            }
            let ticket = source.ticket.filter(|_| publication.qos != QoS::AtMostOnce || source.is_outgoing());
            let passage = source.passage(&self.state.overflow, purpose, ticket, publication.priority);
            self.links.send_publish(shard, &passage, publication, !source.may_repeat(publication.qos));
            self.links.send_crossing(shard, crossing.filter(|_| own & bit != 0));
            self.state.counters.shard_messages_out += 1;
            done.waits += u16::from(ticket.is_some());
            if self.links.is_full(shard) {
                done.full |= bit;
            }
        }
    }

    /// Tells the other nodes of a value that a broker has kept and that was not known: interest in its topic may not
    /// cross.
    pub(crate) fn tell_found(&mut self, publication: &mut Publication<'_>, source: &Source) {
        for shard in self.links.roster.peers() {
            let passage = source.passage(&self.state.overflow, DELIVER | FROM_RETAINED, None, publication.priority);
            self.links.send_publish(shard, &passage, publication, true);
            self.state.counters.shard_messages_out += 1;
        }
    }

    /// Sends a value that a broker has brought to its topic's home, to be retained there.
    pub(crate) fn send_to_home(&mut self, publication: &mut Publication<'_>, source: &Source, home: ShardId) {
        let found = if publication.from_retained { FROM_RETAINED } else { 0 };
        let purpose = RETAIN_AT_HOME | BROUGHT | found;
        let passage = source.passage(&self.state.overflow, purpose, source.ticket, publication.priority);
        self.links.send_publish(home, &passage, publication, !source.may_repeat(publication.qos));
        self.state.counters.shard_messages_out += 1;
    }
}

/// The purpose of an envelope to the home of a retained topic.
pub(crate) fn at_home(publication: &Publication<'_>) -> u8 {
    if publication.beyond_quota { RETAIN_AT_HOME | crate::link::envelope::BEYOND_QUOTA } else { RETAIN_AT_HOME }
}
