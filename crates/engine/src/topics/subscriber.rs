//! The subscriber and its options: eight bytes for each subscription.

use tidegate_mqtt::{MAX_SUBSCRIPTION_IDENTIFIER, QoS};

use crate::ids::SessionKey;

/// Options of a subscription that matter for each message (MQTT 5, 3.8.3.1), packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SubscriberOptions(u8);

const QOS: u8 = 0b0011;
const NO_LOCAL: u8 = 0b0100;
const RETAIN_AS_PUBLISHED: u8 = 0b1000;

impl SubscriberOptions {
    /// Packs the options.
    #[inline]
    pub(crate) fn new(qos: QoS, no_local: bool, retain_as_published: bool) -> Self {
        let no_local = if no_local { NO_LOCAL } else { 0 };
        let retain = if retain_as_published { RETAIN_AS_PUBLISHED } else { 0 };
        Self(qos.bits() | no_local | retain)
    }

    /// The packed form, for crossing to another shard.
    #[inline]
    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// Unpacks [`SubscriberOptions::bits`].
    #[inline]
    pub(crate) fn from_bits(bits: u8) -> Self {
        Self(bits & (QOS | NO_LOCAL | RETAIN_AS_PUBLISHED))
    }

    /// The highest QoS that the subscriber is sent.
    #[inline]
    pub(crate) fn qos(self) -> QoS {
        QoS::from_bits(self.0 & QOS).unwrap_or(QoS::ExactlyOnce)
    }

    /// Whether the subscriber's own messages are kept from it. Merged options say so when any of their subscriptions
    /// does.
    #[inline]
    pub(crate) fn no_local(self) -> bool {
        self.0 & NO_LOCAL != 0
    }

    /// Whether RETAIN is passed on as the publisher set it.
    #[inline]
    pub(crate) fn retain_as_published(self) -> bool {
        self.0 & RETAIN_AS_PUBLISHED != 0
    }

    /// The options of one delivery for several subscriptions: the highest QoS, and each flag that any of them has.
    #[inline]
    #[must_use]
    pub(super) fn merge(self, other: Self) -> Self {
        let qos = (self.0 & QOS).max(other.0 & QOS);
        Self(qos | ((self.0 | other.0) & !QOS))
    }
}

/// A session's subscription to some filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subscriber {
    /// The subscriber.
    pub(crate) session: SessionKey,
    /// How.
    pub(crate) options: SubscriberOptions,
    /// Subscription Identifier, 1..=268,435,455; 0 means no identifier.
    pub(crate) subscription_id: u32,
}

/// A [`Subscriber`] as it is kept: the identifier needs 28 bits, the options the other four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    session: u32,
    options_and_id: u32,
}

const ID_BITS: u32 = 28;
const _: () = assert!(MAX_SUBSCRIPTION_IDENTIFIER < 1 << ID_BITS);

impl Packed {
    /// No subscriber; a slab never hands out this key.
    pub(super) const NONE: Self = Self { session: u32::MAX, options_and_id: 0 };

    #[inline]
    pub(super) fn new(subscriber: Subscriber) -> Self {
        let id = subscriber.subscription_id & MAX_SUBSCRIPTION_IDENTIFIER;
        Self { session: subscriber.session.0, options_and_id: u32::from(subscriber.options.0) << ID_BITS | id }
    }

    #[inline]
    pub(super) fn from_parts(session: u32, options_and_id: u32) -> Self {
        Self { session, options_and_id }
    }

    #[inline]
    pub(super) fn is_none(self) -> bool {
        self.session == u32::MAX
    }

    #[inline]
    pub(super) fn session(self) -> u32 {
        self.session
    }

    #[inline]
    pub(super) fn options_and_id(self) -> u32 {
        self.options_and_id
    }

    #[inline]
    pub(super) fn unpack(self) -> Subscriber {
        Subscriber {
            session: SessionKey(self.session),
            options: SubscriberOptions((self.options_and_id >> ID_BITS) as u8),
            subscription_id: self.options_and_id & MAX_SUBSCRIPTION_IDENTIFIER,
        }
    }
}
