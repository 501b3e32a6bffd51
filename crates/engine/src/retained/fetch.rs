//! Bringing retained messages to new subscriptions: step by step, from every shard that has some, as fast as the client
//! takes them.

mod absent;
mod moved;
pub(crate) mod starting;

use crate::ids::{Partitions, SessionKey, ShardId, TenantId, partition_of};
use crate::link::Links;
use crate::link::envelope::Envelope;
use crate::link::record::Record;
use crate::message::Publication;
use crate::now::Now;
use crate::publish::dispatch::Source;
use crate::retained::fetch::starting::{STARTS_PER_TURN, Starting};
use crate::retained::{RetainedStore, ScanEnd};
use crate::roster::Roster;
use crate::session::Session;
use crate::session::table::Sessions;
use crate::settings::Settings;
use crate::state::ShardState;
use crate::topics::{Subscriber, SubscriberOptions, SubscriptionIndex, is_own_topic};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tidegate_mqtt::QoS;

/// All fetches of a shard.
#[derive(Debug, Default)]
pub(crate) struct Fetches {
    pub(crate) by_id: BTreeMap<u32, Fetch>,
    /// The fetch of a session's subscription, by its filter.
    by_filter: BTreeMap<(u32, Box<str>), u32>,
    /// Fetches whose next step may be taken.
    pub(crate) runnable: VecDeque<u32>,
    /// Fetches in the state [`FetchState::NoRoom`], by their sessions.
    sleeping: BTreeSet<(u32, u32)>,
    starting: Starting,
    next: u32,
    /// Topics that may still be looked at in this turn.
    pub(crate) budget: u32,
    /// Fetches that may still begin in this turn.
    starts: usize,
}

/// The retained messages of one new subscription.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) session: SessionKey,
    pub(crate) tenant: TenantId,
    pub(crate) filter: Box<str>,
    pub(crate) options: SubscriberOptions,
    pub(crate) subscription_id: u32,
    /// Shards that are still to be asked, the present one last.
    shards: Vec<ShardId>,
    /// The last topic that was seen on the present shard.
    pub(crate) after: String,
    /// Partitions whose values are still wanted.
    wanted: Partitions,
    /// Partitions that moved away from a shard before it had sent all values, to a shard that will send none of them:
    /// asked at the end.
    again: Partitions,
    /// All shards have been asked, and new homes of `again` are asked now.
    is_second_look: bool,
    pub(crate) state: FetchState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchState {
    /// In the list of fetches that may take a step.
    Runnable,
    /// Another shard was asked.
    Asked,
    /// The client has to read or acknowledge first.
    NoRoom,
    /// A move that it may be about has to be decided first.
    Moves,
    /// The rest is at dead nodes without a successor.
    Absent,
}

/// Topics remembered as fresher than fetched values, per session. Beyond it a late older value may come through.
const FRESH_TOPICS_MAX: usize = 4096;

/// Steps taken in one turn at most, so that other work gets its turn.
const STEPS_PER_TURN: u32 = 8;

/// Topics that may be looked at in one turn.
pub(crate) fn turn_budget(step: u32) -> u32 {
    STEPS_PER_TURN.saturating_mul(step.max(1))
}

impl Fetches {
    /// No fetch, and the budget of a first turn; the number of topics that a step looks at.
    pub(crate) fn new(step: u32) -> Self {
        Self { budget: turn_budget(step), starts: STARTS_PER_TURN, ..Self::default() }
    }

    fn add(&mut self, fetch: Fetch) -> u32 {
        let id = self.next;
        self.next = id.wrapping_add(1);
        self.by_filter.insert((fetch.session.0, fetch.filter.clone()), id);
        if fetch.state == FetchState::NoRoom {
            self.sleeping.insert((fetch.session.0, id));
        }
        self.by_id.insert(id, fetch);
        id
    }

