//! Packets of MQTT 3.1, 3.1.1 and 5.0, and the codec for them.
//!
//! - [`split_frame`] finds the packets in a stream of bytes; [`Packet::decode`], or the `decode` of the type
//!   that is expected, reads one. Decoded packets borrow from the buffer; no payload is copied.
//! - `encode` appends a packet to a buffer; `encode_within` keeps to the receiver's Maximum Packet Size.
//! - [`RawPublish`] and [`PublishHead`] are the shortest ways in and out for messages.
//!
//! ```
//! use tidegate_mqtt::{MAX_PACKET_SIZE, Packet, PubAck, ReasonCode, Version, split_frame};
//!
//! let received = b"\x32\x09\x00\x03a/b\x00\x07hi\xc0\x00";
//! let frame = split_frame(received, MAX_PACKET_SIZE)?.ok_or("more bytes are needed")?;
//! let Packet::Publish(publish) = Packet::decode(Version::V311, &frame)? else {
//!     return Err("not a PUBLISH".into());
//! };
//! assert_eq!(publish.payload, b"hi");
//!
//! let mut out = Vec::new();
//! let packet_id = publish.packet_id.ok_or("QoS 0")?;
//! PubAck::new(packet_id, ReasonCode::Success).encode(Version::V311, &mut out)?;
//! assert_eq!(out, b"\x40\x02\x00\x07");
//! assert_eq!(received[frame.total_len..], [0xC0, 0], "the next packet follows");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate does no I/O, keeps no session, and panics on no input. Identifiers such as [MQTT-3.3.1-2] are from the
//! MQTT 5.0 standard unless 3.1.1 is named.
mod ack;
mod auth;
mod connack;
mod connect;
mod connect_return_code;
mod disconnect;
mod error;
mod explanation;
mod frame;
mod packet;
mod packet_id;
mod packet_type;
mod pingreq;
mod pingresp;
mod property;
mod property_id;
mod puback;
mod pubcomp;
mod publish;
mod pubrec;
mod pubrel;
mod qos;
mod reader;
mod reason_code;
mod reason_codes;
pub mod string;
mod suback;
mod subscribe;
mod subscription_identifiers;
pub mod topic;
mod unsuback;
mod unsubscribe;
mod user_properties;
pub mod varint;
mod version;
mod writer;

pub use auth::Auth;
pub use connack::{ConnAck, ConnAckProperties};
pub use connect::{Connect, ConnectProperties, Will, WillProperties};
pub use connect_return_code::ConnectReturnCode;
pub use disconnect::Disconnect;
pub use error::{DecodeError, EncodeError};
pub use frame::{Frame, FrameError, MAX_PACKET_SIZE, frame_len, split_frame};
pub use packet::Packet;
pub use packet_id::PacketId;
pub use packet_type::PacketType;
pub use pingreq::PingReq;
pub use pingresp::PingResp;
pub use property_id::{PayloadFormat, PropertyId, PropertyOwner};
pub use puback::PubAck;
pub use pubcomp::PubComp;
pub use publish::{Publish, PublishHead, PublishProperties, RawPublish};
pub use pubrec::PubRec;
pub use pubrel::PubRel;
pub use qos::QoS;
pub use reason_code::ReasonCode;
pub use reason_codes::{ReasonCodes, ReasonCodesIter};
pub use string::StringError;
pub use suback::SubAck;
pub use subscribe::{RetainHandling, Subscribe, SubscriptionOptions, Subscriptions, SubscriptionsIter};
pub use subscription_identifiers::{MAX_SUBSCRIPTION_IDENTIFIER, SubscriptionIdentifiers, SubscriptionIdentifiersIter};
pub use topic::{MAX_TOPIC_LEN, MAX_TOPIC_LEVELS, TopicError, TopicFilter, TopicName};
pub use unsuback::UnsubAck;
pub use unsubscribe::{TopicFilters, TopicFiltersIter, Unsubscribe};
pub use user_properties::{UserProperties, UserPropertiesIter};
pub use varint::{MAX_VARINT, VarintError};
pub use version::Version;
