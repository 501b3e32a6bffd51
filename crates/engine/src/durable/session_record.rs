//! A session's own value.

use crate::ids::SessionKey;
use crate::journal::Journal;
use crate::journal::keys::Key;
use crate::records::stored::put_subscription;
use crate::session::table::Sessions;
use std::rc::Rc;
use std::sync::Arc;

use crate::identity::Identity;
use crate::ids::{ListenerId, TenantId};
use crate::now::{Millis, Now};
use crate::session::{Membership, Session, Standing, Will};
use crate::wire::{WireError, WireReader, WireWrite};

use crate::records::stored::end;
use crate::records::stored::put_message;
use crate::records::stored::read_message;

/// Version of the values; a reader refuses others.
pub(super) const RECORD_VERSION: u8 = 1;
/// That of the sessions of mobile nodes, which say more.
const NODE_VERSION: u8 = 2;
/// That of a session whose queue has come before it: tenant and client id alone.
const AHEAD_VERSION: u8 = 3;

/// Appends the value of a session that is still to come.
pub(crate) fn put_ahead(out: &mut Vec<u8>, tenant: TenantId, client_id: &str) {
    out.put_u8(AHEAD_VERSION);
    out.put_u16(tenant.0);
    out.put_bytes(client_id.as_bytes());
}

/// Whether a session's value is that of a session that was still to come when it was written.
pub(crate) fn is_ahead(value: &[u8]) -> bool {
    value.first() == Some(&AHEAD_VERSION)
}

/// A session's own value.
#[derive(Clone, Debug)]
pub(crate) struct SessionRecord {
    pub tenant: TenantId,
    pub client_id: Box<str>,
    pub expiry_seconds: u32,
    pub receive_maximum: u16,
    pub listener: ListenerId,
    /// Whether its client was connected.
    pub connected: bool,
    /// When it ends, if its client is away.
    pub ends_at: Millis,
    pub will: Option<Will>,
    /// When its will is due, if it waits.
    pub will_due: Millis,
    pub identity: Option<Arc<Identity>>,
    pub standing: Standing,
    /// Messages with numbers below this may belong to subscriptions of an earlier session.
    pub mailbox_from: u64,
}

impl SessionRecord {
    /// Appends the value of a session as it is now.
    pub(crate) fn write_session(out: &mut Vec<u8>, now: Now, session: &Session) {
        let rare = session.rare.as_deref();
        let is_node = session.standing.is_node();
        out.put_u8(if is_node { NODE_VERSION } else { RECORD_VERSION });
        out.put_u16(session.tenant.0);
        out.put_bytes(session.client_id.as_bytes());
        // One that ends with its connection and is stored all the same is given as long as a client takes to return.
        out.put_u32(if is_node { session.expiry_seconds } else { session.expiry_seconds.max(1) });
        out.put_u16(session.receive_maximum);
        out.put_u16(session.listener.0);
        out.put_u8(u8::from(session.connection.is_some()));
        out.put_u64(now.to_unix(rare.and_then(|rare| rare.ends_at).unwrap_or(Millis::NEVER)));
        let will = rare.and_then(|rare| rare.will.as_ref());
        out.put_u8(u8::from(will.is_some()));
        if let Some(will) = will {
            put_message(out, now, &will.message.publication());
            out.put_u32(will.delay_seconds);
            out.put_u8(u8::from(will.expiry_seconds.is_some()));
            out.put_u32(will.expiry_seconds.unwrap_or(0));
            out.put_u64(now.to_unix(rare.and_then(|rare| rare.will_due).unwrap_or(Millis::NEVER)));
        }
        out.put_u8(u8::from(session.identity.is_some()));
        if let Some(identity) = &session.identity {
            identity.write(out);
        }
        if is_node {
            out.put_u8(u8::from(session.standing == Standing::Mailbox));
            out.put_u64(session.flow.as_ref().filter(|flow| flow.tail.is_some()).map_or(0, |flow| flow.mailbox_from));
        }
    }

    /// The end of the session after a restart. The connection of a connected client broke when the process ended, at an
    /// unknown time, so its expiry interval starts now. A wall clock that was set back gives it no more time than it
    /// had when its client left; a mailbox has `mailbox_ends_at` at most.
    pub(crate) fn ends_at_after_restart(&self, now: Now, mailbox_ends_at: Millis) -> Millis {
        match self.expiry_seconds {
            _ if self.standing == Standing::Mailbox => self.ends_at.min(mailbox_ends_at),
            // It has ended with its connection.
            0 => now.monotonic,
            u32::MAX => Millis::NEVER,
            seconds if self.connected || self.ends_at == Millis::NEVER => now.monotonic.plus_seconds(seconds),
            seconds => self.ends_at.min(now.monotonic.plus_seconds(seconds)),
        }
    }