    /// Compares the fetches with the fetches noted in sessions.
    pub(crate) fn audit(&self, state: &ShardState, wrong: &mut dyn FnMut(String)) {
        for (id, fetch) in &self.by_id {
            let session = state.sessions.get(fetch.session.0);
            let rare = session.and_then(|session| session.rare.as_ref());
            let runnable = fetch.state != FetchState::Runnable || self.runnable.contains(id);
            let sleeps = fetch.state == FetchState::NoRoom
                && state.connections.have_room_for(&state.sessions, state.high_water, fetch.session)
                || fetch.state == FetchState::Moves && !state.transfers.have_cuts();
            let noted = self.sleeping.contains(&(fetch.session.0, *id)) == (fetch.state == FetchState::NoRoom);
            if !rare.is_some_and(|rare| rare.fetches.contains(id)) || !runnable || !noted || sleeps {
                wrong(format!("a fetch of {:?} for {:?} is lost", fetch.filter, session.map(|one| &one.client_id)));
            }
        }
        let known = state.sessions.iter().filter_map(|(_, session)| session.rare.as_ref());
        let known: usize = known.map(|rare| rare.fetches.len()).sum();
        if known != self.by_id.len() || self.by_filter.len() != self.by_id.len() {
            wrong(format!(
                "{} fetches, {known} known to sessions, {} by filter",
                self.by_id.len(),
                self.by_filter.len()
            ));
        }
        self.audit_starting(state, wrong);
    }

    fn audit_starting(&self, state: &ShardState, wrong: &mut dyn FnMut(String)) {
        let mut known = 0;
        for (key, session) in state.sessions.iter() {
            let noted = session.rare.as_ref().map_or(0, |rare| rare.fetches_starting as usize);
            let counted = self.starting.count_of(SessionKey(key));
            if noted != counted {
                wrong(format!("{noted} fetches of {:?} are to begin, {counted} is true", session.client_id));
            }
            known += counted;
        }
        let all = self.starting.count();
        if known != all {
            wrong(format!("{all} fetches are to begin, {known} of them for known sessions"));
        }
    }

    fn remove(&mut self, id: u32) -> Option<Fetch> {
        let fetch = self.by_id.remove(&id)?;
        self.sleeping.remove(&(fetch.session.0, id));
        self.by_filter.remove(&(fetch.session.0, fetch.filter.clone()));
        Some(fetch)
    }

    pub(crate) fn has_runnable(&self) -> bool {
        !self.runnable.is_empty() || !self.starting.is_empty()
    }

    /// A session has room again.
    pub(crate) fn wake(&mut self, state: &ShardState, session: SessionKey) {
        if !state.connections.have_room_for(&state.sessions, state.high_water, session) {
            return;
        }
        let of_session = self.sleeping.range((session.0, 0)..=(session.0, u32::MAX));
        let woken: Vec<u32> = of_session.map(|(_, id)| *id).collect();
        for id in woken {
            self.set_fetch_running(id);
        }
    }

    /// The client of a fetch has to read or acknowledge first.
    pub(crate) fn let_sleep(&mut self, id: u32) {
        if let Some(fetch) = self.by_id.get_mut(&id) {
            fetch.state = FetchState::NoRoom;
            self.sleeping.insert((fetch.session.0, id));
        }
    }
}

impl SubscriptionIndex {
    /// The subscription of a session to a filter.
    pub(crate) fn subscription(&self, sessions: &Sessions, session: SessionKey, filter: &str) -> Option<Subscriber> {
        let tenant = sessions.get(session.0)?.tenant;
        self.subscriber(self.find(tenant, filter)?, session)
    }
}

