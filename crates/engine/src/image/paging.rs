//! Queues that live outside memory while their client is away: the engine gives a queue out as bytes, asks for it back
//! when the client returns, and sends nothing to it in between.

use super::checksum;
use super::fields::{put_delivery, read_delivery};
use crate::engine::Engine;
use crate::event::Event;
use crate::ids::{SessionKey, TenantId};
use crate::now::Now;
use crate::session::{Delivery, Paged};
use crate::telling::reason::Reason;
use crate::wire::{WireError, WireReader, WireWrite};

/// The queue of a session, moved out of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagedQueue {
    /// The tenant of the client.
    pub tenant: TenantId,
    /// The client id.
    pub client_id: String,
    /// How many messages the bytes hold.
    pub messages: u64,
    /// The messages, oldest first; for [`Engine::handle_loaded`].
    pub bytes: Vec<u8>,
}

/// Why a queue was not taken back. The session is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageError {
    /// The session has ended meanwhile; its messages were counted as dropped.
    NoSession,
    /// Nothing of the session's queue is outside memory: it came back already, or belonged to an earlier session.
    NothingMissing,
    /// The bytes are not those that were given out last.
    Damaged,
    /// The bytes cannot be read.
    Malformed(WireError),
}

impl std::fmt::Display for PageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSession => f.write_str("the session has ended meanwhile"),
            Self::NothingMissing => f.write_str("nothing of the session's queue is outside memory"),
            Self::Damaged => {
                f.write_str("the queue is not the one that was moved out of memory; read it again or give it up")
            }
            Self::Malformed(error) => write!(f, "not a queue that was moved out of memory: {error}"),
        }
    }
}

impl std::error::Error for PageError {}

impl Engine {
    /// Moves the queue of a client that is away out of memory. When the client is back, [`Event::LoadQueue`] asks for it.
    ///
    /// `None` when there is no such session, it is connected, its queue is empty or an earlier
    /// one has not come back (a queue leaves and returns as one), or it holds messages of a shared group, which go to
    /// another member if this session ends. What is queued meanwhile has the whole limit of the queue to itself.
    pub fn page_out(&mut self, now: Now, tenant: TenantId, client_id: &str) -> Option<PagedQueue> {
        let key = self.session_named(tenant, client_id)?;
        let session = self.desk.sessions.get_mut(key.0)?;
        if session.connection.is_some() || session.is_loading() {
            return None;
        }
        let flow = session.flow.as_mut()?;
        if flow.queue.is_empty() || flow.tail.is_some() || flow.queue.iter().any(|delivery| delivery.group.is_some()) {
            return None;
        }
        let queue = std::mem::take(&mut flow.queue);
        flow.queue_bytes = 0;
        let messages = queue.len() as u64;
        let mut bytes = Vec::new();
        for delivery in &queue {
            put_delivery(&mut bytes, now, delivery);
            // What it is stored under stays: it is forgotten there when it is sent and done.
            bytes.put_u64(delivery.number);
        }
        session.rare_mut().paged = Some(Paged { messages, checksum: checksum(&bytes), loading: false });
        session.settle();
        for delivery in &queue {
            self.desk.forget_queued(delivery.cost());
        }
        Some(PagedQueue { tenant, client_id: client_id.to_owned(), messages, bytes })
    }

    /// Puts a queue back before whatever has been queued since, and goes on sending.
    ///
    /// # Errors
    ///
    /// When the session is gone, wants no queue, or the bytes are not its queue. A session that is owed a queue sends
    /// nothing until it comes or is given up ([`Engine::give_up_paged`]).
    pub fn handle_loaded(&mut self, now: Now, paged: &PagedQueue) -> Result<(), PageError> {
        let key = self.session_named(paged.tenant, &paged.client_id).ok_or(PageError::NoSession)?;
        let session = self.desk.sessions.get_mut(key.0).ok_or(PageError::NoSession)?;
        let missing = session.rare.as_ref().and_then(|rare| rare.paged).ok_or(PageError::NothingMissing)?;
        if checksum(&paged.bytes) != missing.checksum {
            return Err(PageError::Damaged);
        }
        let loaded = read_queue(now, paged, missing.messages).map_err(PageError::Malformed)?;
        let cost: u64 = loaded.iter().map(Delivery::cost).sum();
        let flow = session.flow_mut();
        flow.queue.prepend(loaded);
        flow.queue_bytes += cost;
        self.desk.queued_messages += missing.messages;
        self.desk.queued_bytes += cost;
        self.desk.memory += cost;
        self.go_on_without(now, key);
        Ok(())
    }

    /// Gives up a queue that cannot be brought back: its messages are counted as dropped
    /// ([`Reason::QueueLost`]), and the session goes on with what has been queued since. Says whether one was missing.
    pub fn give_up_paged(&mut self, now: Now, tenant: TenantId, client_id: &str) -> bool {
        let Some(key) = self.session_named(tenant, client_id) else { return false };
        let session = self.desk.sessions.get(key.0);
        let Some(missing) = session.and_then(|session| session.rare.as_ref()?.paged) else { return false };
        self.desk.counters.dropped[Reason::QueueLost.number()] += missing.messages;
        self.go_on_without(now, key);
        true
    }

    /// Nothing of the session's queue is outside memory any more.
    fn go_on_without(&mut self, now: Now, key: SessionKey) {
        if let Some(session) = self.desk.sessions.get_mut(key.0) {
            session.rare_mut().paged = None;
            session.settle();
        }
        self.desk.refill(now.monotonic, &mut self.layouts, key);
        self.after_frame(now);
    }

    /// A client is back whose queue is elsewhere: it is asked for, once.
    pub(crate) fn ask_for_queue(&mut self, key: SessionKey) {
        let Some(session) = self.desk.sessions.get_mut(key.0) else { return };
        let (tenant, client_id) = (session.tenant, session.client_id.to_string());
        let Some(paged) = session.rare.as_mut().and_then(|rare| rare.paged.as_mut()) else { return };
        if !paged.loading {
            paged.loading = true;
            self.desk.events.push_back(Event::LoadQueue { tenant, client_id });
        }
    }
}

fn read_queue(now: Now, paged: &PagedQueue, messages: u64) -> Result<Vec<Delivery>, WireError> {
    let mut reader = WireReader::new(&paged.bytes);
    let mut loaded = Vec::new();
    while !reader.is_empty() {
        let delivery = read_delivery(&mut reader, now, paged.tenant, &[])?;
        loaded.push(Delivery { number: reader.u64("a message's number")?, ..delivery });
    }
    if loaded.len() as u64 == messages { Ok(loaded) } else { Err(WireError { reading: "the end of the queue" }) }
}
