//! Sessions are read from an image.

use crate::flows::contexts::Moving;
use crate::flows::contexts::Subscribing;
use crate::flows::contexts::subscribing;
use crate::ids::{SessionKey, TenantId};
use crate::image::read_session::{SessionImage, SubscriptionImage};
use crate::now::Now;
use crate::settings::Holding;
use crate::timers::Timer;
use crate::topics::Subscriber;

impl Moving<'_> {
    pub(crate) fn adopt_session(&mut self, now: Now, image: SessionImage) {
        let SessionImage { mut session, subscriptions, memberships, node_groups } = image;
        self.state.settings.fit_standing(now, &mut session);
        let (ends_at, will_due) = session.rare.as_ref().map_or((None, None), |rare| (rare.ends_at, rare.will_due));
        let (tenant, standing) = (session.tenant, session.standing);
        if let Some(flow) = &mut session.flow {
            flow.find_raised();
            self.state.memory.queued_messages += flow.queue.len() as u64;
            self.state.memory.queued_bytes += flow.queue_bytes;
            self.state.memory.held += flow.queue_bytes + flow.inflight_bytes;
            self.state.memory.allow_excess();
        }
        let key = self.state.insert_session(session);
        if let Some(at) = ends_at {
            self.state.timers.set(at, Timer::SessionEnd(key));
        }
        if let Some(due) = will_due {
            self.state.timers.set(due, Timer::Will(key));
        }
        self.state.sessions.watch_expiry(&mut self.state.timers, key);
        let mut stored: Vec<(String, u8, u32)> = Vec::new();
        for SubscriptionImage { filter, options, subscription_id, fetching } in subscriptions {
            stored.push((filter.clone(), options.bits(), subscription_id));
            let subscriber = Subscriber { session: key, options, subscription_id };
            subscribing!(self).adopt_subscription(now, tenant, &filter, subscriber);
            if fetching {
                // The topics have other homes now, so it begins from the start.
                let sessions = &mut self.state.sessions;
                self.retaining.fetches.add_fetch(&self.links.roster, sessions, filter.into(), subscriber);
            }
        }
        for membership in memberships {
            let whole = format!("$share/{}/{}", membership.share, membership.filter);
            stored.push((whole, membership.kept_options(), membership.member.subscription_id));
            subscribing!(self).rejoin_group(now, key, &membership);
        }
        subscribing!(self).restore_standing(now, tenant, standing);
        self.store_adopted(key, &stored);
        for group in node_groups {
            subscribing!(self).restore_node_group(now, Some(key), &group);
        }
    }
}

impl Subscribing<'_> {
    /// Subscribes a session that has no connection, without anyone to answer or to bring retained messages to.
    pub(crate) fn adopt_subscription(&mut self, now: Now, tenant: TenantId, filter: &str, subscriber: Subscriber) {
        let SessionKey(session) = subscriber.session;
        let done = self.router.index.subscribe(tenant, filter, subscriber);
        if done.replaced.is_none()
            && let Some(session) = self.state.sessions.get_mut(session)
        {
            session.filters.push(done.entry);
            self.state.tenants.add(session.counted_for(), Holding::Subscriptions);
        }
        if done.first_local {
            self.announce_interest(tenant, filter, true, None);
            self.note_sys_interest(now, tenant, filter, true);
        }
    }
}
