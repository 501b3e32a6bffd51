//! Partitions are held and released.

use crate::flows::contexts::Imaging;
use crate::flows::contexts::Moving;
use crate::ids::TenantId;
use crate::ids::{PartitionId, Partitions, SessionKey};
use crate::image::ahead::QueuesSent;
use crate::image::{begin, seal};
use crate::journal::Numbers;
use crate::now::Now;
use crate::retained::RetainedStore;
use crate::session::Delivery;
use crate::session::tail::AdoptedPlace;
use crate::wire::WireWrite;
use tidegate_mqtt::QoS;

/// The content of a partition, collected for all partitions that are exported at once.
pub(crate) struct Held<'a> {
    pub sessions: &'a [SessionKey],
    pub retained: &'a [(TenantId, &'a str)],
    pub removed: &'a [(TenantId, &'a str, u64)],
    /// Queues that the new home has.
    pub sent: &'a QueuesSent,
}

/// State that goes along with the first image of a shard.
#[derive(Default)]
pub(crate) struct Beside {
    /// Partitions whose marks of delivered messages go along: each name once for all of them.
    pub marks: Partitions,
    /// Partitions without an image whose groups' state goes along completely.
    pub others: Partitions,
}

impl Imaging<'_> {
    /// The image of a partition, which stays here.
    pub(crate) fn image_of(&self, now: Now, partition: PartitionId, held: &Held<'_>, beside: &Beside) -> Vec<u8> {
        let Beside { marks, others } = *beside;
        let mut out = begin();
        out.put_u16(partition.0);
        self.state.exchanges.put_marks(&mut out, marks);
        out.put_u32(held.sessions.len() as u32);
        for key in held.sessions {
            if let Some(session) = self.state.sessions.get(key.0) {
                self.put_session(&mut out, now, (*key, session), held.sent.of(session));
            }
        }
        self.retaining.store.put_retained(&mut out, now, held.retained);
        self.groups.put_kept(&self.links.roster, &mut out, now, others.with(Partitions::of(partition)));
        self.state.exchanges.put_dealt_before(&mut out, others);
        self.peers.outgoing.put_outgoing(&mut out, now, partition);
        RetainedStore::put_removed(&mut out, held.removed);
        self.groups.put_names(&mut out, &self.links.roster, partition);
        seal(out)
    }
}

impl Moving<'_> {
    /// Writes a session that was taken in as a whole.
    pub(super) fn store_adopted(&mut self, key: SessionKey, subscriptions: &[(String, u8, u32)]) {
        if !self.state.journal.is_on() {
            return;
        }
        self.state.sessions.store_session(&mut self.state.journal, key);
        for (filter, options, id) in subscriptions {
            self.state.sessions.store_subscription(&mut self.state.journal, key, filter, *options, *id);
        }
        let state = &mut *self.state;
        let Some(session) = state.sessions.get_mut(key.0) else { return };
        let Some(stored) = session.stored else { return };
        let journal = &mut state.journal;
        for (id, message) in session.rare.iter().flat_map(|rare| rare.refused.iter()) {
            journal.put_refused(stored, id, message);
        }
        let Some(flow) = session.flow.as_mut() else { return };
        let exchanges = session.rare.as_ref().map_or(&[][..], |rare| &rare.exchanges);
        for id in flow.received.iter() {
            let exchange = exchanges.iter().find(|(of, _)| *of == id).map(|(_, exchange)| *exchange);
            journal.put_received(stored, id, exchange.as_ref());
        }
        // Behind a queue that has come before, all messages keep their numbers.
        let mut last = flow.next_number;
        let place = flow.place_of_adopted();
        let sent: Vec<_> = flow.inflight.drain().collect();
        for mut entry in sent {
            last += 1;
            let number = if entry.item.numbers.entry == 0 { last } else { entry.item.numbers.entry };
            entry.item.numbers = Numbers { entry: number, separate: true };
            let id = entry.id();
            match &mut entry.item.delivery {
                Some(delivery) => {
                    delivery.number = number;
                    journal.put_adopted(stored, delivery, AdoptedPlace::Sent(id));
                }
                None => journal.put_released(stored, number, id),
            }
            journal.put_sent(stored, number, id, entry.state, last);
            flow.inflight.push_entry(entry);
        }
        let waiting = std::mem::take(&mut flow.queue).into_iter().map(|delivery| {
            if delivery.qos == QoS::AtMostOnce {
                return delivery;
            }
            last += 1;
            let number = if delivery.number == 0 { last } else { delivery.number };
            let delivery = Delivery { number, ..delivery };
            journal.put_adopted(stored, &delivery, place(number));
            delivery
        });
        flow.queue = waiting.collect();
        flow.next_number = last;
    }
}
