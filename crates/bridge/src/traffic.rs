//! The work of an end on its client's news; no I/O.
//!
//! A message comes to one end and is passed to the other, which publishes it. It is acknowledged here only when the
//! broker there has acknowledged it. So each message is always owed by a broker, and the bridge itself keeps nothing
//! that a crash could lose.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_client::{
    Client, Delivery, Message, MessageProperties, Publish, PublishError, PublishToken, Published, QoS, ReasonCode,
    ServerLimits, TopicError, Undelivered, UndeliveredCause,
};

use crate::hops::HopName;
use crate::routes::Routes;
use crate::status::{BridgeStatus, Side};

/// Messages that wait for room. A broker may deliver fewer messages without an acknowledgement (`window`); messages of
/// QoS 2 and of forgotten sessions may add up to more, and are dropped then.
const MAX_KEPT: usize = 70_000;
/// How long a message waits before it is given again to a broker that had no room for it.
const RETRY: Duration = Duration::from_secs(1);

/// A request of one end to the other.
#[derive(Debug)]
pub(crate) enum Order {
    /// Publish a message, and say when the broker has it if there is a `delivery` to be acknowledged then.
    Carry { publish: Publish, delivery: Option<Delivery> },
    /// The broker across has a message: acknowledge it.
    Settle(Delivery),
    /// The broker across is reached, or no longer.
    Reached,
    /// The broker across continues the session, and delivers unacknowledged messages again.
    Resumed,
}

/// The next step for a message.
#[derive(Debug, Default)]
pub(crate) struct NextStep {
    /// For the other end.
    pub(crate) order: Option<Order>,
    /// To be acknowledged at once.
    pub(crate) done: Option<Delivery>,
    /// Why a message was dropped, for people.
    pub(crate) dropped: Option<String>,
    /// Why a message came round in a loop and is not carried, for people.
    pub(crate) looped: Option<String>,
}

impl NextStep {
    fn order(order: Option<Order>) -> Self {
        Self { order, ..Self::default() }
    }
}

/// The messages of an end that are not settled.
#[derive(Debug)]
pub(crate) struct Traffic {
    side: Side,
    routes: Arc<Routes>,
    hop: HopName,
    status: Arc<BridgeStatus>,
    /// The limits of the broker here, from its last CONNACK.
    limits: ServerLimits,
    /// Messages published here and not settled, with the delivery that the other end acknowledges then.
    under_way: BTreeMap<PublishToken, Option<Delivery>>,
    /// Messages that exceeded a limit of the broker, in order; [`MAX_KEPT`] at most.
    kept: VecDeque<(Publish, Delivery)>,
    /// True if later messages wait behind them: there was no room, and messages of a topic keep their order.
    is_full: bool,
    /// When they are tried again.
    retry_at: Option<Instant>,
}

impl Traffic {
    pub(crate) fn new(side: Side, routes: Arc<Routes>, hop: HopName, status: Arc<BridgeStatus>) -> Self {
        Self {
            side,
            routes,
            hop,
            status,
            limits: ServerLimits::NONE,
            under_way: BTreeMap::new(),
            kept: VecDeque::new(),
            is_full: false,
            retry_at: None,
        }
    }

    /// The broker here takes this from now on.
    pub(crate) fn take_limits(&mut self, limits: ServerLimits) {
        self.limits = limits;
    }

    /// A message has come.
    pub(crate) fn message(&self, mut message: Message) -> NextStep {
        let (across, delivery) = (self.side.other(), message.delivery);
        let (topic, highest) = match self.routes.route(self.side, &message.topic) {
            Some(Ok(found)) => found,
            // A subscription of an earlier configuration, which the session still has.
            None => return NextStep { done: delivery, ..NextStep::default() },
            Some(Err(error)) => {
                self.status.note_dropped(across);
                let why = format!("the name that `{}` has there {error}", message.topic);
                return NextStep { done: delivery, dropped: Some(why), ..NextStep::default() };
            }
        };
        if let Err(looped) = self.hop.mark(&mut message.properties.user_properties) {
            self.status.note_looped(across);
            let why = format!("a message for `{topic}`: {looped}");
            return NextStep { done: delivery, looped: Some(why), ..NextStep::default() };
        }
        if message.qos == QoS::AtMostOnce && !self.status.is_connected(across) {
            self.status.note_dropped(across);
            return NextStep::default();
        }
        let publish = Publish {
            topic,
            payload: message.payload,
            qos: message.qos.min(highest),
            retain: message.retain,
            properties: message.properties,
            topic_alias: None,
        };
        NextStep::order(Some(Order::Carry { publish, delivery }))
    }

