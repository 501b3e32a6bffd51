//! Taking a partition in.

use super::fields::read_message;
use super::read_session::{SessionImage, SubscriptionImage};
use super::{ImageError, open};
use crate::cluster::exchanges::{ExchangeName, Got};
use crate::connection::FetchRequest;
use crate::desk::{Desk, Timer};
use crate::engine::Engine;
use crate::ids::{PARTITIONS, PartitionId, Partitions, SessionKey, TenantId, partition_of};
use crate::image::leaving::{Moving, moving};
use crate::message::MessageRef;
use crate::now::Now;
use crate::orchestrator::homes::HomesInForce;
use crate::orchestrator::uplink::FleetConfig;
use crate::publish::deciding::deciding;
use crate::retained::RetainedStore;
use crate::session::table::Sessions;
use crate::settings::Holding;
use crate::subscribe::subscribing::{Subscribing, subscribing};
use crate::topics::{Subscriber, is_own_topic};
use crate::wire::{WireError, WireReader};

impl Engine {
    /// Takes a partition in that another place has moved out. All of it or, on an error, nothing.
    ///
    /// Where a topic has a retained message here already, the newer one stays; without versions, that is the one here. The limits of retained messages
    /// hold: what they refuse is counted as dropped. The limits of sessions and queues do not: what was owed is owed.
    ///
    /// # Errors
    ///
    /// When the bytes are no such image, the partition is at home elsewhere, or one of its sessions exists here.
    pub fn import_partition(&mut self, now: Now, image: &[u8]) -> Result<PartitionId, ImageError> {
        let mut reader = open(image)?;
        let partition = PartitionId(reader.u16("a partition")?);
        if partition.0 >= PARTITIONS || !self.place.owns(partition) {
            return Err(ImageError::NotAtHome(partition));
        }
        let sessions = read_sessions(now, partition, &mut reader, &self.desk.sessions)?;
        let mut retained = Vec::new();
        for _ in 0..reader.u32("a number of retained messages")? {
            retained.push(read_retained(&mut reader, now, partition)?);
        }
        let mut marks = Vec::new();
        for _ in 0..reader.u32("a number of exchanges")? {
            marks.push((ExchangeName::read(&mut reader)?, read_got(&mut reader, partition)?));
        }
        let kept = Self::read_kept(&mut reader, now)?;
        let dealt_before = Self::read_dealt_before(&mut reader)?;
        let outgoing = Self::read_outgoing(&mut reader, now, partition)?;
        let removed = Self::read_removed(&mut reader, partition)?;
        if !reader.is_empty() {
            return Err(WireError { reading: "the end of the image" }.into());
        }
        for (name, by) in marks {
            self.desk.exchanges.put_mark(self.place, &mut self.desk.journal, name, by);
        }
        for session in sessions {
            moving!(self).adopt_session(now, session);
        }
        for message in retained {
            self.retained.adopt_retained(now, &mut self.desk, &self.homes, &self.uplinks.brokers.config, message);
        }
        self.retained.adopt_removed(now, &mut self.desk, removed);
        self.groups.kept.adopt_kept(now, &mut self.desk, &mut self.links, partition, kept);
        deciding!(self).adopt_dealt_before(dealt_before);
        self.outgoing.adopt_outgoing(&mut self.desk, outgoing);
        // The rules here may be others than those that the subscriptions were allowed by.
        self.rules.recheck();
        self.after_frame(now);
        Ok(partition)
    }
}

