//! Handing a message to a session: at once, into its queue, or not at all with a reason.

use crate::session::packet_ids::State;
use crate::session::{BlockedPublisher, Membership};
use std::rc::Rc;
use tidegate_mqtt::QoS;

/// How a subscription wants a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms<'a> {
    /// Highest QoS granted.
    pub qos: QoS,
    /// RETAIN as the receiver shall see it.
    pub retain: bool,
    pub subscription_ids: &'a [u32],
    /// The shared group that dealt the message.
    pub group: Option<&'a Rc<Membership>>,
    /// The publisher that waits if the queue is full and blocks.
    pub publisher: Option<BlockedPublisher>,
    /// Whether the queue's limit does not apply, since the sender already respects the queue's space.
    pub metered: bool,
}

/// The packet that a message of this QoS waits for after it was sent.
pub(crate) fn awaited(qos: QoS) -> State {
    if qos == QoS::ExactlyOnce { State::AwaitPubRec } else { State::AwaitPubAck }
}
