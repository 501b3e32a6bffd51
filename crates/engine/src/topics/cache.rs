//! Routes of the topics that are published to most.

use super::SubscriptionIndex;
use super::route::Route;
use crate::hash::hash_bytes;
use crate::ids::{ObserverId, SessionKey, TenantId};
use crate::settings::Settings;
use crate::settings::fleet_topics::{is_of_tenant, owner_of};
use crate::settings::overflow::may_reject;
use crate::settings::priority::TopicPriority;
use crate::topics::address_name::{is_address, is_for_applications, is_report};
use crate::topics::is_own_topic;
use crate::topics::observed::{ObservedTopics, ObserverSet};
use crate::topics::origin::{checks_of, is_for_hub};
use crate::topics::stages::Stage;
use crate::topics::stages::StageSet;
use std::sync::Arc;

/// Topics whose routes are kept. A set of two holds any topic in either place.
const SLOTS: usize = 1024;

/// Index of the route that is used once and not kept.
const UNCACHED: usize = SLOTS;

/// Longer topics, in bytes, are matched for each message.
const TOPIC_LEN_MAX: usize = 1024;

/// A route to more targets than this is large: matching it again costs little beside its deliveries.
const LARGE_TARGETS: usize = 10_000;

/// Large routes kept at once; further ones are matched for each message.
const LARGE_ROUTES_MAX: usize = 4;

/// Targets of all kept routes together, 12 bytes each. A route that does not fit, even without the outdated ones, is
/// matched for each message.
const TARGETS_MAX: usize = 1 << 20;

/// Remembers the routes of recent topics until the subscriptions change.
///
/// A topic that is found here needs no validation either: only valid ones enter. A new topic takes the place of one
/// that has not come again, so that a stream of topics that come once does not drive out the others.
#[derive(Debug, Default)]
pub(crate) struct RouteCache {
    /// The settings of a topic are looked up with its route.
    settings: Arc<Settings>,
    /// So are the observers of topics.
    observed: ObservedTopics,
    /// Empty until the first message.
    tags: Vec<Tag>,
    /// In the order of `tags`, and the uncached one at the end.
    routes: Vec<Cached>,
    /// Sum of the capacities of `routes`, but for the uncached one.
    held: usize,
    large: usize,
    /// Epoch at which outdated routes were given up last.
    swept: u64,
    /// How often a route was made.
    fills: u32,
}

/// A place in a [`RouteCache`]; good until the next [`RouteCache::fill`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteSlot(u16);

#[derive(Clone, Copy, Debug)]
struct Tag {
    hash: u64,
    /// Epoch of the index that the route was made from, times two, plus one if the topic has come again since.
    epoch_and_hit: u64,
}

impl Tag {
    const EMPTY: Self = Self { hash: 0, epoch_and_hit: u64::MAX };

    #[inline]
    fn is_current(self, epoch: u64) -> bool {
        self.epoch_and_hit >> 1 == epoch
    }
}

#[derive(Debug, Default)]
struct Cached {
    tenant: TenantId,
    topic: String,
    route: Route,
    traits: TopicTraits,
}

/// The settings of a topic.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent facts about a topic")]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TopicTraits {
    pub priority: TopicPriority,
    /// The stages that each PUBLISH to it needs.
    pub stages: StageSet,
    /// True if only the broker itself publishes to it.
    pub is_own: bool,
    /// Whether it is the address of mobile nodes.
    pub is_address: bool,
    /// True if mobile nodes report there.
    pub is_report: bool,
    /// True if pipelines of the hub get its messages with their publisher.
    pub is_for_hub: bool,
    /// The observers of the topic.
    pub observers: ObserverSet,
}

