//! Subscriptions are added and removed.

pub(crate) mod steps;

use crate::connection::Connection;
use crate::events::reason::Reason;
use crate::flows::contexts::Subscribing;
use crate::ids::{SessionKey, TenantId, group_partition};
use crate::journal::keys::STORED_NAME_MAX;
use crate::link::envelope::Ticket;
use crate::link::record::{MemberOptions, Record};
use crate::now::Now;
use crate::roster::Roster;
use crate::settings::Holding;
use crate::settings::fleet_topics::is_too_long_at_brokers;
use crate::state::ShardState;
use crate::subscribe::{Request, SubAckWaits};
use crate::topics::{FilterKey, Subscriber, is_own_topic};
use tidegate_mqtt::{RetainHandling, TopicFilter};

/// Whether a session would become a member of a group while no orchestrator asks its brokers for the filter: the home of the
/// group is out of reach, or dead without a successor. For a member that the home has confirmed, its brokers keep the
/// messages.
fn is_home_of_group_away(
    request: &Request<'_>,
    roster: &Roster,
    state: &ShardState,
    (share, filter): (&str, &str),
) -> bool {
    if !roster.is_of_orchestrators() || !roster.lacks_home(group_partition(request.tenant, share, filter)) {
        return false;
    }
    let rare = state.sessions.get(request.session.0).and_then(|session| session.rare.as_ref());
    let membership = rare.and_then(|rare| rare.memberships.get(rare.find_membership(share, filter).ok()?));
    let is_member = membership.is_some_and(|membership| membership.is_confirmed());
    !is_member && !state.settings.is_kept_from_brokers(filter)
}

