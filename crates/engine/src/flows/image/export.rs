//! Sessions, wills and queues are written into an image.

use crate::flows::contexts::Imaging;
use crate::flows::contexts::Moving;
use crate::flows::contexts::connecting;
use crate::flows::contexts::subscribing;
use crate::ids::SessionKey;
use crate::image::read_session::{RECEIVED, RECEIVED_DOUBTFUL, REFUSED};
use crate::image::tail::{SentAhead, put_tail};
use crate::journal::keys::Key;
use crate::now::{Millis, Now};
use crate::records::image::put_delivery;
use crate::records::image::put_message;
use crate::session::exchange::Exchange;
use crate::session::packet_ids::State;
use crate::session::refused::RefusedMessages;
use crate::session::{Flow, Session, Standing, Will};
use crate::wire::WireWrite;
use tidegate_mqtt::PacketId;

/// A client that was moved has at least this long, in seconds, to find its new place before its will is published
/// there.
const MOVED_WILL_DELAY_SECONDS: u32 = 10;

impl Imaging<'_> {
    /// Writes a session. The new home has the end of its queue if there is `sent`.
    pub(crate) fn put_session(
        &self,
        out: &mut Vec<u8>,
        now: Now,
        (key, session): (SessionKey, &Session),
        sent: Option<&SentAhead>,
    ) {
        let rare = session.rare.as_deref();
        out.put_u16(session.tenant.0);
        out.put_bytes(session.client_id.as_bytes());
        out.put_u32(session.expiry_seconds);
        out.put_u16(session.receive_maximum);
        out.put_u16(session.listener.0);
        out.put_u8(u8::from(session.identity.is_some()));
        if let Some(identity) = &session.identity {
            identity.write(out);
        }
        self.nodes.put_standing(out, key, session.standing);
        out.put_u64(now.to_unix(rare.and_then(|rare| rare.ends_at).unwrap_or(Millis::NEVER)));
        out.put_u64(rare.and_then(|rare| rare.sent_on_until).map_or(0, |until| now.to_unix(until)));
        let will = rare.and_then(|rare| rare.will.as_ref());
        put_will(out, now, session.expiry_seconds, will, rare.and_then(|rare| rare.will_due));
        out.put_u32(session.filters.len() as u32);
        for filter in session.filters.iter() {
            let subscriber = self.router.index.subscriber(filter, key);
            let text = self.router.index.filter(filter).unwrap_or_default();
            out.put_bytes(text.as_bytes());
            out.put_u8(subscriber.map_or(0, |subscriber| subscriber.options.bits()));
            out.put_u32(subscriber.map_or(0, |subscriber| subscriber.subscription_id));
            let fetches = self.retaining.fetches.is_starting(key, text)
                || self.retaining.fetches.fetch_of(&self.state.sessions, key, text).is_some();
            out.put_u8(u8::from(fetches));
        }
        let memberships = rare.map_or(&[][..], |rare| &rare.memberships);
        out.put_u32(memberships.len() as u32);
        for membership in memberships {
            out.put_bytes(membership.share.as_bytes());
            out.put_bytes(membership.filter.as_bytes());
            out.put_u8(membership.kept_options());
            out.put_u32(membership.member.subscription_id);
        }
        let exchanges = rare.map_or(&[][..], |rare| &rare.exchanges);
        put_flow(out, now, session.flow.as_deref());
        put_received(out, session.flow.as_deref(), exchanges, rare.map(|rare| &rare.refused));
        put_tail(out, now, session.flow.as_deref(), sent);
    }
}