impl Moving<'_> {
    pub(super) fn adopt_session(&mut self, now: Now, image: SessionImage) {
        let SessionImage { mut session, subscriptions, memberships, node_groups } = image;
        self.settings.fit_standing(now, &mut session);
        let (ends_at, will_due) = session.rare.as_ref().map_or((None, None), |rare| (rare.ends_at, rare.will_due));
        let (tenant, standing) = (session.tenant, session.standing);
        if let Some(flow) = &mut session.flow {
            flow.note_taken_in();
            self.desk.memory.queued_messages += flow.queue.len() as u64;
            self.desk.memory.queued_bytes += flow.queue_bytes;
            self.desk.memory.held += flow.queue_bytes + flow.inflight_bytes;
        }
        let key = self.desk.insert_session(session);
        if let Some(at) = ends_at {
            self.desk.timers.set(at, Timer::SessionEnd(key));
        }
        if let Some(due) = will_due {
            self.desk.timers.set(due, Timer::Will(key));
        }
        self.desk.sessions.watch_expiry(&mut self.desk.timers, key);
        let mut stored: Vec<(String, u8, u32)> = Vec::new();
        for SubscriptionImage { filter, options, subscription_id, fetching } in subscriptions {
            stored.push((filter.clone(), options.bits(), subscription_id));
            subscribing!(self).adopt_subscription(
                now,
                tenant,
                &filter,
                Subscriber { session: key, options, subscription_id },
            );
            if fetching {
                // The topics have other homes now, so it begins anew.
                let request = FetchRequest { filter: filter.into(), options: options.bits(), subscription_id };
                self.fetches.add_fetch(&self.links.roster, &mut self.desk.sessions, key, request);
            }
        }
        for membership in memberships {
            let whole = format!("$share/{}/{}", membership.share, membership.filter);
            stored.push((whole, membership.member.options, membership.member.subscription_id));
            subscribing!(self).rejoin_group(now, key, &membership);
        }
        subscribing!(self).restore_standing(now, tenant, standing);
        self.store_adopted(key, &stored);
        for group in node_groups {
            subscribing!(self).restore_node_group(now, Some(key), &group);
        }
    }
}

fn read_sessions(
    now: Now,
    partition: PartitionId,
    reader: &mut WireReader<'_>,
    known: &Sessions,
) -> Result<Vec<SessionImage>, ImageError> {
    let mut sessions = Vec::new();
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..reader.u32("a number of sessions")? {
        let image = SessionImage::read(reader, now)?;
        let (tenant, client_id) = (image.session.tenant, &image.session.client_id);
        if partition_of(tenant, client_id) != partition || !names.insert((tenant, client_id.clone())) {
            return Err(WireError { reading: "a client id of this partition" }.into());
        }
        if known.find_session(tenant, client_id).is_some() {
            return Err(ImageError::SessionExists(client_id.to_string()));
        }
        sessions.push(image);
    }
    Ok(sessions)
}

impl Subscribing<'_> {
    /// Subscribes a session that has no connection, without anyone to answer or to bring retained messages to.
    pub(crate) fn adopt_subscription(&mut self, now: Now, tenant: TenantId, filter: &str, subscriber: Subscriber) {
        let SessionKey(session) = subscriber.session;
        let done = self.index.subscribe(tenant, filter, subscriber);
        if done.replaced.is_none()
            && let Some(session) = self.desk.sessions.get_mut(session)
        {
            session.filters.push(done.entry);
            self.desk.tenants.add(tenant, Holding::Subscriptions);
        }
        if done.first_local {
            self.announce_interest(tenant, filter, true, None);
            self.note_sys_interest(now, tenant, filter, true);
        }
    }
}

impl RetainedStore {
    fn adopt_retained(
        &mut self,
        now: Now,
        desk: &mut Desk,
        homes: &HomesInForce,
        config: &FleetConfig,
        message: MessageRef,
    ) {
        let (tenant, topic) = (message.tenant, message.topic().to_owned());
        let is_old = if homes.keep_versions(config, &topic) {
            self.has_as_new(now, tenant, &topic, message.publisher)
        } else {
            self.values.get(tenant, &topic, now.monotonic).is_some()
        };
        if is_old {
            return;
        }
        self.removed.forget(tenant, &topic);
        let kept = message.clone();
        match self.values.take_back(tenant, &topic, message, now.monotonic) {
            Err(reason) => desk.counters.drop_message(reason),
            Ok(_) if desk.journal.is_on() => desk.journal.put_retained(&kept.publication()),
            Ok(_) => {}
        }
    }
}

/// Which of a partition have got a message: sessions, groups, or both.
fn read_got(reader: &mut WireReader<'_>, partition: PartitionId) -> Result<Got, WireError> {
    let bits = reader.u8("who has got a message")?;
    if bits == 0 || bits > 3 {
        return Err(WireError { reading: "who has got a message" });
    }
    let its = |bit| if bits & bit != 0 { Partitions::of(partition) } else { Partitions::NONE };
    Ok(Got { sessions: its(1), groups: its(2) })
}

fn read_retained(reader: &mut WireReader<'_>, now: Now, partition: PartitionId) -> Result<MessageRef, WireError> {
    let tenant = TenantId(reader.u16("a tenant")?);
    let message = read_message(reader, now, tenant)?;
    let topic = message.topic();
    if partition_of(tenant, topic) != partition || is_own_topic(topic) || message.payload().is_empty() {
        return Err(WireError { reading: "a retained message of this partition" });
    }
    Ok(message)
}