impl Fetches {
    /// Notes the retained messages that a subscription is owed; they are brought once the client has room.
    pub(crate) fn add_fetch(
        &mut self,
        roster: &Roster,
        sessions: &mut Sessions,
        filter: Box<str>,
        Subscriber { session, options, subscription_id }: Subscriber,
    ) -> Option<u32> {
        let tenant = sessions.get(session.0)?.tenant;
        let wildcard = filter.contains(['+', '#']);
        let home = roster.home_of_topic(tenant, &filter);
        let (wanted, again) = absent::wanted_at_first(roster, &filter);
        let shards = if wildcard { roster.homes_for(&filter).into_iter().collect() } else { vec![home] };
        self.end_fetch_of(sessions, session, &filter);
        let id = self.add(Fetch {
            session,
            tenant,
            options,
            subscription_id,
            filter,
            shards,
            after: String::new(),
            wanted,
            again,
            is_second_look: false,
            state: FetchState::NoRoom,
        });
        sessions.get_mut(session.0)?.rare_mut().fetches.insert(id);
        Some(id)
    }

    pub(crate) fn set_fetch_running(&mut self, id: u32) {
        if let Some(fetch) = self.by_id.get_mut(&id) {
            self.sleeping.remove(&(fetch.session.0, id));
            fetch.state = FetchState::Runnable;
            self.runnable.push_back(id);
        }
    }

    /// One step is done; the next one starts behind `after`, or on the next shard.
    pub(crate) fn continue_fetch(&mut self, sessions: &mut Sessions, id: u32, after: String) {
        let Some(fetch) = self.by_id.get_mut(&id) else { return };
        if after.is_empty() {
            fetch.shards.pop();
        }
        fetch.after = after;
        if fetch.shards.is_empty() && fetch.again.is_empty() {
            self.end_fetch(sessions, id);
            return;
        }
        self.set_fetch_running(id);
    }

    pub(crate) fn end_fetch(&mut self, sessions: &mut Sessions, id: u32) {
        let Some(fetch) = self.remove(id) else { return };
        let Some(session) = sessions.get_mut(fetch.session.0) else { return };
        if let Some(rare) = session.rare.as_mut() {
            rare.fetches.remove(&id);
        }
        settle_fetches(session);
    }

    /// A shard of another node is gone: its values are not awaited.
    pub(crate) fn skip_fetches(&mut self, roster: &Roster, sessions: &mut Sessions, peer: ShardId) {
        let asks = |fetch: &Fetch| fetch.shards.contains(&peer);
        let asking: Vec<u32> = self.by_id.iter().filter(|(_, it)| asks(it)).map(|(id, _)| *id).collect();
        for id in asking {
            self.want_again_of(roster, id, peer);
            let Some(fetch) = self.by_id.get_mut(&id) else { continue };
            if fetch.is_of_one_topic() {
                // The next home of the partition is asked.
                if fetch.state == FetchState::Asked {
                    self.set_fetch_running(id);
                }
                continue;
            }
            let present = fetch.shards.last() == Some(&peer);
            if !present {
                fetch.shards.retain(|shard| *shard != peer);
            } else if fetch.state == FetchState::Asked {
                self.continue_fetch(sessions, id, String::new());
            } else {
                fetch.shards.pop();
                fetch.after = String::new();
            }
        }
    }

    /// Ends the fetch for a subscription that is gone or made again, if it has begun.
    fn end_fetch_of(&mut self, sessions: &mut Sessions, session: SessionKey, filter: &str) {
        if let Some(id) = self.fetch_of(sessions, session, filter) {
            self.end_fetch(sessions, id);
        }
    }

    /// The fetch for a subscription that has not been brought all of its retained messages yet.
    pub(crate) fn fetch_of(&self, sessions: &Sessions, session: SessionKey, filter: &str) -> Option<u32> {
        let rare = sessions.get(session.0)?.rare.as_ref()?;
        if rare.fetches.is_empty() {
            return None;
        }
        self.by_filter.get(&(session.0, filter.into())).copied()
    }