impl Subscribing<'_> {
    /// Whether a filter is valid for a subscription, and its client is allowed to subscribe.
    fn check_subscription(&self, request: &Request<'_>) -> Result<(), Reason> {
        let max_levels = usize::from(self.state.settings.limits.max_topic_levels);
        // The home of a shared group stores its name.
        let is_stored = self.state.journal.is_on() || self.links.roster.is_of_orchestrators();
        let storable = !is_stored || request.filter.as_str().len() <= STORED_NAME_MAX;
        if !storable {
            return Err(Reason::FilterTooLong);
        }
        if request.filter.levels().count() > max_levels {
            return Err(Reason::FilterTooDeep);
        }
        self.state.settings.check_filter_size(request.filter)?;
        let behind_share = request.filter.shared().map_or(request.filter, |(_, filter)| filter);
        let tenant = self.state.sessions.get(request.session.0).map_or(TenantId::DEFAULT, |session| session.tenant);
        let has_brokers = self.broker_links.brokers.config.is_on();
        if has_brokers && is_too_long_at_brokers(&self.state.settings, tenant, behind_share.as_str()) {
            return Err(Reason::FilterTooLong);
        }
        let shared = request.filter.shared().is_some();
        if !self.rules.may_subscribe(self.state, request.session, behind_share.as_str(), request.options.qos(), shared)
        {
            return Err(Reason::NotAuthorized);
        }
        Ok(())
    }

    /// Adds one subscription, and the waits of its SUBACK.
    pub(crate) fn subscribe(
        &mut self,
        now: Now,
        request: &Request<'_>,
        fetches: &mut Vec<Box<str>>,
        waits: &mut SubAckWaits,
    ) -> Result<(), Reason> {
        self.check_subscription(request)?;
        if let Some((share, filter)) = request.filter.shared() {
            if !self.state.settings.shared.available {
                return Err(Reason::SharedNotSupported);
            }
            if is_home_of_group_away(request, &self.links.roster, self.state, (share, filter.as_str())) {
                return Err(Reason::GroupHomeAway);
            }
            self.check_subscription_limit(request)?;
            let member = MemberOptions { options: request.options.bits(), subscription_id: request.subscription_id };
            self.join_group(now, request.session, share, filter.as_str(), member, request.ticket, waits);
            if let Some(membership) = waits.joined.last() {
                membership.store(&mut self.state.sessions, &mut self.state.journal, request.session);
            }
            self.state.tenants.release(request.counted_for, Holding::Subscriptions, 1);
            return Ok(());
        }
        let filter = request.filter.as_str();
        self.check_subscription_limit(request)?;
        let subscriber =
            Subscriber { session: request.session, options: request.options, subscription_id: request.subscription_id };
        let done = self.router.index.subscribe(request.tenant, filter, subscriber);
        self.state.sessions.store_subscription(
            &mut self.state.journal,
            request.session,
            filter,
            request.options.bits(),
            request.subscription_id,
        );
        if done.replaced.is_none()
            && let Some(session) = self.state.sessions.get_mut(request.session.0)
        {
            session.filters.push(done.entry);
            self.state.tenants.add(request.counted_for, Holding::Subscriptions);
        }
        self.state.tenants.release(request.counted_for, Holding::Subscriptions, 1);
        let fetch = match request.retain_handling {
            RetainHandling::SendAtSubscribe => true,
            RetainHandling::SendIfNew => done.replaced.is_none(),
            RetainHandling::DoNotSend => false,
        };
        if fetch && self.state.settings.retained.available {
            fetches.push(filter.into());
        }
        if done.first_local {
            self.note_sys_interest(now, request.tenant, filter, true);
            waits.add_notified(self.announce_interest(request.tenant, filter, true, Some(request.ticket)));
        } else {
            waits.add_notified(0);
        }
        Ok(())
    }

    /// Removes one subscription; returns whether there was one.
    pub(crate) fn unsubscribe(&mut self, now: Now, key: SessionKey, filter: TopicFilter<'_>) -> bool {
        if let Some((share, behind_share)) = filter.shared() {
            let left = self.leave_group(now, key, share, behind_share.as_str());
            if left {
                self.state.sessions.forget_subscription(&mut self.state.journal, key, filter.as_str());
            }
            return left;
        }
        let Some(session) = self.state.sessions.get_mut(key.0) else { return false };
        let (tenant, counted) = (session.tenant, session.counted_for());
        let Some(removed) = self.router.index.unsubscribe(tenant, filter.as_str(), key) else { return false };
        session.filters.remove(removed.entry);
        self.state.tenants.release(counted, Holding::Subscriptions, 1);
        self.state.sessions.forget_subscription(&mut self.state.journal, key, filter.as_str());
        self.retaining.fetches.forget_fetch_of(self.state, key, filter.as_str());
        if removed.last_local {
            self.announce_interest(tenant, filter.as_str(), false, None);
            self.note_sys_interest(now, tenant, filter.as_str(), false);
        }
        true
    }
}

