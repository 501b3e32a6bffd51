//! A PUBLISH on its way in.

use crate::connection::table::Connections;
use crate::topics::{RouteCache, RouteSlot};
use tidegate_mqtt::RawPublish;

use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::message::Publication;
use crate::now::{Millis, Now};

/// A PUBLISH whose topic is known and valid, with everything that the stages of the pipeline ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inbound<'a> {
    pub(crate) now: Now,
    /// The connection of the publisher.
    pub(crate) key: ConnectionKey,
    /// The session of the publisher; principals have none.
    pub(crate) session: Option<SessionKey>,
    /// The tenant in which it is published: [`TenantId::BROKER_LINK`] on its way to a fleet.
    pub(crate) tenant: TenantId,
    /// The route of its topic.
    pub(crate) slot: RouteSlot,
    /// The packet.
    pub(crate) raw: &'a RawPublish<'a>,
    /// The properties that are passed on.
    pub(crate) properties: &'a [u8],
    /// When it expires, or never.
    pub(crate) expires_at: Millis,
    /// True if it asks for receipts that do not exist.
    pub(crate) unknown_receipts: bool,
}

impl Inbound<'_> {
    /// The message as it is delivered. Its priority is not set.
    #[inline]
    pub(crate) fn publication<'p>(&'p self, topic: &'p str) -> Publication<'p> {
        let raw = self.raw;
        let Self { tenant, properties, expires_at, .. } = *self;
        Publication::new(tenant, topic, raw.qos, raw.retain, properties, expires_at, raw.payload, 0)
    }
}

impl RouteCache {
    /// The topic of a PUBLISH alone.
    #[cold]
    pub(crate) fn topic_of(&self, it: &Inbound<'_>) -> String {
        self.get(it.slot).0.to_owned()
    }
}

impl Connections {
    /// True if the connection of the publisher is gone, so that it can neither wait nor be answered.
    pub(crate) fn is_leaving(&self, it: &Inbound<'_>) -> bool {
        self.get(it.key).is_none_or(|connection| connection.leaving)
    }
}