impl RouteCache {
    /// A cache without routes.
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        Self { settings, ..Self::default() }
    }

    /// The route of `topic` if it is known and no subscription has changed since; `epoch` is the index's.
    #[inline]
    pub(crate) fn lookup(&mut self, epoch: u64, tenant: TenantId, topic: &[u8]) -> Option<RouteSlot> {
        if self.tags.is_empty() {
            return None;
        }
        let hash = hash_topic(tenant, topic);
        let first = set_of(hash);
        if self.is_at(first, epoch, hash, tenant, topic) {
            self.tags[first].epoch_and_hit |= 1;
            return Some(RouteSlot(first as u16));
        }
        if self.is_at(first + 1, epoch, hash, tenant, topic) {
            self.tags[first + 1].epoch_and_hit |= 1;
            return Some(RouteSlot(first as u16 + 1));
        }
        None
    }

    /// Matches a valid topic name and remembers the route, if it is not too large. `extend` adds receivers that the
    /// index does not know.
    pub(crate) fn fill(
        &mut self,
        index: &mut SubscriptionIndex,
        tenant: TenantId,
        topic: &str,
        extend: impl FnOnce(&mut Route),
    ) -> RouteSlot {
        self.begin_fill();
        let epoch = index.epoch();
        let hash = hash_topic(tenant, topic.as_bytes());
        let victim = if topic.len() > TOPIC_LEN_MAX { None } else { self.victim(set_of(hash), epoch) };
        let Some(at) = victim else {
            self.routes[UNCACHED].fill(&self.settings, &self.observed, index, tenant, topic, extend);
            return RouteSlot(UNCACHED as u16);
        };
        self.forget(at);
        self.routes[at].fill(&self.settings, &self.observed, index, tenant, topic, extend);
        if !self.has_room_for(at, epoch) {
            self.routes.swap(at, UNCACHED);
            self.routes[at] = Cached::default();
            return RouteSlot(UNCACHED as u16);
        }
        self.held += self.routes[at].route.capacity();
        self.large += usize::from(self.routes[at].route.weight() > LARGE_TARGETS);
        self.tags[at] = Tag { hash, epoch_and_hit: epoch << 1 };
        RouteSlot(at as u16)
    }

    /// Matches a valid topic name whose route is not to be remembered.
    pub(crate) fn fill_once(
        &mut self,
        index: &mut SubscriptionIndex,
        tenant: TenantId,
        topic: &str,
        extend: impl FnOnce(&mut Route),
    ) -> RouteSlot {
        self.begin_fill();
        self.routes[UNCACHED].fill(&self.settings, &self.observed, index, tenant, topic, extend);
        RouteSlot(UNCACHED as u16)
    }

    fn begin_fill(&mut self) {
        if self.tags.is_empty() {
            self.tags = vec![Tag::EMPTY; SLOTS];
            self.routes.resize_with(SLOTS + 1, Cached::default);
        }
        self.fills = self.fills.wrapping_add(1);
    }

    /// The topic and the route at a place.
    #[inline]
    pub(crate) fn get(&self, slot: RouteSlot) -> (&str, &Route) {
        let cached = &self.routes[usize::from(slot.0)];
        (&cached.topic, &cached.route)
    }

    /// The tenant of the topic at a place.
    pub(crate) fn tenant(&self, slot: RouteSlot) -> TenantId {
        self.routes[usize::from(slot.0)].tenant
    }

    /// The settings of the topic at a place.
    #[inline]
    pub(crate) fn traits(&self, slot: RouteSlot) -> TopicTraits {
        self.routes[usize::from(slot.0)].traits
    }

    /// How often a route was made, counted around: as long as it stays the same, so does what each place holds.
    #[inline]
    pub(crate) fn fills(&self) -> u32 {
        self.fills
    }

    /// Keeps the targets of a route that `keep` accepts.
    pub(crate) fn retain(&mut self, slot: RouteSlot, mut keep: impl FnMut(&str, SessionKey) -> bool) {
        let cached = &mut self.routes[usize::from(slot.0)];
        cached.route.retain(|session| keep(&cached.topic, session));
    }

    /// Removes all routes and frees their memory.
    pub(crate) fn clear(&mut self) {
        let observed = std::mem::take(&mut self.observed);
        *self = Self { fills: self.fills.wrapping_add(1), observed, ..Self::new(Arc::clone(&self.settings)) };
    }

    /// These topics are observed from now on.
    pub(crate) fn set_observed(&mut self, observed: ObservedTopics) {
        self.observed = observed;
        self.clear();
    }

    #[inline]
    fn is_at(&self, at: usize, epoch: u64, hash: u64, tenant: TenantId, topic: &[u8]) -> bool {
        let tag = self.tags[at];
        if tag.hash != hash || !tag.is_current(epoch) {
            return false;
        }
        let cached = &self.routes[at];
        cached.topic.as_bytes() == topic && cached.tenant == tenant
    }

    /// The place of a set that a new topic gets: one that is out of date, else one whose topic has not come again. When
    /// both have, they stay for this time, and have to come again until the next.
    fn victim(&mut self, first: usize, epoch: u64) -> Option<usize> {
        let (one, other) = (self.tags[first], self.tags[first + 1]);
        if !one.is_current(epoch) {
            return Some(first);
        }
        if !other.is_current(epoch) {
            return Some(first + 1);
        }
        match (one.epoch_and_hit & 1, other.epoch_and_hit & 1) {
            (1, 1) => {
                self.tags[first].epoch_and_hit &= !1;
                self.tags[first + 1].epoch_and_hit &= !1;
                None
            }
            (0, 1) => Some(first),
            _ => Some(first + 1),
        }
    }

    /// Takes a route out of the sums and makes its place one to be filled; its memory stays.
    fn forget(&mut self, at: usize) {
        if self.tags[at].epoch_and_hit == Tag::EMPTY.epoch_and_hit {
            return;
        }
        self.tags[at] = Tag::EMPTY;
        let route = &self.routes[at].route;
        self.held -= route.capacity();
        self.large -= usize::from(route.weight() > LARGE_TARGETS);
    }

    /// Whether the route at `at`, which is in no sum yet, fits.
    fn has_room_for(&mut self, at: usize, epoch: u64) -> bool {
        let route = &self.routes[at].route;
        let (capacity, large) = (route.capacity(), route.weight() > LARGE_TARGETS);
        let fits = |cache: &Self| cache.held + capacity <= TARGETS_MAX && (!large || cache.large < LARGE_ROUTES_MAX);
        if !fits(self) && self.swept != epoch {
            self.sweep(epoch);
        }
        fits(self)
    }

    /// Gives up the routes that are out of date.
    fn sweep(&mut self, epoch: u64) {
        self.swept = epoch;
        for at in 0..SLOTS {
            let tag = self.tags[at];
            if tag.epoch_and_hit != Tag::EMPTY.epoch_and_hit && !tag.is_current(epoch) {
                self.forget(at);
                self.routes[at] = Cached::default();
            }
        }
    }
}

