//! The image of a partition is read.

use crate::cluster::transfer::error::ImageError;
use crate::engine::facets::MoveCalls;
use crate::flows::contexts::deciding;
use crate::flows::contexts::moving;
use crate::flows::contexts::subscribing;
use crate::groups::read_group_names;
use crate::ids::{PARTITIONS, PartitionId, Partitions, TenantId, partition_of};
use crate::image::read_session::SessionImage;
use crate::image::{SEAL_LEN, open};
use crate::link::exchange_word::ExchangeName;
use crate::link::got::Got;
use crate::link::record::GroupName;
use crate::message::MessageRef;
use crate::now::Now;
use crate::records::image::read_message;
use crate::session::table::Sessions;
use crate::topics::is_own_topic;
use crate::wire::{WireError, WireReader};

impl MoveCalls<'_> {
    /// Imports a partition from another place: all of it or, on an error, nothing. Of the names of messages beside the
    /// image those are taken that partitions `here` have got.
    ///
    /// If this shard has a retained message of the same topic, the newer one stays; without versions, the one here
    /// stays. The limits of retained messages hold: messages beyond them are dropped and counted. The limits of
    /// sessions and queues do not apply, since the image holds only messages that were accepted before.
    ///
    /// # Errors
    ///
    /// When the bytes are no such image, the partition is at home elsewhere, or one of its sessions exists here.
    pub(crate) fn import_image(&mut self, now: Now, image: &[u8], here: Partitions) -> Result<PartitionId, ImageError> {
        let mut reader = open(image)?;
        let partition = PartitionId(reader.u16("a partition")?);
        if partition.0 >= PARTITIONS || !self.engine.place.owns(partition) {
            return Err(ImageError::NotAtHome(partition));
        }
        let marks = read_marks(&mut reader)?;
        let sessions = read_sessions(now, partition, &mut reader, &self.engine.state.sessions)?;
        let mut retained = Vec::new();
        for _ in 0..reader.u32("a number of retained messages")? {
            retained.push(read_retained(&mut reader, now, partition)?);
        }
        let kept = Self::read_kept(&mut reader, now)?;
        let dealt_before = Self::read_dealt_before(&mut reader)?;
        let outgoing = Self::read_outgoing(&mut reader, now, partition)?;
        let removed = Self::read_removed(&mut reader, partition)?;
        let groups = read_group_names(partition, &mut reader)?;
        if !reader.is_empty() {
            return Err(WireError { reading: "the end of the image" }.into());
        }
        for SessionImage { session, tail, .. } in &sessions {
            tail.iter().try_for_each(|tail| self.engine.handover.ahead.check(session, tail))?;
        }
        self.adopt_marks(marks, here);
        // A broker may bring a message for a group before its members take their seats here.
        for (tenant, share, filter) in &groups {
            subscribing!(self.engine).make_group(now, GroupName { tenant: *tenant, share, filter }, None);
        }
        for mut session in sessions {
            if let Some(tail) = session.tail.take() {
                self.engine.handover.ahead.give(&mut self.engine.state.journal, &mut session.session, tail);
            }
            moving!(self.engine).adopt_session(now, session);
        }
        for message in retained {
            self.engine.retaining.store.adopt_retained(now, &mut self.engine.state, &self.engine.homes, message);
        }
        self.engine.retaining.store.adopt_removed(now, &mut self.engine.state, removed);
        self.engine.groups.kept.adopt_kept(now, &mut self.engine.state, &mut self.engine.links, partition, kept);
        deciding!(self.engine).adopt_dealt_before(dealt_before);
        self.engine.peers.outgoing.adopt_outgoing(&mut self.engine.state, outgoing);
        // The rules here may differ from the rules that allowed the subscriptions.
        self.engine.rules.recheck();
        self.engine.after_frame(now);
        Ok(partition)
    }

    /// Takes the names of messages that partitions `here` have got from the image of a partition of another shard.
    ///
    /// # Errors
    /// When it has names and is damaged.
    pub(super) fn import_marks(&mut self, image: &[u8], here: Partitions) -> Result<(), ImageError> {
        if has_no_marks(image) {
            return Ok(());
        }
        let mut reader = open(image)?;
        reader.u16("a partition")?;
        let marks = read_marks(&mut reader)?;
        self.adopt_marks(marks, here);
        Ok(())
    }

    fn adopt_marks(&mut self, marks: Vec<(Got, Vec<ExchangeName>)>, here: Partitions) {
        let state = &mut self.engine.state;
        for (by, names) in marks {
            let by = by.among(here);
            for name in names.into_iter().filter(|_| !by.is_empty()) {
                state.exchanges.put_mark(self.engine.place, &mut state.journal, name, by);
            }
        }
    }
}

/// Whether there are no names of messages beside an image: most have none, and are checked by one shard only.
fn has_no_marks(image: &[u8]) -> bool {
    let number = size_of::<u16>()..size_of::<u16>() + size_of::<u32>();
    image.get(SEAL_LEN..).and_then(|content| content.get(number)).is_some_and(|number| number == [0; size_of::<u32>()])
}

/// Names of messages behind the partitions that have got them.
fn read_marks(reader: &mut WireReader<'_>) -> Result<Vec<(Got, Vec<ExchangeName>)>, WireError> {
    let mut marks = Vec::new();
    for _ in 0..reader.u32("a number of sets of partitions")? {
        let by = Got::read(reader)?;
        let mut names = Vec::new();
        for _ in 0..reader.u32("a number of exchanges")? {
            names.push(ExchangeName::read(reader)?);
        }
        marks.push((by, names));
    }
    Ok(marks)
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

fn read_retained(reader: &mut WireReader<'_>, now: Now, partition: PartitionId) -> Result<MessageRef, WireError> {
    let tenant = TenantId(reader.u16("a tenant")?);
    let message = read_message(reader, now, tenant)?;
    let topic = message.topic();
    if partition_of(tenant, topic) != partition || is_own_topic(topic) || message.payload().is_empty() {
        return Err(WireError { reading: "a retained message of this partition" });
    }
    Ok(message)
}
