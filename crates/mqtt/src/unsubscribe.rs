//! UNSUBSCRIBE: ends subscriptions, from client to server (section 3.10).

use crate::property::PropertyReader;
use crate::reader::{Reader, check_flags};
use crate::subscribe::check_filter;
use crate::writer;
use crate::{
    DecodeError, EncodeError, MAX_PACKET_SIZE, PacketId, PacketType, PropertyOwner, TopicError, TopicFilter,
    UserProperties, Version,
};

/// An UNSUBSCRIBE packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsubscribe<'a> {
    /// The Packet Identifier that the UNSUBACK repeats ([MQTT-3.10.4-5]).
    pub packet_id: PacketId,
    /// Pairs of the client's own; MQTT 5.0 only.
    pub user_properties: UserProperties<'a>,
    /// The filters of the subscriptions to end; at least one ([MQTT-3.10.3-2]).
    pub topic_filters: TopicFilters<'a>,
}

impl<'a> Unsubscribe<'a> {
    /// Decodes the body. As with SUBSCRIBE, it accepts one kind of invalid filter, a shared subscription within a
    /// shared subscription; [`Unsubscribe::filters`] reports it.
    ///
    /// # Errors
    ///
    /// When the packet is malformed or a protocol error.
    pub fn decode(version: Version, first_byte: u8, body: &'a [u8]) -> Result<Self, DecodeError> {
        const PACKET: PacketType = PacketType::Unsubscribe;
        check_flags(PACKET, version, first_byte)?;
        let mut reader = Reader::new(body);
        let packet_id = reader.packet_id(PACKET)?;
        let mut user_properties = UserProperties::EMPTY;
        if version.is_v5() {
            let block = reader.property_block()?;
            let mut properties = PropertyReader::new(block, PropertyOwner::Packet(PACKET));
            while properties.next()?.is_some() {}
            user_properties = UserProperties::from_block(block);
        }
        if reader.is_empty() {
            return Err(DecodeError::NoTopicFilter { packet: PACKET });
        }
        let topic_filters = TopicFilters(Source::Payload(reader.rest()));
        while !reader.is_empty() {
            check_filter(reader.string("topic filter")?)?;
        }
        Ok(Self { packet_id, user_properties, topic_filters })
    }

    /// The filters, in the order of the packet. The UNSUBACK of MQTT 5.0 answers each; a filter with two `$share`
    /// prefixes gets 0x8F.
    pub fn filters(&self) -> TopicFiltersIter<'a> {
        self.topic_filters.iter()
    }

    /// Appends the packet. Before MQTT 5.0 the properties are left out.
    ///
    /// # Errors
    ///
    /// When there is no filter, an invalid one, or a field that cannot be encoded.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.encode_within(version, MAX_PACKET_SIZE, out)
    }

    /// As [`Unsubscribe::encode`], for a receiver that takes packets of at most `max_packet_size` bytes.
    ///
    /// # Errors
    ///
    /// As [`Unsubscribe::encode`], and when the packet is too large.
    pub fn encode_within(&self, version: Version, max_packet_size: u32, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let packet = PacketType::Unsubscribe;
        if self.filters().next().is_none() {
            return Err(EncodeError::NoTopicFilter { packet });
        }
        for filter in self.filters() {
            filter.map_err(|error| EncodeError::InvalidTopicFilter { error })?;
        }
        writer::packet(packet.first_byte(), max_packet_size, out, |sink| {
            sink.packet_id(self.packet_id);
            if version.is_v5() {
                sink.properties(|sink| sink.user_properties(&self.user_properties));
            }
            for filter in self.filters() {
                sink.string("topic filter", filter.map_or("", TopicFilter::as_str));
            }
        })
    }
}

/// The Topic Filters of an UNSUBSCRIBE packet. Decoded packets keep the bytes.
#[derive(Clone, Copy)]
pub struct TopicFilters<'a>(Source<'a>);

#[derive(Clone, Copy)]
enum Source<'a> {
    /// A payload that has been checked.
    Payload(&'a [u8]),
    Slice(&'a [TopicFilter<'a>]),
}

impl<'a> TopicFilters<'a> {
    /// Filters of subscriptions to end.
    pub const fn new(filters: &'a [TopicFilter<'a>]) -> Self {
        Self(Source::Slice(filters))
    }

    /// The rest of filters that [`Unsubscribe::decode`] has checked, as [`TopicFiltersIter::rest`] returned it.
    /// Iteration over unchecked bytes ends at the first unreadable one.
    pub const fn checked(bytes: &'a [u8]) -> Self {
        Self(Source::Payload(bytes))
    }

    /// Each Topic Filter, or why it is invalid, in their order.
    pub fn iter(&self) -> TopicFiltersIter<'a> {
        TopicFiltersIter(match self.0 {
            Source::Payload(bytes) => IterSource::Payload(Reader::new(bytes)),
            Source::Slice(filters) => IterSource::Slice(filters.iter()),
        })
    }
}

impl PartialEq for TopicFilters<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for TopicFilters<'_> {}

impl std::fmt::Debug for TopicFilters<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &TopicFilters<'a> {
    type Item = Result<TopicFilter<'a>, TopicError>;
    type IntoIter = TopicFiltersIter<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The iterator over [`TopicFilters`].
#[derive(Clone, Debug)]
pub struct TopicFiltersIter<'a>(IterSource<'a>);

#[derive(Clone, Debug)]
enum IterSource<'a> {
    Payload(Reader<'a>),
    Slice(std::slice::Iter<'a, TopicFilter<'a>>),
}

impl<'a> TopicFiltersIter<'a> {
    /// The bytes that the iterator has not read yet; empty for filters that were not decoded.
    pub const fn rest(&self) -> &'a [u8] {
        match &self.0 {
            IterSource::Payload(reader) => reader.rest(),
            IterSource::Slice(_) => &[],
        }
    }
}

impl<'a> Iterator for TopicFiltersIter<'a> {
    type Item = Result<TopicFilter<'a>, TopicError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            IterSource::Slice(filters) => filters.next().copied().map(Ok),
            IterSource::Payload(reader) => reader.data("topic filter").ok().map(TopicFilter::from_utf8),
        }
    }
}
