//! SUBSCRIBE: asks for subscriptions, from client to server (section 3.8).

use crate::property::{Property, PropertyReader};
use crate::reader::{Reader, check_flags};
use crate::writer;
use crate::{
    DecodeError, EncodeError, MAX_PACKET_SIZE, PacketId, PacketType, PropertyOwner, QoS, TopicError, TopicFilter,
    UserProperties, Version,
};

/// A SUBSCRIBE packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscribe<'a> {
    /// The Packet Identifier that the SUBACK repeats ([MQTT-3.8.4-2]).
    pub packet_id: PacketId,
    /// The number that messages for these subscriptions are to carry, 1 to
    /// [`MAX_SUBSCRIPTION_IDENTIFIER`](crate::MAX_SUBSCRIPTION_IDENTIFIER); MQTT 5.0 only.
    pub subscription_identifier: Option<u32>,
    /// Pairs of the client's own; MQTT 5.0 only.
    pub user_properties: UserProperties<'a>,
    /// The requested subscriptions; at least one ([MQTT-3.8.3-2]).
    pub subscriptions: Subscriptions<'a>,
}

impl<'a> Subscribe<'a> {
    /// Decodes the body. Accepts one kind of invalid filter, a shared subscription within a shared subscription, since
    /// no statement forbids it; [`Subscribe::filters`] reports it.
    ///
    /// # Errors
    ///
    /// When the packet is malformed or a protocol error.
    pub fn decode(version: Version, first_byte: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        const PACKET: PacketType = PacketType::Subscribe;
        check_flags(PACKET, version, first_byte)?;
        let mut reader = Reader::new(body);
        let mut subscribe = Self {
            packet_id: reader.packet_id(PACKET)?,
            subscription_identifier: None,
            user_properties: UserProperties::EMPTY,
            subscriptions: Subscriptions(Source::Payload { bytes: &[], version }),
        };
        if version.is_v5() {
            subscribe.read_properties(reader.property_block()?)?;
        }
        if reader.is_empty() {
            return Err(DecodeError::NoTopicFilter { packet: PACKET });
        }
        subscribe.subscriptions = Subscriptions(Source::Payload { bytes: reader.rest(), version });
        while !reader.is_empty() {
            check_subscription(version, &mut reader)?;
        }
        Ok(subscribe)
    }

    fn read_properties(&mut self, block: &'a [u8]) -> Result<(), DecodeError> {
        self.user_properties = UserProperties::from_block(block);
        let mut reader = PropertyReader::new(block, PropertyOwner::Packet(PacketType::Subscribe));
        while let Some(property) = reader.next()? {
            if let Property::SubscriptionIdentifier(identifier) = property {
                self.subscription_identifier = Some(identifier);
            }
        }
        Ok(())
    }

    /// The requested subscriptions, in the order of the packet. The SUBACK answers each; a filter with two `$share`
    /// prefixes gets 0x8F (0x80 before MQTT 5.0).
    pub fn filters(&self) -> SubscriptionsIter<'a> {
        self.subscriptions.iter()
    }

    /// Appends the packet. Before MQTT 5.0 the properties and the options but the QoS are left out.
    ///
    /// # Errors
    ///
    /// When no subscription is asked for, one is both shared and No Local ([MQTT-3.8.3-4]), a filter is
    /// invalid, or a field cannot be encoded.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_within(version, MAX_PACKET_SIZE, out)
    }

    /// As [`Subscribe::encode`], for a receiver that takes packets of at most `max_packet_size` bytes.
    ///
    /// # Errors
    ///
    /// As [`Subscribe::encode`], and when the packet is too large.
    pub fn encode_within(&self, version: Version, max_packet_size: u32, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let packet = PacketType::Subscribe;
        if self.filters().next().is_none() {
            return Err(EncodeError::NoTopicFilter { packet });
        }
        for (filter, options) in self.filters() {
            let filter = filter.map_err(|error| EncodeError::InvalidTopicFilter { error })?;
            if version.is_v5() && options.no_local && filter.shared().is_some() {
                return Err(EncodeError::NoLocalOnShared);
            }
        }
        writer::packet(packet.first_byte(), max_packet_size, out, |sink| {
            sink.packet_id(self.packet_id);
            if version.is_v5() {
                sink.properties(|sink| {
                    sink.optional(self.subscription_identifier, Property::SubscriptionIdentifier);
                    sink.user_properties(&self.user_properties);
                });
            }
            for (filter, options) in self.filters() {
                sink.string("topic filter", filter.map_or("", TopicFilter::as_str));
                sink.u8(options.bits(version));
            }
        })
    }
}

