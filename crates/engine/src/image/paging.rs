//! Queues that live outside memory while their client is away: the engine gives a queue out as bytes, asks for it back
//! when the client returns, and sends nothing to it in between.

use super::fields::{put_delivery, read_delivery};
use crate::engine::Engine;
use crate::event::Event;
use crate::ids::{SessionKey, TenantId};
use crate::now::Now;
use crate::session::Paged;
use crate::wire::{WireError, WireReader, WireWrite};

/// A part of a session's queue, moved out of memory.
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

/// Why a queue was not taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageError {
    /// The session has ended meanwhile; its messages were counted as dropped.
    NoSession,
    /// The bytes are not what was given out.
    Malformed(WireError),
}

impl std::fmt::Display for PageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSession => f.write_str("the session has ended meanwhile"),
            Self::Malformed(error) => write!(f, "not a queue that was moved out of memory: {error}"),
        }
    }
}

impl std::error::Error for PageError {}

impl Engine {
    /// Moves the queue of a client that is away out of memory. `None` when there is no such session, it is connected, its
    /// queue is empty, or an earlier part has not come back: a queue leaves and returns as one.
    pub fn page_out(&mut self, now: Now, tenant: TenantId, client_id: &str) -> Option<PagedQueue> {
        let key = self.session_named(tenant, client_id)?;
        let session = self.desk.sessions.get_mut(key.0)?;
        if session.connection.is_some() || session.rare.as_ref().is_some_and(|rare| rare.paged.is_some()) {
            return None;
        }
        let flow = session.flow.as_mut()?;
        let queue = std::mem::take(&mut flow.queue);
        flow.queue_bytes = 0;
        if queue.is_empty() {
            return None;
        }
        let messages = queue.len() as u64;
        session.rare_mut().paged = Some(Paged { messages, loading: false });
        let mut bytes = Vec::new();
        bytes.put_u32(queue.len() as u32);
        for delivery in &queue {
            put_delivery(&mut bytes, now, delivery);
            self.desk.forget_queued(delivery.cost());
        }
        Some(PagedQueue { tenant, client_id: client_id.to_owned(), messages, bytes })
    }

    /// Puts a queue back before whatever has been queued since, and goes on sending.
    ///
    /// # Errors
    ///
    /// When the session is gone or the bytes are damaged; the session then stays as it is.
    pub fn handle_loaded(&mut self, now: Now, paged: &PagedQueue) -> Result<(), PageError> {
        let key = self.session_named(paged.tenant, &paged.client_id).ok_or(PageError::NoSession)?;
        let session = self.desk.sessions.get_mut(key.0).ok_or(PageError::NoSession)?;
        let memberships = session.rare.as_ref().map(|rare| rare.memberships.clone()).unwrap_or_default();
        let mut reader = WireReader::new(&paged.bytes);
        let mut loaded = Vec::new();
        for _ in 0..reader.u32("a number of messages").map_err(PageError::Malformed)? {
            loaded.push(read_delivery(&mut reader, now, &memberships).map_err(PageError::Malformed)?);
        }
        session.rare_mut().paged = None;
        for delivery in loaded.into_iter().rev() {
            let cost = delivery.cost();
            let flow = session.flow_mut();
            flow.queue.push_front(delivery);
            flow.queue_bytes += cost;
            self.desk.queued_messages += 1;
            self.desk.queued_bytes += cost;
            self.desk.memory += cost;
        }
        session.settle();
        self.desk.refill(now.monotonic, &mut self.layouts, key);
        self.after_frame(now);
        Ok(())
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
