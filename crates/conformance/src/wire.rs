//! The suite's own reading and writing of packets, independent of the codec under test.

pub(crate) mod bytes;
pub(crate) mod connect;
pub(crate) mod packet;
pub(crate) mod packet_type;
pub(crate) mod properties;
pub(crate) mod publish;
pub(crate) mod reader;
pub(crate) mod reason_codes;
pub(crate) mod subscribe;

pub(crate) use bytes::Bytes;
pub(crate) use connect::{Connect, Will};
pub(crate) use packet::{Acknowledgement, Packet};
pub(crate) use packet_type::PacketType;
pub(crate) use properties::Property;
pub(crate) use publish::Publish;
pub(crate) use subscribe::{Subscribe, Unsubscribe};