/// Checks one subscription of a payload: its text, its options, and the two together.
fn check_subscription(version: Version, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    let text = reader.string("topic filter")?;
    let options = SubscriptionOptions::from_bits(version, reader.u8("subscription options")?)?;
    let filter = check_filter(text)?;
    if options.no_local && filter.is_some_and(|filter| filter.shared().is_some()) {
        return Err(DecodeError::NoLocalOnShared);
    }
    Ok(())
}

/// Checks the text of a Topic Filter of SUBSCRIBE or UNSUBSCRIBE; `None` for a filter with two `$share` prefixes.
pub(crate) fn check_filter(text: &str) -> Result<Option<TopicFilter<'_>>, DecodeError> {
    match TopicFilter::new(text) {
        Ok(filter) => Ok(Some(filter)),
        Err(TopicError::NestedShare) => Ok(None),
        Err(error) => Err(DecodeError::InvalidTopicFilter { error }),
    }
}

/// The Subscription Options (section 3.8.3.1). Before MQTT 5.0 there is the QoS only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SubscriptionOptions {
    /// The greatest QoS at which the client wants messages.
    pub qos: QoS,
    /// Messages that this client publishes are not sent back to it ([MQTT-3.8.3-3]).
    pub no_local: bool,
    /// Messages keep the RETAIN flag that they were published with ([MQTT-3.3.1-13]).
    pub retain_as_published: bool,
    /// When retained messages are sent.
    pub retain_handling: RetainHandling,
}

/// When the retained messages that match are sent to a subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RetainHandling {
    /// 0: whenever it subscribes ([MQTT-3.3.1-9]).
    #[default]
    SendAtSubscribe = 0,
    /// 1: when the subscription did not exist before ([MQTT-3.3.1-10]).
    SendIfNew = 1,
    /// 2: never ([MQTT-3.3.1-11]).
    DoNotSend = 2,
}

const NO_LOCAL: u8 = 1 << 2;
const RETAIN_AS_PUBLISHED: u8 = 1 << 3;
const RESERVED: u8 = 0b1100_0000;
/// The bits that MQTT 3.1.1 reserves: all but the QoS.
const RESERVED_V311: u8 = 0b1111_1100;

impl SubscriptionOptions {
    /// Options that ask for `qos`, with the others off.
    pub const fn new(qos: QoS) -> Self {
        Self { qos, no_local: false, retain_as_published: false, retain_handling: RetainHandling::SendAtSubscribe }
    }

    /// Reads the byte behind a Topic Filter. MQTT 3.1 does not say that the unused bits are 0, so they are
    /// not looked at there.
    ///
    /// # Errors
    ///
    /// For reserved bits ([MQTT-3.8.3-5]), QoS 3 and Retain Handling 3.
    pub fn from_bits(version: Version, bits: u8) -> Result<Self, DecodeError> {
        let reserved = match version {
            Version::V31 => 0,
            Version::V311 => RESERVED_V311,
            Version::V5 => RESERVED,
        };
        if bits & reserved != 0 {
            return Err(DecodeError::ReservedBits { field: "subscription options" });
        }
        let qos = QoS::from_bits(bits & 0b11).ok_or(DecodeError::InvalidQos { field: "QoS of a subscription" })?;
        if !version.is_v5() {
            return Ok(Self::new(qos));
        }
        Ok(Self {
            qos,
            no_local: bits & NO_LOCAL != 0,
            retain_as_published: bits & RETAIN_AS_PUBLISHED != 0,
            retain_handling: match bits >> 4 & 0b11 {
                0 => RetainHandling::SendAtSubscribe,
                1 => RetainHandling::SendIfNew,
                2 => RetainHandling::DoNotSend,
                _ => return Err(DecodeError::InvalidRetainHandling),
            },
        })
    }