impl Subscribing<'_> {
    /// Another subscriber's interest in the same filter may still be on its way: then a SUBACK waits until it has
    /// arrived, too. Returns the number of shards that will confirm.
    ///
    /// A subscriber that asks homes of topics for retained messages (`asks_homes`) always waits: messages that another
    /// shard sent here before must have reached the topic's home. Otherwise the new subscription would get neither the
    /// message nor the retained value. With two shards the home is one of them, and one link keeps the order.
    pub(crate) fn wait_for_interest(&mut self, ticket: Ticket, asks_homes: bool) -> u16 {
        if self.peers.interest_under_way == 0 && !(asks_homes && self.links.roster.count() > 2) {
            return 0;
        }
        let mut told = u16::from(self.broker_links.wanted.wait_behind(self.links.place.shard, ticket));
        for shard in self.links.roster.others() {
            self.links.send(shard, Record::InterestBarrier { ticket });
            told += 1;
        }
        self.peers.interest_under_way += u64::from(told);
        told
    }

    /// A client may subscribe again to its own filters, also at its limit and when memory is short. For a new filter,
    /// one subscription of its tenant is reserved until the subscription counts itself.
    fn check_subscription_limit(&mut self, request: &Request<'_>) -> Result<(), Reason> {
        let Some(refused) = self.subscription_refusal(request) else { return Ok(()) };
        if !self.router.index.has_subscription(&self.state.sessions, request) {
            return Err(refused);
        }
        self.state.tenants.add(request.counted_for, Holding::Subscriptions);
        Ok(())
    }

    /// Why there cannot be one more subscription; without a reason, one of the tenant's is taken.
    fn subscription_refusal(&mut self, request: &Request<'_>) -> Option<Reason> {
        let max = self.state.settings.limits.max_subscriptions_per_client as usize;
        let session = self.state.sessions.get(request.session.0)?;
        if session.subscriptions() >= max {
            return Some(Reason::TooManySubscriptions);
        }
        if self.state.journal.full && session.stored.is_some() {
            return Some(Reason::StoreFull);
        }
        if self.state.memory.would_exceed_ceiling(self.router.index.bytes() + request.filter.as_str().len() as u64) {
            return Some(Reason::MemoryCeiling);
        }
        if session.connection.and_then(|key| self.state.connections.get(key)).is_some_and(Connection::is_own) {
            self.state.tenants.add(request.counted_for, Holding::Subscriptions);
            return None;
        }
        let claimed = self.state.tenants.claim(request.counted_for, Holding::Subscriptions);
        (!claimed).then_some(Reason::TenantSubscriptions)
    }

    /// Tells all other shards; returns how many will confirm.
    pub(crate) fn announce_interest(
        &mut self,
        tenant: TenantId,
        filter: &str,
        present: bool,
        ticket: Option<Ticket>,
    ) -> u16 {
        let mut told = 0;
        for shard in self.links.roster.others_for(tenant, filter) {
            self.links.send(shard, Record::Interest { tenant, filter, present, ticket });
            told += 1;
        }
        told += u16::from(self.broker_links.wanted.note_wanted(
            self.state,
            &mut self.broker_links.brokers,
            (tenant, filter),
            self.links.place.shard,
            present,
            ticket,
        ));
        if ticket.is_none() {
            return 0;
        }
        self.peers.interest_under_way += u64::from(told);
        told
    }

    /// Removes all subscriptions of a session at once.
    pub(crate) fn remove_subscriptions(&mut self, now: Now, key: SessionKey) {
        let Some(session) = self.state.sessions.get_mut(key.0) else { return };
        self.state.tenants.release(session.counted_for(), Holding::Subscriptions, session.subscriptions());
        let filters = std::mem::take(&mut session.filters);
        let memberships = session.rare.as_mut().map(|rare| std::mem::take(&mut rare.memberships)).unwrap_or_default();
        for filter in filters.iter() {
            self.remove_subscription(now, key, filter);
        }
        for membership in memberships {
            self.leave_home(now, key, &membership);
        }
    }

    /// Removes a subscription that its session does not list any more.
    pub(crate) fn remove_subscription(&mut self, now: Now, key: SessionKey, filter: FilterKey) {
        let links = &mut *self.links;
        let notes_unwanted = self.broker_links.brokers.config.has_broker_links_here();
        let mut noted = None;
        self.router.index.unsubscribe_entry(filter, key, |tenant, filter| {
            for shard in links.roster.others_for(tenant, filter) {
                links.send(shard, Record::Interest { tenant, filter, present: false, ticket: None });
            }
            if notes_unwanted || is_own_topic(filter) {
                noted = Some((tenant, filter.to_owned()));
            }
        });
        let Some((tenant, filter)) = noted else { return };
        if is_own_topic(&filter) {
            self.note_sys_interest(now, tenant, &filter, false);
        } else {
            let (brokers, here) = (&mut self.broker_links.brokers, self.links.place.shard);
            self.broker_links.wanted.note_wanted(self.state, brokers, (tenant, &filter), here, false, None);
        }
    }
}