impl Cached {
    fn fill(
        &mut self,
        settings: &Settings,
        observed: &ObservedTopics,
        index: &mut SubscriptionIndex,
        tenant: TenantId,
        topic: &str,
        extend: impl FnOnce(&mut Route),
    ) {
        self.tenant = tenant;
        self.topic.clear();
        self.topic.push_str(topic);
        index.match_topic(tenant, topic, &mut self.route);
        extend(&mut self.route);
        self.route.settle();
        let is_of_another = tenant == TenantId::BROKER_LINK && is_of_tenant(topic);
        let (owner, topic) = owner_of(settings, tenant, topic);
        let is_own = is_own_topic(topic);
        let records = owner == TenantId::DEFAULT && is_for_applications(settings, topic);
        let is_report = owner == TenantId::DEFAULT && is_report(settings, topic);
        let observers = observed
            .observers_of(owner, topic)
            .with_if(records, ObserverId::APPLICATIONS)
            .with_if(is_report, ObserverId::REPORTS);
        self.traits = TopicTraits {
            priority: TopicPriority::of(&settings.priority, topic),
            stages: StageSet::NONE
                .with_if(is_own || is_of_another, Stage::Rights)
                .with_if(is_report, Stage::Understanding)
                .with_if(checks_of(settings, owner, topic).next().is_some(), Stage::Payload)
                .with_if(!observers.is_empty(), Stage::Observers)
                .with_if(may_reject(settings, topic), Stage::Room),
            is_own,
            is_address: is_address(settings, topic),
            is_for_hub: is_for_hub(settings, tenant, topic),
            is_report,
            observers,
        };
    }
}

#[inline]
fn hash_topic(tenant: TenantId, topic: &[u8]) -> u64 {
    hash_bytes(u64::from(tenant.0), topic)
}

/// The first place of the set that a topic belongs to.
#[inline]
fn set_of(hash: u64) -> usize {
    (hash >> 32) as usize % (SLOTS / 2) * 2
}
