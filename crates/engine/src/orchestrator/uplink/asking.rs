//! The packets in which brokers are asked for filters, and asked to forget them.

use tidegate_mqtt::{
    PacketId, QoS, RetainHandling, Subscribe, SubscriptionOptions, Subscriptions, TopicFilter, TopicFilters,
    Unsubscribe, UserProperties, Version,
};

use super::copies::subscription_identifier;
use super::filters::{Change, FilterSync};

/// Filters in one SUBSCRIBE or UNSUBSCRIBE packet.
const FILTERS_PER_PACKET: usize = 256;
/// Bytes of filters in one packet, but for a single filter of any length.
const FILTER_BYTES_PER_PACKET: usize = 16 * 1024;

impl FilterSync {
    /// The changes for the next packet: changes of one kind, in order, and with the same identifier if they have one. A
    /// suspect goes alone, when all filters before it are answered.
    pub(super) fn next_changes(&mut self, identifies: bool) -> Vec<Change> {
        let (queue, ending) = (&mut self.queue, &self.ending);
        let is_alone = |change: &Change| ending.is_suspect(&change.filter);
        let mut asked = self.asked.iter().flat_map(|(_, changes)| changes);
        if asked.clone().any(is_alone) || queue.front().is_some_and(is_alone) && asked.next().is_some() {
            return Vec::new();
        }
        let mut changes: Vec<Change> = Vec::new();
        let mut bytes = 0;
        while let Some(next) = queue.front() {
            let alike = |first: &Change| {
                let same = || subscription_identifier(&first.filter) == subscription_identifier(&next.filter);
                first.subscribe == next.subscribe && (!identifies || !next.subscribe || same())
            };
            let same_kind = changes.first().is_none_or(alike);
            let fits = changes.is_empty() || bytes + next.filter.len() <= FILTER_BYTES_PER_PACKET;
            let alone = changes.first().is_some_and(|first| is_alone(first) || is_alone(next));
            if alone || !same_kind || !fits || changes.len() >= FILTERS_PER_PACKET {
                break;
            }
            bytes += next.filter.len();
            changes.extend(queue.pop_front());
        }
        changes
    }
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
