//! Messages on their way from one shard to another.
//!
//! The messages in a link between shards are in no store. Mostly that is no loss, because the publisher has no answer
//! yet and sends them again. Some messages would be lost: a QoS 2 message whose packet id is taken already, a will, and
//! a message that a shared group deals or gets back. Such a message is stored as crossing, in the batch in which its
//! first owner forgets it. The receiving shard writes in one batch that it has crossed, and its outcome. When the first
//! shard learns that, both records are deleted. If the process dies before, the next one delivers the message before it
//! serves any client.

use crate::cluster::exchanges::Exchanges;
use crate::ids::{MAX_SHARDS, PartitionId, Partitions, ShardId, ShardPosition, TenantId};
use crate::journal::Journal;
use crate::journal::keys::Key;
use crate::link::Links;
use crate::link::exchange_word::ExchangeName;
use crate::link::got::Got;
use crate::message::{MessageRef, Publication};
use crate::now::Now;
use crate::records::stored::end;
use crate::records::stored::put_message;
use crate::records::stored::read_message;
use crate::wire::{WireError, WireReader, WireWrite};
use std::collections::BTreeMap;
use tidegate_mqtt::QoS;

/// The purpose of a crossing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// To subscribers and to its topic's home: each of these of as many shards, one bit each. Under this name, where it
    /// has crossed to other nodes as well.
    Publish { shards: u16, deliver: u64, retain: u64, name: Option<ExchangeName> },
    /// To a member of a shared group, or back to its home. `name`: see [`Way::KeptBack`].
    Group { share: Box<str>, filter: Box<str>, name: u64 },
    /// To a shard of another node for a shared group, under this id: for this client alone, where that is not 0.
    Deal { share: Box<str>, filter: Box<str>, client: u64, id: u64 },
    /// To the sessions of these partitions, which have moved here: it waits for messages that the old home forwards. If
    /// this process dies, several nodes may read the record, and this one as well when it is back: each gives the message
    /// to the homes of its groups, which know it by its `name`. It is 0 where an earlier version has written the record.
    KeptBack { partitions: Partitions, name: u64 },
    /// To the new homes of these partitions, which have left. No broker brings it again. Where a dead orchestrator had kept
    /// it, `of` is its name, and there are no partitions.
    ForLeft { of: Option<Box<str>>, partitions: Partitions },
    /// To the shared groups of these partitions, which were about to leave: they get it here if they stay.
    ForGroups { partitions: Partitions, name: u64 },
}

/// Messages that have left this shard without a confirmation: their receivers, and the receivers that have not
/// confirmed.
#[derive(Debug, Default)]
pub(crate) struct Crossings {
    open: BTreeMap<u64, (u64, u64)>,
}

/// A message that an earlier process left crossing.
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) way: Way,
    pub(crate) message: MessageRef,
    /// The shards where it has arrived, each with the number of shards.
    pub(crate) crossed: Vec<ShardPosition>,
}

/// The work before the first client is served.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) left: BTreeMap<u64, Left>,
}

impl Replay {
    pub(crate) fn add(&mut self, number: u64, value: &[u8], now: Now) -> Result<(), WireError> {
        let mut reader = WireReader::new(value);
        let way = Way::read(&mut reader)?;
        let tenant = TenantId(reader.u16("a tenant")?);
        let message = read_message(&mut reader, now, tenant)?;
        end(&reader)?;
        self.left.insert(number, Left { way, message, crossed: Vec::new() });
        Ok(())
    }

    /// The message of this number.
    pub(super) fn message(&self, number: u64) -> Option<&MessageRef> {
        self.left.get(&number).map(|left| &left.message)
    }

    pub(crate) fn add_crossed(&mut self, number: u64, place: ShardPosition) -> Result<(), WireError> {
        let left = self.left.get_mut(&number).ok_or(WireError { reading: "a message that has crossed" })?;
        left.crossed.push(place);
        Ok(())
    }
}

