//! Dead letters are published.

use crate::flows::contexts::Publishing;
use crate::message::Publication;
use crate::now::{Millis, Now};
use crate::orchestrator::broker_link::id::MessageId;
use crate::publish::dead_letter::put_user_property;
use tidegate_mqtt::{QoS, TopicName};

/// User property that names the topic to which a dead letter was published at first.
const TOPIC_PROPERTY: &str = "dead-letter-topic";

/// User property that names the reason for which it was dropped.
const REASON_PROPERTY: &str = "dead-letter-reason";

impl Publishing<'_> {
    /// Publishes the dead letter that waits longest; returns whether there was one.
    pub(crate) fn publish_dead_letter(&mut self, now: Now) -> bool {
        let Some(letters) = self.state.dead_letters.as_mut() else { return false };
        let Some((reason, message)) = letters.waiting.pop_front() else { return false };
        let topic = format!("{}/{}", letters.settings.prefix, reason.label());
        if !letters.may_send(now.monotonic) || TopicName::new(&topic).is_err() {
            self.state.counters.dead_letters_lost += 1;
            return true;
        }
        // One that was on its way to a fleet is a new message for it, with its own id.
        let mut properties = MessageId::strip(message.properties()).to_vec();
        put_user_property(&mut properties, TOPIC_PROPERTY, message.topic());
        put_user_property(&mut properties, REASON_PROPERTY, reason.label());
        let qos = message.qos.min(QoS::AtLeastOnce);
        let payload = message.payload();
        let tenant = message.tenant.of_clients();
        let mut letter = Publication::new(tenant, &topic, qos, false, &properties, Millis::NEVER, payload, 0);
        self.state.counters.dead_letters += 1;
        self.publish_inside(now, &mut letter, None);
        true
    }
}