    /// Reads a session's value.
    pub(crate) fn read(value: &[u8], now: Now) -> Result<Self, WireError> {
        let mut reader = WireReader::new(value);
        let is_node = read_version(&mut reader)?;
        let tenant = TenantId(reader.u16("a tenant")?);
        let client_id: Box<str> = reader.text("a client id")?.into();
        let expiry_seconds = reader.u32("a session expiry")?;
        let receive_maximum = reader.u16("a receive maximum")?;
        let listener = ListenerId(reader.u16("a listener")?);
        let connected = reader.flag("whether it was connected")?;
        let ends_at = now.from_unix(reader.u64("a session's end")?);
        let (mut will, mut will_due) = (None, Millis::NEVER);
        if reader.flag("whether there is a will")? {
            let message = read_message(&mut reader, now, tenant)?;
            let delay_seconds = reader.u32("a will delay")?;
            let expires = reader.flag("whether a will expires")?;
            let expiry = reader.u32("a will's expiry")?;
            will_due = now.from_unix(reader.u64("a will's time")?);
            will = Some(Will { message, delay_seconds, expiry_seconds: expires.then_some(expiry) });
        }
        let mut identity = None;
        if reader.flag("whether there is an identity")? {
            identity = Some(Arc::new(Identity::read(&mut reader)?));
        }
        let (mut standing, mut mailbox_from) = (Standing::Client, 0);
        if is_node {
            let mailbox = reader.flag("whether it is a mailbox")?;
            standing = if mailbox { Standing::Mailbox } else { Standing::Node };
            mailbox_from = reader.u64("where a mailbox began")?;
        }
        end(&reader)?;
        if client_id.is_empty() || (expiry_seconds == 0 && !is_node) {
            return Err(WireError { reading: "a session that lasts" });
        }
        Ok(Self {
            tenant,
            client_id,
            expiry_seconds,
            receive_maximum,
            listener,
            connected,
            ends_at,
            will,
            will_due,
            identity,
            standing,
            mailbox_from,
        })
    }
}

/// Reads the version of a session's value; returns whether the session is a mobile node's.
fn read_version(reader: &mut WireReader<'_>) -> Result<bool, WireError> {
    match reader.u8("a version")? {
        RECORD_VERSION => Ok(false),
        NODE_VERSION => Ok(true),
        _ => Err(WireError { reading: "a session of this version" }),
    }
}

/// The session that a value belongs to, without the rest of it.
pub(super) fn client_of(value: &[u8]) -> Result<(TenantId, &str), WireError> {
    let mut reader = WireReader::new(value);
    if !reader.skip(AHEAD_VERSION) {
        read_version(&mut reader)?;
    }
    let tenant = TenantId(reader.u16("a tenant")?);
    Ok((tenant, reader.text("a client id")?))
}

impl Sessions {
    /// Stores a session as it is now, if it outlives its connection and there is a store; a session that does not
    /// outlive it any more is deleted from the store.
    pub(crate) fn store_session(&mut self, journal: &mut Journal, key: SessionKey) {
        if !journal.is_on() {
            return;
        }
        let Some(session) = self.get_mut(key.0) else { return };
        // Messages that are only in the store can be read only while their session is there.
        let reads = session.flow.as_ref().is_some_and(|flow| flow.tail.is_some());
        if !session.lasts() && !reads {
            if let Some(stored) = session.stored.take() {
                journal.delete(Key::Session(stored));
                // Its will was stored with it.
                self.store_will(journal, key);
            }
            return;
        }
        let stored = *session.stored.get_or_insert_with(|| journal.new_session());
        let now = journal.now;
        journal.put(Key::Session(stored), |out| SessionRecord::write_session(out, now, session));
        // Its will is stored with it from now on.
        if let Some(stored) = session.rare.as_mut().and_then(|rare| rare.stored_will.take()) {
            journal.delete(Key::Will(stored));
        }
    }

    /// Stores a subscription under the filter that its client gave.
    pub(crate) fn store_subscription(
        &mut self,
        journal: &mut Journal,
        key: SessionKey,
        filter: &str,
        options: u8,
        subscription_id: u32,
    ) {
        let stored = self.get(key.0).and_then(|session| session.stored);
        if let Some(stored) = stored {
            journal.put(Key::Subscription(stored, filter), |out| put_subscription(out, options, subscription_id));
        }
    }
}

impl Membership {
    /// Stores the membership of a session in a shared group.
    pub(crate) fn store(&self, sessions: &mut Sessions, journal: &mut Journal, key: SessionKey) {
        let (options, id) = (self.kept_options(), self.member.subscription_id);
        let whole = format!("$share/{}/{}", self.share, self.filter);
        sessions.store_subscription(journal, key, &whole, options, id);
    }

    /// The home of its group has confirmed it, if the session still has it.
    pub(crate) fn confirm(self: &Rc<Self>, sessions: &mut Sessions, journal: &mut Journal, key: SessionKey) {
        if self.is_confirmed() {
            return;
        }
        self.set_unconfirmed(false);
        let rare = sessions.get(key.0).and_then(|session| session.rare.as_ref());
        if rare.is_some_and(|rare| rare.memberships.iter().any(|other| Rc::ptr_eq(other, self))) {
            self.store(sessions, journal, key);
        }
    }
}