    /// Suspends the fetches of a session until its client returns. Each fetch gets a new number, so answers of other
    /// shards to the old connection are ignored.
    pub(crate) fn suspend_fetches(&mut self, sessions: &mut Sessions, session: SessionKey) {
        let Some(rare) = sessions.get_mut(session.0).and_then(|session| session.rare.as_mut()) else {
            return;
        };
        rare.fresh_topics = std::collections::HashMap::default();
        rare.fetches_expected = 0;
        let suspended = std::mem::take(&mut rare.fetches);
        let fetches = suspended.into_iter().filter_map(|id| self.remove(id));
        let fetches: Vec<Fetch> = fetches.collect();
        rare.fetches =
            fetches.into_iter().map(|fetch| self.add(Fetch { state: FetchState::NoRoom, ..fetch })).collect();
    }

    /// Ends all fetches of a session.
    pub(crate) fn end_fetches(&mut self, state: &mut ShardState, session: SessionKey) {
        self.withdraw_starts(state, session);
        let Some(rare) = state.sessions.get_mut(session.0).and_then(|session| session.rare.as_mut()) else {
            return;
        };
        rare.fresh_topics = std::collections::HashMap::default();
        for id in std::mem::take(&mut rare.fetches) {
            self.remove(id);
        }
    }

    /// Another shard has sent one step's worth.
    pub(crate) fn handle_retained_end(&mut self, sessions: &mut Sessions, fetch: u32, after: &str) {
        self.continue_fetch(sessions, fetch, after.to_owned());
    }
}

impl RetainedStore {
    /// Another shard asks for retained messages of this one: one step's worth, and where the next one starts.
    pub(crate) fn answer_retained_query(
        &mut self,
        now: Now,
        state: &mut ShardState,
        links: &mut Links,
        (from, fetch): (ShardId, u32),
        (tenant, filter): (TenantId, &str),
        after: &str,
    ) {
        let after = (!after.is_empty()).then_some(after);
        let source = Source::inside(links.place.shard, now);
        let transfers = &state.transfers;
        let budget = state.settings.retained.step;
        let end = self.values.scan(tenant, filter, after, budget, now.monotonic, &mut |_, message| {
            let is_own = is_own_topic(message.topic());
            if !is_own && transfers.is_incomplete(partition_of(message.tenant, message.topic())) {
                return;
            }
            if is_own && !links.roster.is_own(from) {
                return;
            }
            let envelope = Envelope {
                purpose: 0,
                origin: source.origin,
                sequence: 0,
                entered_at: source.entered_at,
                priority: 0,
                hops: 0,
                from: None,
                ticket: None,
                publication: message.publication(),
            };
            links.send(from, Record::RetainedItem { fetch, envelope });
        });
        let after: Box<str> = match end {
            ScanEnd::Done => "".into(),
            ScanEnd::More(after) => after,
        };
        links.send(from, Record::RetainedEnd { fetch, after: &after });
    }
}

/// Frees the fields that only fetches need, once no fetch is left.
pub(crate) fn settle_fetches(session: &mut Session) {
    let Some(rare) = session.rare.as_mut() else { return };
    if !rare.awaits_retained() {
        rare.fresh_topics = std::collections::HashMap::default();
    }
    if rare.is_idle() {
        session.rare = None;
    }
}

impl Session {
    /// A message that changes a retained value reaches a session live while it fetches: the fetched value is older,
    /// unless a broker brings the message late.
    pub(crate) fn note_fresh(&mut self, settings: &Settings, publication: &Publication<'_>, qos: QoS) {
        let keeps = qos != QoS::AtMostOnce || settings.queue.keep_qos0_offline;
        // A message that is not kept for an offline client will not reach it live.
        let Some(rare) = self.rare.as_mut().filter(|_| keeps || self.connection.is_some()) else { return };
        let topics = &rare.fresh_topics;
        let has_room = topics.len() < FRESH_TOPICS_MAX || topics.contains_key(publication.topic);
        if rare.awaits_retained() && has_room {
            let version = if publication.version == 0 { u64::MAX } else { publication.version };
            let newest = rare.fresh_topics.entry(publication.topic.into()).or_default();
            *newest = version.max(*newest);
        }
    }
}
