//! Tests of the codec through its public interface, one module per packet or rule.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]
#![allow(clippy::large_types_passed_by_value, reason = "packets by value keep the cases short")]

mod acks;
mod arbitrary;
mod auth;
mod check;
mod connack;
mod connect;
mod connect_flags;
mod connect_return_code;
mod disconnect;
mod encode_errors;
mod fixed_header_flags;
mod frames;
mod generate;
mod matching;
mod messages;
mod pings;
mod properties;
mod publish;
mod publish_head;
mod publish_properties;
mod reason_codes;
mod roundtrip;
mod scalars;
mod size_limits;
mod strings;
mod suback;
mod subscribe;
mod topics;
mod transcripts;
mod unsuback;
mod unsubscribe;
mod varints;
mod will;
mod wire;