    /// A message has come whose topic cannot be carried.
    pub(crate) fn invalid_topic(&self, error: TopicError) -> NextStep {
        self.status.note_dropped(self.side.other());
        NextStep { dropped: Some(format!("its topic {error}")), ..NextStep::default() }
    }

    /// Publishes a message that came to the other end.
    pub(crate) fn publish(
        &mut self,
        client: &mut Client,
        now: Instant,
        mut publish: Publish,
        delivery: Option<Delivery>,
    ) -> NextStep {
        if !client.options().version.is_v5() {
            publish.properties = MessageProperties::default();
        }
        publish.qos = publish.qos.min(self.limits.maximum_qos);
        publish.retain &= self.limits.retain_available;
        if let Some(delivery) = delivery.filter(|_| self.is_full || !client.has_room()) {
            self.is_full = true;
            return self.keep(now, publish, delivery);
        }
        match client.publish(now, publish) {
            Ok(token) => {
                self.under_way.insert(token, delivery);
                NextStep::default()
            }
            Err(error) => self.drop(delivery, Some(error.to_string())),
        }
    }

    /// Keeps a message for which there is no room now.
    fn keep(&mut self, now: Instant, publish: Publish, delivery: Delivery) -> NextStep {
        if self.kept.len() >= MAX_KEPT {
            return self.drop(Some(delivery), Some(format!("{MAX_KEPT} wait already")));
        }
        self.kept.push_back((publish, delivery));
        self.retry_at.get_or_insert(now + RETRY);
        NextStep::default()
    }

    /// Forgets messages that the broker across delivers again: otherwise each reconnect would add a copy of the waiting
    /// ones.
    pub(crate) fn forget_redelivered(&mut self, client: &mut Client) {
        let comes_again = |delivery: Option<Delivery>| delivery.is_some_and(Delivery::comes_again);
        self.kept.retain(|(_, delivery)| !delivery.comes_again());
        let under_way = &mut self.under_way;
        client.withdraw(|token| {
            let wanted = under_way.get(&token).is_some_and(|delivery| comes_again(*delivery));
            if wanted {
                under_way.remove(&token);
            }
            wanted
        });
    }

    /// When [`Traffic::retry`] has something to do.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Publishes the kept messages again when their wait is over.
    pub(crate) fn retry(&mut self, client: &mut Client, now: Instant) -> Vec<NextStep> {
        if self.retry_at.is_none_or(|at| now < at) {
            return Vec::new();
        }
        (self.retry_at, self.is_full) = (None, false);
        let kept = std::mem::take(&mut self.kept);
        kept.into_iter().map(|(publish, delivery)| self.publish(client, now, publish, Some(delivery))).collect()
    }

    /// The broker of this end has accepted or refused a message.
    pub(crate) fn published(&mut self, now: Instant, published: Published) -> NextStep {
        let Some(delivery) = self.under_way.remove(&published.token) else { return NextStep::default() };
        let code = published.reason_code;
        if !code.is_error() {
            self.status.note_carried(self.side);
            return NextStep::order(delivery.map(Order::Settle));
        }
        if let (ReasonCode::QuotaExceeded, Some(delivery), Some(publish)) = (code, delivery, published.refused) {
            return self.keep(now, *publish, delivery);
        }
        let said = published.reason_string.as_deref().unwrap_or_else(|| code.text());
        self.drop(delivery, Some(format!("the broker refuses a message: {said}")))
    }

    /// The client has given a message up.
    pub(crate) fn undelivered(&mut self, client: &mut Client, now: Instant, it: Undelivered) -> NextStep {
        let Some(delivery) = self.under_way.remove(&it.token) else { return NextStep::default() };
        let again = match it.cause {
            // The broker may have the message: a repetition is better than a loss.
            UndeliveredCause::SessionLost => true,
            // It waited for a connection before the limits of this broker were known.
            UndeliveredCause::NotSendable(error) => {
                matches!(error, PublishError::QosNotSupported { .. } | PublishError::RetainNotSupported)
            }
            UndeliveredCause::ConnectionLost => false,
        };
        match it.publish {
            Some(publish) if again => self.publish(client, now, publish, delivery),
            _ => self.drop(delivery, Some(it.cause.to_string())),
        }
    }

    fn drop(&self, delivery: Option<Delivery>, why: Option<String>) -> NextStep {
        self.status.note_dropped(self.side);
        NextStep { order: delivery.map(Order::Settle), dropped: why, ..NextStep::default() }
    }
}

#[cfg(test)]
mod tests;
