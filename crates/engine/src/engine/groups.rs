//! Kept messages of shared groups are read from the store.

use crate::engine::facets::MoveCalls;
use crate::groups::kept::taken_over::KeptImage;
use crate::ids::TenantId;
use crate::now::Now;
use crate::records::image::read_message as read_publication;
use crate::wire::{WireError, WireReader};
use tidegate_mqtt::QoS;

impl MoveCalls<'_> {
    /// Reads the output of `put_kept`.
    pub(crate) fn read_kept(reader: &mut WireReader<'_>, now: Now) -> Result<Vec<KeptImage>, WireError> {
        let mut all = Vec::new();
        for _ in 0..reader.u32("a number of messages of groups")? {
            let tenant = TenantId(reader.u16("a tenant")?);
            let (share, filter) = (reader.text("a share name")?, reader.text("a topic filter")?);
            let (client, id) = (reader.u64("a client")?, reader.u64("a number of a message")?);
            let message = read_publication(reader, now, tenant)?;
            if id == 0 || message.qos == QoS::AtMostOnce {
                return Err(WireError { reading: "a message of a group" });
            }
            all.push(KeptImage { share: share.into(), filter: filter.into(), client, id, message });
        }
        Ok(all)
    }
}
