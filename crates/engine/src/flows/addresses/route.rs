//! The route of an address, and of a report of a mobile node.

use crate::addresses::tally::Counted;
use crate::flows::contexts::Publishing;
use crate::flows::publish::dispatch::Reach;
use crate::ids::{SessionKey, TenantId, partition_of};
use crate::message::Publication;
use crate::now::Now;
use crate::publish::dispatch::Source;
use crate::roster::Shards;
use crate::topics::address_name::Address;
use crate::topics::{Route, RouteSlot};

impl Publishing<'_> {
    /// Makes the route of a valid topic name that is not remembered.
    pub(crate) fn make_route(&mut self, tenant: TenantId, topic: &str) -> RouteSlot {
        let address = self.state.settings.addresses.as_ref().and_then(|it| Address::read(&it.prefix, topic));
        let slot = match address {
            None => {
                let roster = &self.links.roster;
                let keep_here = |route: &mut Route| {
                    if !roster.crosses(topic) {
                        route.keep_remote(roster.of_process().0);
                    }
                };
                self.router.cache.fill(&mut self.router.index, tenant, topic, keep_here)
            }
            Some(address) => self.route_to(tenant, topic, &address),
        };
        self.rules.keep_receivers(self.state, &mut self.router.cache, self.nodes, slot);
        slot
    }

    /// A route to nodes and to subscribers of the topic. The route to a single node is not cached, so it stays valid
    /// when a node comes or goes.
    fn route_to(&mut self, tenant: TenantId, topic: &str, address: &Address<'_>) -> RouteSlot {
        let (place, roster, state, nodes) = (self.links.place, &self.links.roster, &*self.state, &mut *self.nodes);
        match address {
            Address::Node(id) | Address::Receipts(id) => {
                let partition = partition_of(tenant, id);
                let homes = [Some(roster.home_of(partition)), state.transfers.new_home(partition)];
                let extend = |route: &mut Route| {
                    // While a partition moves, both places get the messages to its nodes, and this shard may be either.
                    for home in homes.into_iter().flatten().filter(|home| *home != place.shard) {
                        route.add_remote(1 << home.0);
                    }
                    if let Some(key) = state.sessions.find_session(tenant, id) {
                        let node = state.sessions.get(key.0).is_some_and(|session| session.standing.is_node());
                        route.add_addressed(node.then_some(key));
                    }
                };
                self.router.cache.fill_once(&mut self.router.index, tenant, topic, extend)
            }
            Address::Group(name) => {
                nodes.routed = true;
                let members = nodes.members(tenant, name);
                let extend = |route: &mut Route| route.add_addressed(members.iter().copied().map(SessionKey));
                self.router.cache.fill(&mut self.router.index, tenant, topic, extend)
            }
            Address::All => {
                nodes.routed = true;
                let all =
                    state.sessions.iter().filter(|(_, session)| session.tenant == tenant && session.standing.is_node());
                let extend = |route: &mut Route| route.add_addressed(all.map(|(key, _)| SessionKey(key)));
                self.router.cache.fill(&mut self.router.index, tenant, topic, extend)
            }
        }
    }
}

impl Reach<'_> {
    /// Begins the receipts for the sender of a message to nodes. `entered` is true if it came from a client of this
    /// shard.
    #[inline]
    pub(crate) fn begin_receipts(
        &mut self,
        now: Now,
        route: &Route,
        publication: &Publication<'_>,
        source: &Source,
        entered: bool,
    ) {
        if self.state.has_addresses && !publication.properties.is_empty() {
            self.begin_receipts_of(now, route, publication, source, entered);
        }
    }

    #[cold]
    fn begin_receipts_of(
        &mut self,
        now: Now,
        route: &Route,
        publication: &Publication<'_>,
        source: &Source,
        entered: bool,
    ) {
        let settings = std::sync::Arc::clone(&self.state.settings);
        let address = settings.addresses.as_ref().and_then(|it| Address::read(&it.prefix, publication.topic));
        let is_node = |key: SessionKey| self.state.sessions.get(key.0).is_some_and(|it| it.standing.is_node());
        match address {
            Some(Address::Node(id)) => {
                // A shard whose sessions are away knows nothing of the node.
                let partition = partition_of(publication.tenant, &id);
                let knows = self.links.roster.works(partition) && !self.state.exchanges.has_forgotten(partition);
                if knows && !self.state.sessions.find_session(publication.tenant, &id).is_some_and(is_node) {
                    self.state.reports().tell_unknown(&id, publication);
                }
            }
            Some(several @ (Address::Group(_) | Address::All)) => {
                let is_member = |key: SessionKey| match several {
                    Address::Group(name) => self.nodes.members(publication.tenant, name).contains(&key.0),
                    _ => true,
                };
                let reached = route.targets().iter().map(|target| target.session).filter(|key| is_node(*key));
                let (members, others): (Vec<_>, Vec<_>) = reached.partition(|key| is_member(*key));
                let name = |key: &SessionKey| self.state.sessions.get(key.0).map(|it| Box::from(&*it.client_id));
                let counted =
                    Counted { members: members.len() as u32, others: others.iter().filter_map(name).collect() };
                let mut shards = Shards(self.links.roster.living(route.remote_bits()));
                shards.add(self.links.place.shard);
                let awaited = entered.then_some(shards);
                self.state.reports().begin_tally(now, publication, counted, source.origin, awaited);
            }
            Some(Address::Receipts(_)) | None => {}
        }
    }
}
