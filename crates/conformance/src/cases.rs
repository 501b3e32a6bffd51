//! The cases, one module for each area of the specification.

use crate::case::Case;

mod acknowledgements;
mod connect;
mod connect_payload;
mod consistency;
mod disconnect;
mod enhanced_auth;
mod expiry;
mod flow_control;
mod keep_alive;
mod mqtt31;
mod overlapping;
mod packet_size;
mod properties;
mod publish;
mod publish_qos1;
mod publish_qos2;
mod redelivery;
mod retain_options;
mod retained;
mod session;
mod shared;
mod subscribe;
mod takeover;
mod topic_alias;
mod topic_filters;
mod unsubscribe;
mod utf8;
mod websockets;
mod will;
mod will_delay;

/// The cases of each area.
pub(crate) const AREAS: &[&[Case]] = &[
    connect::CASES,
    connect_payload::CASES,
    session::CASES,
    takeover::CASES,
    will::CASES,
    will_delay::CASES,
    keep_alive::CASES,
    disconnect::CASES,
    publish::CASES,
    publish_qos1::CASES,
    publish_qos2::CASES,
    acknowledgements::CASES,
    redelivery::CASES,
    consistency::CASES,
    properties::CASES,
    expiry::CASES,
    topic_alias::CASES,
    retained::CASES,
    retain_options::CASES,
    subscribe::CASES,
    overlapping::CASES,
    topic_filters::CASES,
    utf8::CASES,
    unsubscribe::CASES,
    shared::CASES,
    flow_control::CASES,
    packet_size::CASES,
    enhanced_auth::CASES,
    websockets::CASES,
    mqtt31::CASES,
];
