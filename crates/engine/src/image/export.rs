//! Moving a partition out.

use crate::addresses::Nodes;
use crate::cluster::exchanges::Exchanges;
use crate::ids::{Partitions, SessionKey, TenantId};
use crate::now::Now;
use crate::records::image::put_message;
use crate::retained::RetainedStore;
use crate::session::Standing;
use crate::wire::WireWrite;

impl Exchanges {
    /// Writes the names of messages of other nodes that sessions or groups of some partitions have got: each name once,
    /// behind the partitions that have got it.
    pub(crate) fn put_marks(&self, out: &mut Vec<u8>, partitions: Partitions) {
        let names = self.marks.of_partitions(partitions);
        out.put_u32(names.len() as u32);
        for (by, names) in names {
            by.write(out);
            out.put_u32(names.len() as u32);
            for name in names {
                name.write(out);
            }
        }
    }
}

impl RetainedStore {
    /// Writes the retained messages of a partition.
    pub(crate) fn put_retained(&self, out: &mut Vec<u8>, now: Now, topics: &[(TenantId, &str)]) {
        let kept = topics.iter().filter_map(|(tenant, topic)| {
            self.values.get(*tenant, topic, now.monotonic).map(|message| (*tenant, message))
        });
        let kept: Vec<_> = kept.collect();
        out.put_u32(kept.len() as u32);
        for (tenant, message) in kept {
            out.put_u16(tenant.0);
            put_message(out, now, message);
        }
    }
}

impl Nodes {
    /// Writes whether it is a mobile node's, and the groups that the node is in.
    pub(crate) fn put_standing(&self, out: &mut Vec<u8>, key: SessionKey, standing: Standing) {
        out.put_u8(match standing {
            Standing::Client => 0,
            Standing::Node => 1,
            Standing::Mailbox => 2,
        });
        let groups: Vec<&str> = self.groups_of(key).collect();
        out.put_u32(groups.len() as u32);
        for group in groups {
            out.put_bytes(group.as_bytes());
        }
    }
}
