//! The rest: given out by the old home, delivered by the new one.

use super::{DEALT, NAME, RETAINED, TO_SESSION};
use crate::ids::{PartitionId, Partitions, TenantId};
use crate::link::exchange_word::ExchangeName;
use crate::message::MessageRef;
use crate::now::Now;
use crate::records::image::{read_delivery, read_message as read_publication};
use crate::session::Delivery;
use crate::session::table::Sessions;
use crate::wire::{WireError, WireReader};

/// Something of a rest.
pub(crate) enum Entry {
    ToSession {
        tenant: TenantId,
        client_id: String,
        delivery: Delivery,
    },
    Retained(MessageRef),
    /// The sessions of the partitions have got it.
    Name(ExchangeName),
    /// The groups of the partitions were dealt it.
    Dealt(ExchangeName),
}

impl Sessions {
    /// Reads the next part of a rest, and which partitions it is about.
    pub(crate) fn read_entry(&self, reader: &mut WireReader<'_>, now: Now) -> Result<(Partitions, Entry), WireError> {
        let kind = reader.u8("a kind")?;
        if kind == NAME || kind == DEALT {
            let partitions = Partitions::read(reader)?;
            let name = ExchangeName::read(reader)?;
            return Ok((partitions, if kind == NAME { Entry::Name(name) } else { Entry::Dealt(name) }));
        }
        let partition = PartitionId(reader.u16("a partition")?);
        let tenant = TenantId(reader.u16("a tenant")?);
        let entry = match kind {
            TO_SESSION => {
                let client_id = reader.text("a client id")?.to_owned();
                let session = self.find_session(tenant, &client_id).and_then(|key| self.get(key.0));
                let memberships = session.and_then(|session| session.rare.as_ref());
                let memberships = memberships.map_or(&[][..], |rare| &rare.memberships);
                let delivery = read_delivery(reader, now, tenant, memberships)?;
                Entry::ToSession { tenant, client_id, delivery }
            }
            RETAINED => Entry::Retained(read_publication(reader, now, tenant)?),
            _ => return Err(WireError { reading: "a part of a rest" }),
        };
        Ok((Partitions::of(partition), entry))
    }
}
