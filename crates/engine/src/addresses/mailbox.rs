//! Messages kept for a node while it is away (CTX-54 to CTX-57).
//!
//! A node's session keeps messages to its address, like any session that lasts. When the session ends, because the
//! client has left or starts a new one, these messages stay. Then the session is a mailbox: without subscriptions and
//! packet ids, but with a queue that addresses keep filling. The node's next session takes it over. So no message has
//! to be moved when a connection breaks: it leaves the queue when the node has acknowledged it, and not before
//! (CTX-28).

use crate::message::Message;
use crate::now::{Millis, Now};
use crate::session::Session;
use crate::settings::{AddressSettings, Settings};
use crate::topics::address_name::Address;

impl AddressSettings {
    /// When a message to a node expires that expires at `asked` as far as its sender is concerned.
    pub(crate) fn expiry(&self, now: Millis, asked: Millis) -> Millis {
        let after = |seconds: u32| if seconds == 0 { Millis::NEVER } else { now.plus_seconds(seconds) };
        match (self.expiry_forced_seconds, asked) {
            (0, Millis::NEVER) => after(self.expiry_default_seconds),
            (0, asked) => asked,
            (forced, _) => after(forced),
        }
    }

    /// The end of the messages kept for a node that is away from now on.
    pub(crate) fn mailbox_ends_at(&self, now: Millis) -> Millis {
        if self.node_expiry_seconds == u32::MAX { Millis::NEVER } else { now.plus_seconds(self.node_expiry_seconds) }
    }

    /// Whether a message is addressed to the client of a session.
    pub(crate) fn is_addressed(&self, session: &Session, topic: &str) -> bool {
        Address::read(&self.prefix, topic).is_some_and(|address| address.is_of(session))
    }
}

/// Whether a message that a session is owed was addressed to it.
pub(crate) fn is_addressed(settings: Option<&AddressSettings>, session: &Session, message: &Message) -> bool {
    settings.is_some_and(|addresses| addresses.is_addressed(session, message.topic()))
}

impl Settings {
    /// When a mailbox that begins now is given up, as far as there are mailboxes.
    pub(crate) fn mailbox_ends_at(&self, now: Now) -> Millis {
        self.addresses.as_ref().map_or(Millis::NEVER, |addresses| addresses.mailbox_ends_at(now.monotonic))
    }
}
