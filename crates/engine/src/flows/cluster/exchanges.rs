//! A QoS 2 message of another node is looked up among the exchanges.

use crate::flows::contexts::Deciding;
use crate::ids::{SessionKey, TenantId};
use crate::link::envelope::Ticket;
use crate::link::got::Got;
use crate::settings::fleet_topics::owner_of;
use crate::topics::RouteSlot;
use tidegate_mqtt::RawPublish;

impl Deciding<'_> {
    /// Names a QoS 2 message that is about to leave for other nodes. One of a session that ends with its connection is
    /// not sent again.
    #[cold]
    pub(crate) fn name_exchange(
        &mut self,
        session: SessionKey,
        (tenant, slot): (TenantId, RouteSlot),
        raw: &RawPublish<'_>,
        ticket: Option<Ticket>,
    ) {
        let Some(id) = raw.packet_id else { return };
        if !self.state.sessions.get(session.0).is_some_and(crate::session::Session::lasts) {
            return;
        }
        let (topic, route) = self.router.cache.get(slot);
        let (tenant, topic) = owner_of(&self.state.settings, tenant, topic);
        let is_home_elsewhere = raw.retain && !self.links.roster.is_own(self.links.roster.home_of_topic(tenant, topic));
        if route.remote_bits() & self.links.roster.peers().0 == 0 && !is_home_elsewhere {
            return;
        }
        let groups = self.groups.dealers.dealt_by_process();
        let exchange = self.state.exchanges.begin(ticket, groups, self.state.transfers.cut_away(&self.links.roster));
        self.state.sessions.set_exchange(&mut self.state.journal, session, id, &exchange);
        self.state.exchanges.mark_in_transit(
            self.links.place,
            &self.links.roster,
            &self.state.transfers,
            &mut self.state.journal,
            exchange.name,
        );
        self.links.exchange = Some(self.state.exchanges.word(exchange.name, Got::EMPTY));
    }
}
