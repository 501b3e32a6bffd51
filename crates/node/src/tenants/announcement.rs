//! The announcement of a node to the others of its cluster: the use of its tenants.

use std::collections::BTreeMap;

use tidegate_engine::{Holding, TenantId};

use super::rates::Demand;

/// How many kinds of things a tenant has.
pub(super) const KINDS: usize = Holding::ALL.len();

/// The first byte of an announcement, which no other question between nodes has.
pub const QUOTAS_ANNOUNCEMENT: u8 = 6;
/// Bytes of one tenant: its number, four counts, its rate and whether this is short.
const TENANT_BYTES: usize = 2 + 4 * KINDS + 4 + 1;

/// The use of a tenant at one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeUse {
    /// By the numbers of [`Holding`].
    pub(super) counts: [u32; KINDS],
    pub(super) demand: Demand,
}

/// The use of tenants at one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Announcement {
    /// Whether tenants that are not in it use nothing; otherwise nothing is said about them.
    pub(super) is_whole: bool,
    pub(super) uses: BTreeMap<TenantId, NodeUse>,
}

impl Announcement {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(2 + self.uses.len() * TENANT_BYTES);
        out.extend([QUOTAS_ANNOUNCEMENT, u8::from(self.is_whole)]);
        for (tenant, of) in &self.uses {
            out.extend(tenant.0.to_le_bytes());
            of.counts.iter().for_each(|count| out.extend(count.to_le_bytes()));
            out.extend(of.demand.rate.to_le_bytes());
            out.push(u8::from(of.demand.is_short));
        }
        out
    }

    /// `None` if the bytes are no announcement.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [QUOTAS_ANNOUNCEMENT, is_whole, tenants @ ..] = bytes else { return None };
        let (tenants, []) = tenants.as_chunks::<TENANT_BYTES>() else { return None };
        let uses = tenants.iter().map(|bytes| read_tenant(bytes)).collect::<Option<_>>()?;
        Some(Self { is_whole: *is_whole != 0, uses })
    }
}

fn read_tenant(mut bytes: &[u8]) -> Option<(TenantId, NodeUse)> {
    let (tenant, rest) = bytes.split_first_chunk()?;
    bytes = rest;
    let mut number = || {
        let (number, rest) = bytes.split_first_chunk()?;
        bytes = rest;
        Some(u32::from_le_bytes(*number))
    };
    let mut counts = [0; KINDS];
    for count in &mut counts {
        *count = number()?;
    }
    let rate = number()?;
    let is_short = *bytes.first()? != 0;
    Some((TenantId(u16::from_le_bytes(*tenant)), NodeUse { counts, demand: Demand { rate, is_short } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_survives_its_bytes_and_cut_ones_are_none() {
        let of = NodeUse { counts: [1, 2, 3, u32::MAX], demand: Demand { rate: 7, is_short: true } };
        let uses = BTreeMap::from([(TenantId(1), of), (TenantId(9), NodeUse::default())]);
        let announcement = Announcement { is_whole: true, uses };
        let bytes = announcement.to_bytes();
        assert_eq!(Announcement::read(&bytes), Some(announcement));
        for cut in (0..bytes.len()).filter(|cut| cut % TENANT_BYTES != 2) {
            assert_eq!(Announcement::read(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(Announcement::read(b"{}"), None);
    }
}
