//! The rest of a partition that moves between shards.

use crate::cluster::transfer::Aside;
use crate::cluster::transfer::finish::Entry;
use crate::flows::contexts::Moving;
use crate::ids::{Partitions, SessionKey, partition_of};
use crate::link::got::Got;
use crate::message::Publication;
use crate::now::Now;
use crate::session::terms::Terms;
use crate::session::{Delivery, Membership};
use std::rc::Rc;

impl Moving<'_> {
    pub(crate) fn take_entry(&mut self, now: Now, partitions: Partitions, entry: Entry) {
        match entry {
            Entry::ToSession { tenant, client_id, delivery } => {
                // A session may have expired since.
                if let Some(key) = self.state.sessions.find_session(tenant, &client_id) {
                    self.deliver_late(now, key, &delivery);
                }
            }
            Entry::Name(name) => {
                self.state.exchanges.put_mark(
                    self.links.place,
                    &mut self.state.journal,
                    name,
                    Got { sessions: partitions, ..Got::EMPTY },
                );
            }
            Entry::Dealt(name) => {
                self.state.exchanges.put_mark(
                    self.links.place,
                    &mut self.state.journal,
                    name,
                    Got { groups: partitions, ..Got::EMPTY },
                );
            }
            Entry::Retained(message) => {
                let coming = self.state.transfers.coming.get(&partition_of(message.tenant, message.topic()));
                let name = (message.tenant, Box::from(message.topic()));
                if coming.is_none_or(|coming| !coming.touched.contains(&name)) {
                    self.take_noted_value(now, &mut message.publication());
                }
            }
        }
    }

    /// Keeps a value that its old home has noted. One that goes to brokers has got its version where it entered.
    fn take_noted_value(&mut self, now: Now, publication: &mut Publication<'_>) {
        let roster = &self.links.roster;
        if self.broker_links.brokers.config.goes_to_fleet(&self.state.settings, publication) {
            self.retaining.store.take_stray(now, self.links.place, roster, self.state, publication);
        } else {
            self.retaining.store.keep_retained(now, roster, self.state, self.homes, publication);
        }
    }

    /// Delivers the messages set aside.
    pub(crate) fn deliver_aside(&mut self, now: Now, all: Vec<Aside>) {
        for aside in all {
            if self.state.sessions.is_named(aside.to, aside.client) {
                self.deliver_late(now, aside.to, &aside.delivery);
            }
        }
    }

    fn deliver_late(&mut self, now: Now, to: SessionKey, delivery: &Delivery) {
        let mut publication = delivery.message.publication();
        // A message stored with the session is the group's no longer, which learns that when the last promise is gone.
        let stored = self.state.sessions.get(to.0).filter(|session| session.stored.is_some());
        let memberships = stored.and_then(|session| session.rare.as_ref()).map(|rare| &rare.memberships);
        let same = |group: &Rc<Membership>| memberships?.iter().find(|own| own.group() == group.group()).cloned();
        let plain = delivery.group.as_ref().and_then(same);
        let dealt = delivery
            .group
            .as_ref()
            .filter(|_| plain.is_some())
            .and_then(|group| group.promised())
            .map_or(0, |(_, id)| id);
        let owner = self.state.sessions.get(to.0).map(|session| partition_of(session.tenant, &session.client_id));
        let terms = Terms::of(delivery);
        let terms = Terms { group: plain.as_ref().or(terms.group), ..terms };
        self.state.transfers.late = true;
        self.state.enqueue(now.monotonic, &mut publication, to, &terms, delivery.qos);
        self.state.transfers.late = false;
        self.state.exchanges.note_taken(
            self.links.place,
            &mut self.state.transfers,
            &mut self.state.journal,
            delivery.message.qos,
            dealt,
            owner,
        );
    }
}
