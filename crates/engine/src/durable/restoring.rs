//! A session of a store while its parts are taken in, and the end of its queue, which stays there.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::ids::{SessionKey, TenantId};
use crate::now::Millis;
use crate::session::Membership;
use crate::session::tail::Tail;

use crate::records::stored::Content;
use crate::records::stored::ReadEntry;
use crate::records::stored::SentRecord;

/// A session while its parts come in.
#[derive(Debug)]
pub(crate) struct Restoring {
    pub(crate) key: SessionKey,
    pub(crate) tenant: TenantId,
    pub(crate) memberships: Vec<Rc<Membership>>,
    pub(crate) entries: BTreeMap<u64, RestoredEntry>,
    /// What stays in the store alone.
    pub(crate) tail: Option<Tail>,
    /// The highest number of its entries.
    pub(crate) last: u64,
    /// See [`SessionRecord::mailbox_from`].
    pub(crate) mailbox_from: u64,
}

impl Restoring {
    /// Leaves the end of a long queue to the store: what is beyond `share` bytes and simply comes next.
    pub(crate) fn leave_tail(&mut self, share: u64) {
        let stays = |(_, restored): &(&u64, &RestoredEntry)| restored.may_leave_memory();
        let Some((first, _)) = self.entries.iter().rev().take_while(stays).last() else { return };
        let mut in_memory = 0;
        let beyond = self.entries.iter().find(|(number, restored)| {
            let full = in_memory > 0 && in_memory + restored.cost() > share;
            in_memory += if restored.sent.is_none() { restored.cost() } else { 0 };
            full && *number >= first
        });
        let Some((first, _)) = beyond else { return };
        let first = *first;
        let left = self.entries.split_off(&first);
        let mut tail = Tail { first, messages: left.len() as u64, ..Tail::default() };
        for (number, restored) in &left {
            tail.bytes += restored.cost();
            tail.runs.add(*number, restored.expires_at(), restored.cost());
        }
        self.tail = Some(tail);
    }
}

#[derive(Debug)]
pub(crate) struct RestoredEntry {
    pub(crate) entry: ReadEntry,
    pub(crate) sent: Option<SentRecord>,
}

impl RestoredEntry {
    /// Whether it simply waits for its turn, and can be read again by its own key.
    fn may_leave_memory(&self) -> bool {
        let Content::Here(message) = &self.entry.content else { return false };
        self.sent.is_none() && self.entry.group.is_none() && !self.entry.latest && message.priority == 0
    }

    /// When it expires, as far as that is known here.
    fn expires_at(&self) -> Millis {
        match &self.entry.content {
            Content::Here(message) => message.expires_at,
            Content::Body(_) => Millis::NEVER,
        }
    }

    /// Bytes that it costs in memory, as far as they are its own.
    fn cost(&self) -> u64 {
        let message = match &self.entry.content {
            Content::Here(message) => message.cost(),
            Content::Body(_) => 0,
        };
        message + size_of::<crate::session::Delivery>() as u64
    }
}