impl Way {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Publish { shards, deliver, retain, name } => {
                out.put_u8(if name.is_some() { 3 } else { 0 });
                out.put_u16(*shards);
                out.put_u64(*deliver);
                out.put_u64(*retain);
                if let Some(name) = name {
                    name.write(out);
                }
            }
            Self::Group { share, filter, name } => {
                out.put_u8(7);
                out.put_u64(*name);
                out.put_bytes(share.as_bytes());
                out.put_bytes(filter.as_bytes());
            }
            Self::Deal { share, filter, client, id } => {
                out.put_u8(2);
                out.put_bytes(share.as_bytes());
                out.put_bytes(filter.as_bytes());
                out.put_u64(*client);
                out.put_u64(*id);
            }
            Self::KeptBack { partitions, name } => {
                write_partitions(out, 8, *partitions);
                out.put_u64(*name);
            }
            Self::ForLeft { of, partitions } => {
                write_partitions(out, 5, *partitions);
                out.put_bytes(of.as_deref().unwrap_or_default().as_bytes());
            }
            Self::ForGroups { partitions, name } => {
                write_partitions(out, 9, *partitions);
                out.put_u64(*name);
            }
        }
    }

    fn read_partitions(reader: &mut WireReader<'_>) -> Result<Partitions, WireError> {
        let mut partitions = Partitions::NONE;
        for _ in 0..reader.u16("a number of partitions")? {
            partitions.add(PartitionId(reader.u16("a partition")?));
        }
        Ok(partitions)
    }

    fn read_name(reader: &mut WireReader<'_>, has_name: bool) -> Result<u64, WireError> {
        if has_name { reader.u64("the name of a message") } else { Ok(0) }
    }

    fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        Ok(match reader.u8("a way")? {
            kind @ (0 | 3) => {
                let shards = reader.u16("a number of shards")?;
                if shards == 0 || shards > MAX_SHARDS {
                    return Err(WireError { reading: "a number of shards" });
                }
                let (deliver, retain) = (reader.u64("shards")?, reader.u64("shards")?);
                let name = (kind == 3).then(|| ExchangeName::read(reader)).transpose()?;
                Self::Publish { shards, deliver, retain, name }
            }
            kind @ (1 | 7) => Self::Group {
                name: Self::read_name(reader, kind == 7)?,
                share: reader.text("a share name")?.into(),
                filter: reader.text("a topic filter")?.into(),
            },
            2 => Self::Deal {
                share: reader.text("a share name")?.into(),
                filter: reader.text("a topic filter")?.into(),
                client: reader.u64("a client")?,
                id: reader.u64("a deal")?,
            },
            kind @ (4 | 8) => {
                Self::KeptBack { partitions: Self::read_partitions(reader)?, name: Self::read_name(reader, kind == 8)? }
            }
            5 => {
                let partitions = Self::read_partitions(reader)?;
                let of = reader.text("the name of an orchestrator")?;
                Self::ForLeft { of: (!of.is_empty()).then(|| of.into()), partitions }
            }
            kind @ (6 | 9) => Self::ForGroups {
                partitions: Self::read_partitions(reader)?,
                name: Self::read_name(reader, kind == 9)?,
            },
            _ => return Err(WireError { reading: "a way" }),
        })
    }
}

fn write_partitions(out: &mut Vec<u8>, kind: u8, partitions: Partitions) {
    out.put_u8(kind);
    out.put_u16(partitions.iter().count() as u16);
    partitions.iter().for_each(|partition| out.put_u16(partition.0));
}

impl Left {
    /// Whether it was on its way to whatever has its home in this partition, and has not arrived there.
    pub(crate) fn is_missing(&self, bits: u64, shards: u16, partition: PartitionId) -> bool {
        let home = ShardPosition { shard: ShardId(0), shards }.home_of(partition);
        bits >> home.0 & 1 != 0 && !self.crossed.iter().any(|place| place.owns(partition))
    }
}

impl crate::journal::Journal {
    /// Puts a message that leaves this shard; returns its number.
    pub(crate) fn put_crossing(&mut self, publication: &Publication<'_>, way: &Way) -> u64 {
        let (number, now) = (self.new_body(), self.now);
        self.put(Key::Crossing(number), |out| {
            way.write(out);
            out.put_u16(publication.tenant.0);
            put_message(out, now, publication);
        });
        number
    }
}

impl Crossings {
    /// Stores that a message leaves for these shards; each receives the number after the message.
    pub(crate) fn begin_crossing(
        &mut self,
        journal: &mut Journal,
        publication: &Publication<'_>,
        way: &Way,
        to: u64,
    ) -> u64 {
        let number = journal.put_crossing(publication, way);
        self.open.insert(number, (to, to));
        number
    }

    /// The same for a message to one shard for a shared group.
    pub(crate) fn cross_for_group(
        &mut self,
        journal: &mut Journal,
        links: &Links,
        publication: &Publication<'_>,
        (share, filter): (&str, &str),
        to: ShardId,
    ) -> Option<u64> {
        if !journal.is_on() || publication.qos == QoS::AtMostOnce || !links.roster.is_own(to) {
            return None;
        }
        let way = Way::Group { share: share.into(), filter: filter.into(), name: journal.names.make() };
        Some(self.begin_crossing(journal, publication, &way, 1 << to.0))
    }
}

impl Crossings {
    /// A message has arrived at another shard, and that is on its way to the store.
    pub(crate) fn handle_crossed(&mut self, place: ShardPosition, journal: &mut Journal, from: ShardId, number: u64) {
        let Some((all, missing)) = self.open.get_mut(&number) else { return };
        *missing &= !(1 << from.0);
        if *missing != 0 {
            return;
        }
        let mut bits = *all;
        self.open.remove(&number);
        journal.delete(Key::Crossing(number));
        while bits != 0 {
            let shard = ShardId(bits.trailing_zeros() as u16);
            bits &= bits - 1;
            journal.delete(Key::Crossed(number, ShardPosition { shard, ..place }));
        }
    }
}

impl Exchanges {
    /// Notes that all who are here get a message now that was on its way to them. Returns who has got it before.
    pub(crate) fn mark_left(
        &mut self,
        place: ShardPosition,
        journal: &mut Journal,
        name: ExchangeName,
        left: &Left,
        shards: u16,
        bits: u64,
    ) -> Got {
        let known = self.marks.get(name);
        let those = Partitions::that(|partition| place.owns(partition) && left.is_missing(bits, shards, partition));
        if !those.is_empty() {
            self.put_mark(place, journal, name, Got { sessions: those, groups: those });
        }
        known
    }
}
