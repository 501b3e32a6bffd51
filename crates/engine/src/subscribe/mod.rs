//! Subscriptions of sessions, and announcements of this shard's interest to the others.

pub(crate) mod refusals;
pub(crate) mod steps;

use crate::ids::{SessionKey, TenantId};
use crate::journal::Journal;
use crate::link::envelope::Ticket;
use crate::session::Membership;
use crate::session::table::Sessions;
use crate::topics::{SubscriberOptions, SubscriptionIndex};
use std::rc::Rc;
use tidegate_mqtt::{QoS, ReasonCode, RetainHandling, SubscriptionOptions, TopicFilter};

/// One filter of a SUBSCRIBE packet.
pub(crate) struct Request<'a> {
    pub(crate) session: SessionKey,
    pub(crate) tenant: TenantId,
    /// The tenant whose quota counts it.
    pub(crate) counted_for: TenantId,
    pub(crate) filter: TopicFilter<'a>,
    /// QoS, No Local and Retain As Published as granted.
    pub(crate) options: SubscriberOptions,
    pub(crate) retain_handling: RetainHandling,
    pub(crate) subscription_id: u32,
    pub(crate) ticket: Ticket,
}

/// The confirmations that a SUBACK waits for.
#[derive(Debug, Default)]
pub(crate) struct SubAckWaits {
    /// Confirmations that other shards will send.
    pub confirmations: u32,
    /// True if a filter was announced to all other shards. Their confirmations cover all earlier records, too.
    pub(crate) announced: bool,
    /// Whether a filter was not, since this shard was interested in it before.
    pub(crate) known: bool,
    /// Memberships that are confirmed when the SUBACK leaves.
    pub(crate) joined: Vec<Rc<Membership>>,
}

impl SubAckWaits {
    /// Adds the number of shards that received a filter: 0 if this shard was interested before.
    pub(crate) fn add_notified(&mut self, told: u16) {
        self.confirmations += u32::from(told);
        self.announced |= told > 0;
        self.known |= told == 0;
    }
}

impl SubscriptionIndex {
    pub(crate) fn has_subscription(&self, sessions: &Sessions, request: &Request<'_>) -> bool {
        if let Some((share, filter)) = request.filter.shared() {
            let session = sessions.get(request.session.0);
            let rare = session.and_then(|session| session.rare.as_ref());
            rare.is_some_and(|rare| rare.find_membership(share, filter.as_str()).is_ok())
        } else {
            let found = self.find(request.tenant, request.filter.as_str());
            found.is_some_and(|filter| self.subscriber(filter, request.session).is_some())
        }
    }

    /// Deletes the stored subscriptions of a session that itself stays in the store.
    pub(crate) fn forget_stored_subscriptions(
        &mut self,
        sessions: &mut Sessions,
        journal: &mut Journal,
        key: SessionKey,
    ) {
        let Some(session) = sessions.get(key.0).filter(|session| session.stored.is_some()) else { return };
        let memberships = session.rare.as_deref().map_or(&[][..], |rare| &rare.memberships);
        let shared = memberships.iter().map(|it| format!("$share/{}/{}", it.share, it.filter));
        let filters = session.filters.iter().filter_map(|filter| self.filter(filter).map(str::to_owned));
        for filter in filters.chain(shared).collect::<Vec<_>>() {
            sessions.forget_subscription(journal, key, &filter);
        }
    }
}

/// A bridge cannot ask for No Local and Retain As Published before MQTT 5.0, and means both.
pub(crate) fn granted_options(options: SubscriptionOptions, max_qos: QoS, bridge: bool) -> SubscriberOptions {
    let SubscriptionOptions { qos, no_local, retain_as_published, .. } = options;
    SubscriberOptions::new(qos.min(max_qos), no_local || bridge, retain_as_published || bridge)
}

pub(crate) fn granted_code(qos: QoS) -> ReasonCode {
    match qos {
        QoS::AtMostOnce => ReasonCode::Success,
        QoS::AtLeastOnce => ReasonCode::GrantedQos1,
        QoS::ExactlyOnce => ReasonCode::GrantedQos2,
    }
}