    /// The byte behind a Topic Filter.
    pub const fn bits(self, version: Version) -> u8 {
        if !version.is_v5() {
            return self.qos.bits();
        }
        self.qos.bits()
            | if self.no_local { NO_LOCAL } else { 0 }
            | if self.retain_as_published { RETAIN_AS_PUBLISHED } else { 0 }
            | (self.retain_handling as u8) << 4
    }
}

/// The subscriptions that a SUBSCRIBE packet asks for. Decoded packets keep the bytes.
#[derive(Clone, Copy)]
pub struct Subscriptions<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    /// A payload that has been checked, and the version to read it by.
    Payload {
        bytes: &'a [u8],
        version: Version,
    },
    Slice(&'a [(TopicFilter<'a>, SubscriptionOptions)]),
}

impl<'a> Subscriptions<'a> {
    /// Subscriptions to be asked for.
    pub const fn new(subscriptions: &'a [(TopicFilter<'a>, SubscriptionOptions)]) -> Self {
        Self(Source::Slice(subscriptions))
    }

    /// The rest of subscriptions that [`Subscribe::decode`] has checked, as [`SubscriptionsIter::rest`] returned it.
    /// Iteration over unchecked bytes ends at the first unreadable one.
    pub const fn checked(bytes: &'a [u8], version: Version) -> Self {
        Self(Source::Payload { bytes, version })
    }

    /// Each Topic Filter, or why it is invalid, and its options, in their order.
    pub fn iter(&self) -> SubscriptionsIter<'a> {
        SubscriptionsIter(match self.0 {
            Source::Payload { bytes, version } => IterSource::Payload { reader: Reader::new(bytes), version },
            Source::Slice(subscriptions) => IterSource::Slice(subscriptions.iter()),
        })
    }
}

impl PartialEq for Subscriptions<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Subscriptions<'_> {}

impl std::fmt::Debug for Subscriptions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &Subscriptions<'a> {
    type Item = (Result<TopicFilter<'a>, TopicError>, SubscriptionOptions);
    type IntoIter = SubscriptionsIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The iterator over [`Subscriptions`].
#[derive(Clone, Debug)]
pub struct SubscriptionsIter<'a>(IterSource<'a>);

#[derive(Clone, Debug)]
enum IterSource<'a> {
    Payload { reader: Reader<'a>, version: Version },
    Slice(std::slice::Iter<'a, (TopicFilter<'a>, SubscriptionOptions)>),
}

impl<'a> SubscriptionsIter<'a> {
    /// The bytes that the iterator has not read yet; empty for subscriptions that were not decoded.
    pub const fn rest(&self) -> &'a [u8] {
        match &self.0 {
            IterSource::Payload { reader, .. } => reader.rest(),
            IterSource::Slice(_) => &[],
        }
    }
}

impl<'a> Iterator for SubscriptionsIter<'a> {
    type Item = (Result<TopicFilter<'a>, TopicError>, SubscriptionOptions);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterSource::Slice(subscriptions) => {
                let (filter, options) = subscriptions.next()?;
                Some((Ok(*filter), *options))
            }
            IterSource::Payload { reader, version } => {
                let text = reader.data("topic filter").ok()?;
                let bits = reader.u8("subscription options").ok()?;
                let options = SubscriptionOptions::from_bits(*version, bits).ok()?;
                Some((TopicFilter::from_utf8(text), options))
            }
        }
    }
}
