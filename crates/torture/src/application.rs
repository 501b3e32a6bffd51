//! Applications: clients that send messages to mobile nodes and ask for receipts. Half of the receipts go to the
//! application's own topic, half to a topic that another client subscribes to.

use tidegate_mqtt::{Publish, PublishProperties, TopicName, UserProperties};

use crate::failure::Failure;
use crate::ledger::{Ledger, Terms};
use crate::rng::Rng;
use crate::subscriber::Subscriber;
use crate::workload::{self, MessageId};

/// Mobile nodes; every second one is away for longer, and the sessions of the last two end with their connections.
pub(crate) const MOBILES: u16 = 4;
/// Message Expiry Interval of messages that expire, in seconds.
const EXPIRY_S: u32 = 1;

/// True if the session of a mobile node outlives its connections.
pub(crate) fn is_lasting(mobile: u16) -> bool {
    mobile < MOBILES / 2
}

/// The wish of a message to a mobile node for receipts.
#[derive(Clone, Debug)]
pub(crate) struct Asks {
    pub(crate) terms: Terms,
    /// The receipts go to the topic that is subscribed to.
    to_collector: bool,
}

impl Asks {
    /// A topic of a mobile node, and the wish of a message there.
    pub(crate) fn draw(rng: &mut Rng) -> (String, Self) {
        let (topic, may_expire) = workload::addressed_topic(rng.index(usize::from(MOBILES)) as u16, rng);
        (topic, Self { terms: Terms { wants_stored: rng.chance(50), may_expire }, to_collector: rng.chance(50) })
    }

    /// True while its receipts would be kept for their receiver.
    pub(crate) fn can_be_answered(&self, subscribers: &[Subscriber]) -> bool {
        !self.to_collector || subscribers.iter().any(|subscriber| subscriber.expectation(workload::RECEIPTS).is_some())
    }

    /// Books the question.
    pub(crate) fn note(&self, id: MessageId, topic: &str, ledger: &mut Ledger) {
        ledger.asks(id, topic, self.terms);
    }

    /// Gives a message its properties.
    pub(crate) fn with<T>(
        &self,
        id: MessageId,
        publish: Publish<'_>,
        send: impl FnOnce(Publish<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let correlation = workload::short_payload(id);
        let pairs = [("receipt", if self.terms.wants_stored { "all" } else { "delivered" })];
        let properties = PublishProperties {
            message_expiry: self.terms.may_expire.then_some(EXPIRY_S),
            response_topic: if self.to_collector { Some(TopicName::new(workload::RECEIPTS)?) } else { None },
            correlation_data: Some(&correlation),
            user_properties: UserProperties::new(&pairs),
            ..PublishProperties::default()
        };
        send(Publish { properties, ..publish })
    }
}
