//! The packets in which brokers are asked for filters, and asked to forget them.

use tidegate_mqtt::{
    PacketId, QoS, RetainHandling, Subscribe, SubscriptionOptions, Subscriptions, TopicFilter, TopicFilters,
    Unsubscribe, UserProperties, Version,
};

/// One filter that a broker is asked for, or to forget.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) filter: Box<str>,
    pub(crate) subscribe: bool,
    /// Number of the wait that the broker's answer ends; 0: no client waits.
    pub(crate) wait: u64,
}

fn valid(changes: &[Change]) -> impl Iterator<Item = TopicFilter<'_>> {
    // The codec checked them when a client asked for them.
    changes.iter().filter_map(|change| TopicFilter::new(&change.filter).ok())
}

/// Writes a SUBSCRIBE packet for these filters; returns whether it could be encoded.
pub(crate) fn put_subscribe(
    version: Version,
    packet_id: PacketId,
    subscription_identifier: Option<u32>,
    changes: &[Change],
    out: &mut Vec<u8>,
) -> bool {
    let options = SubscriptionOptions {
        qos: QoS::ExactlyOnce,
        no_local: false,
        // A message with RETAIN set is then a retained value of the broker, and nothing else.
        retain_as_published: false,
        retain_handling: RetainHandling::SendIfNew,
    };
    let filters: Vec<_> = valid(changes).map(|filter| (filter, options)).collect();
    let subscriptions = Subscriptions::new(&filters);
    let user_properties = UserProperties::EMPTY;
    Subscribe { packet_id, subscription_identifier, user_properties, subscriptions }.encode(version, out).is_ok()
}

/// Writes an UNSUBSCRIBE packet for these filters; returns whether it could be encoded.
pub(crate) fn put_unsubscribe(version: Version, packet_id: PacketId, changes: &[Change], out: &mut Vec<u8>) -> bool {
    let filters: Vec<_> = valid(changes).collect();
    let user_properties = UserProperties::EMPTY;
    Unsubscribe { packet_id, user_properties, topic_filters: TopicFilters::new(&filters) }.encode(version, out).is_ok()
}
