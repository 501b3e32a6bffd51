//! Retained messages are fetched for a subscription and sent.

use crate::events::reason::Reason;
use crate::flows::contexts::Fetching;
use crate::ids::{ConnectionKey, SessionKey, ShardId, partition_of};
use crate::link::record::Record;
use crate::message::Publication;
use crate::now::Now;
use crate::retained::ScanEnd;
use crate::retained::fetch::starting::STARTS_IN_ANY_CASE;
use crate::retained::fetch::{FetchState, settle_fetches, turn_budget};
use crate::session::terms::Terms;
use crate::topics::is_own_topic;
use std::rc::Rc;

impl Fetching<'_> {
    /// Begins to bring the retained messages of new subscriptions.
    pub(crate) fn start_fetches(&mut self, now: Now, key: ConnectionKey, filters: Vec<Box<str>>) {
        let Some(session) = self.state.connections.session_of(key).filter(|_| !filters.is_empty()) else { return };
        let at_once = filters.len() <= STARTS_IN_ANY_CASE;
        for filter in filters {
            if at_once {
                self.retaining.fetches.withdraw_start(self.state, session, &filter);
                self.start_fetch(session, filter);
            } else {
                self.retaining.fetches.start_later(self.state, session, filter);
            }
        }
        self.forget_expected(session);
        self.go_on_fetching(now);
    }

    fn start_fetch(&mut self, session: SessionKey, filter: Box<str>) {
        // The client may have unsubscribed meanwhile, or have subscribed with other options.
        let subscription = self.router.index.subscription(&self.state.sessions, session, &filter);
        let Some(subscription) = subscription else { return };
        let sessions = &mut self.state.sessions;
        if let Some(id) = self.retaining.fetches.add_fetch(&self.links.roster, sessions, filter, subscription) {
            self.retaining.fetches.set_fetch_running(id);
        }
    }

    /// Makes a SUBACK wait for other shards before its fetches. Live messages until then are newer than fetched ones.
    pub(crate) fn expect_fetches(&mut self, session: SessionKey, filters: &[Box<str>]) {
        if self.links.roster.count() != 1
            && !filters.is_empty()
            && let Some(session) = self.state.sessions.get_mut(session.0)
        {
            session.rare_mut().fetches_expected += 1;
        }
    }

    fn forget_expected(&mut self, session: SessionKey) {
        let Some(session) = self.state.sessions.get_mut(session.0) else { return };
        let Some(rare) = session.rare.as_mut() else { return };
        rare.fetches_expected = rare.fetches_expected.saturating_sub(1);
        settle_fetches(session);
    }

    /// Takes the steps of a new turn.
    pub(crate) fn run_fetches(&mut self, now: Now) {
        self.retaining.fetches.budget = turn_budget(self.state.settings.retained.step);
        self.retaining.fetches.allow_starts();
        self.go_on_fetching(now);
    }

    /// Takes as many steps as this turn still allows; the next turn continues.
    fn go_on_fetching(&mut self, now: Now) {
        while let Some((session, filter)) = self.retaining.fetches.next_start(self.state) {
            self.start_fetch(session, filter);
            if let Some(session) = self.state.sessions.get_mut(session.0) {
                settle_fetches(session);
            }
        }
        while self.retaining.fetches.budget > 0 {
            let Some(id) = self.retaining.fetches.runnable.pop_front() else { return };
            let Some(fetch) = self.retaining.fetches.by_id.get(&id) else { continue };
            let looked_at =
                if fetch.filter.contains(['+', '#']) { self.state.settings.retained.step.max(1) } else { 1 };
            self.retaining.fetches.budget = self.retaining.fetches.budget.saturating_sub(looked_at);
            self.step_fetch(now, id);
        }
    }

    fn step_fetch(&mut self, now: Now, id: u32) {
        let Some(fetch) = self.retaining.fetches.by_id.get(&id) else { return };
        if !self.state.connections.have_room_for(&self.state.sessions, self.state.high_water, fetch.session) {
            self.retaining.fetches.let_sleep(id);
            return;
        }
        if self.retaining.fetches.waits_for_moves(&self.links.roster, &self.state.transfers, id) {
            return;
        }
        if self.retaining.fetches.waits_for_dead(&self.links.roster, id) {
            return;
        }
        let Some(shard) = self.retaining.fetches.next_to_ask(&self.links.roster, id) else {
            self.retaining.fetches.end_fetch(&mut self.state.sessions, id);
            return;
        };
        let Some(fetch) = self.retaining.fetches.by_id.get_mut(&id) else { return };
        if shard != self.links.place.shard {
            fetch.state = FetchState::Asked;
            let (tenant, filter, after) = (fetch.tenant, &*fetch.filter, &*fetch.after);
            self.links.send(shard, Record::RetainedQuery { fetch: id, tenant, filter, after });
            return;
        }
        let mut found = Vec::new();
        let after = (!fetch.after.is_empty()).then_some(&*fetch.after);
        let budget = self.state.settings.retained.step;
        let end = self.retaining.store.values.scan(
            fetch.tenant,
            &fetch.filter,
            after,
            budget,
            now.monotonic,
            &mut |_, message| {
                found.push(Rc::clone(message));
            },
        );
        found.retain(|message| {
            is_own_topic(message.topic())
                || !self.state.transfers.is_incomplete(partition_of(message.tenant, message.topic()))
        });
        let after = match end {
            ScanEnd::Done => String::new(),
            ScanEnd::More(after) => after.into(),
        };
        for message in found {
            self.deliver_retained(now, shard, id, &mut message.publication());
        }
        self.retaining.fetches.continue_fetch(&mut self.state.sessions, id, after);
    }

    fn deliver_retained(&mut self, now: Now, from: ShardId, id: u32, publication: &mut Publication<'_>) {
        let Some(fetch) = self.retaining.fetches.by_id.get(&id) else { return };
        if self.state.transfers.is_value_of_other_shard(&self.links.roster, fetch, from, publication) {
            return;
        }
        let session = self.state.sessions.get(fetch.session.0);
        if publication.expires_at <= now.monotonic {
            return;
        }
        if !self.rules.may_receive(self.state, fetch.session, publication.topic) {
            let to = fetch.session;
            self.state.reports().drop_for(Reason::NotAuthorized, to, publication.topic);
            return;
        }
        if session
            .and_then(|session| session.rare.as_ref())
            .and_then(|rare| rare.fresh_topics.get(publication.topic))
            .is_some_and(|live| *live >= publication.publisher)
        {
            return;
        }
        let ids = [fetch.subscription_id];
        let terms = Terms {
            qos: fetch.options.qos(),
            retain: true,
            subscription_ids: if fetch.subscription_id == 0 { &[] } else { &ids },
            group: None,
            publisher: None,
            metered: true,
        };
        self.layouts.begin(1);
        self.state.deliver(now.monotonic, publication, self.layouts, fetch.session, &terms);
    }

    /// A retained message that another shard has sent.
    pub(crate) fn handle_retained_item(
        &mut self,
        now: Now,
        from: ShardId,
        fetch: u32,
        publication: &mut Publication<'_>,
    ) {
        self.deliver_retained(now, from, fetch, publication);
    }
}