impl Moving<'_> {
    /// Removes a session that lives elsewhere from now on: nothing of it is published, returned or counted as lost.
    pub(crate) fn forget_session(&mut self, now: Now, key: SessionKey) {
        connecting!(self).drop_former_wills(key, |_| true);
        connecting!(self).cancel_session_timers(key);
        self.retaining.fetches.end_fetches(self.state, key);
        subscribing!(self).set_standing(now, key, Standing::Client);
        subscribing!(self).remove_subscriptions(now, key);
        self.state.sessions.end_answered_exchanges(&mut self.state.exchanges, key);
        let Some(session) = self.state.withdraw_session(key) else { return };
        self.state.sessions.release(key.0);
        if let Some(stored) = session.stored {
            self.state.journal.delete(Key::Session(stored));
        }
        if let Some(tail) = session.flow.as_ref().and_then(|flow| flow.tail.as_deref()) {
            self.state.memory.forget_tail(tail.messages, tail.bytes, tail.counted);
        }
        self.state.memory.held -= session.flow.as_ref().map_or(0, |flow| flow.inflight_bytes);
        if let Some(flow) = &session.flow {
            // Their queue is not here any more, so they cannot wait for it.
            self.state.to_unpark.extend(&flow.blocking);
            flow.queue.iter().for_each(|delivery| self.state.memory.forget_queued(delivery.cost()));
        }
    }
}

/// Writes the will of a session, with its expiry in seconds after the end of its connection.
fn put_will(out: &mut Vec<u8>, now: Now, expiry_seconds: u32, will: Option<&Will>, due: Option<Millis>) {
    out.put_u8(u8::from(will.is_some()));
    let Some(will) = will else { return };
    put_message(out, now, &will.message);
    out.put_u32(will.delay_seconds);
    out.put_u8(u8::from(will.expiry_seconds.is_some()));
    out.put_u32(will.expiry_seconds.unwrap_or(0));
    let due = due.unwrap_or_else(|| due_of_moved(now, will, expiry_seconds));
    out.put_u64(now.to_unix(due));
}

/// When the will is due of a client whose connection has just ended for a move, and by no fault of its own.
pub(crate) fn due_of_moved(now: Now, will: &Will, expiry_seconds: u32) -> Millis {
    now.monotonic.plus_seconds(will.delay_seconds.max(MOVED_WILL_DELAY_SECONDS).min(expiry_seconds))
}

fn put_flow(out: &mut Vec<u8>, now: Now, flow: Option<&Flow>) {
    let sent: Vec<_> =
        flow.into_iter().flat_map(|flow| flow.inflight.iter()).filter(|entry| entry.is_whole()).collect();
    out.put_u32(sent.len() as u32);
    for entry in sent {
        out.put_u16(entry.id().get());
        out.put_u8(match entry.state {
            State::AwaitPubAck => 0,
            State::AwaitPubRec => 1,
            State::AwaitPubComp => 2,
        });
        if let Some(delivery) = entry.item.delivery.as_ref().filter(|_| entry.state != State::AwaitPubComp) {
            put_delivery(out, now, delivery);
        }
    }
    out.put_u32(flow.map_or(0, |flow| flow.queue.len() as u32));
    for delivery in flow.into_iter().flat_map(|flow| &flow.queue) {
        put_delivery(out, now, delivery);
    }
}

/// Writes the packet ids of QoS 2 messages that the client has sent and not released, and of messages that were refused
/// after other receivers had got them.
fn put_received(
    out: &mut Vec<u8>,
    flow: Option<&Flow>,
    exchanges: &[(PacketId, Exchange)],
    refused: Option<&RefusedMessages>,
) {
    out.put_u32((flow.map_or(0, |flow| flow.received.len()) + refused.map_or(0, RefusedMessages::len)) as u32);
    for id in flow.into_iter().flat_map(|flow| flow.received.iter()) {
        out.put_u16(id.get());
        // One that all nodes have confirmed needs no name any more, and its shard ends it when the session is forgotten
        // there. Of others the new home gets no reports of nodes: its publisher's repetition goes to all again.
        let open = exchanges.iter().find(|(of, exchange)| *of == id && !exchange.answered);
        let exchange = open.map(|(_, exchange)| *exchange);
        out.put_u8(if exchange.is_some() { RECEIVED_DOUBTFUL } else { RECEIVED });
        if let Some(exchange) = exchange {
            exchange.write(out);
        }
    }
    for (id, message) in refused.into_iter().flat_map(RefusedMessages::iter) {
        out.put_u16(id.get());
        out.put_u8(REFUSED);
        message.write(out);
    }
}
