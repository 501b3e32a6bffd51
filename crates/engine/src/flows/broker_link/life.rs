//! A broker connects, fails and is tried again.

use crate::event::{Event, LogEvent};
use crate::events::reason::Reason;
use crate::flows::contexts::BrokerLinking;
use crate::flows::contexts::dealing;
use crate::flows::contexts::subscribing;
use crate::ids::BROKER_LINK_LISTENER;
use crate::ids::BrokerLinkKey;
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::link::envelope::Ticket;
use crate::link::record::MemberOptions;
use crate::now::Now;
use crate::orchestrator::broker_link::filters::PACKETS_UNDER_WAY;
use crate::orchestrator::broker_link::{BROKER_LINK_FILTER, BROKER_LINK_SHARE, Stage};
use crate::session::{FilterList, Session, Standing};
use crate::subscribe::SubAckWaits;
use crate::topics::SubscriberOptions;
use tidegate_mqtt::QoS;

impl BrokerLinking<'_> {
    /// The session of the broker link to a broker; a new one if the store has none.
    pub(crate) fn broker_link_session(&mut self, broker: &str) -> SessionKey {
        let client_id = Self::broker_link_session_name(broker);
        let known = self.state.sessions.find_session(TenantId::BROKER_LINK, &client_id);
        let session = known.unwrap_or_else(|| {
            self.state.insert_session(Session {
                client_id: client_id.into(),
                connection: None,
                filters: FilterList::default(),
                flow: None,
                rare: None,
                expiry_seconds: u32::MAX,
                tenant: TenantId::BROKER_LINK,
                listener: BROKER_LINK_LISTENER,
                receive_maximum: 1,
                rights_epoch: 0,
                standing: Standing::Client,
                stored: None,
                identity: None,
            })
        });
        if let Some(session) = self.state.sessions.get_mut(session.0) {
            session.flow_mut().inflight.keep_back(PACKETS_UNDER_WAY);
        }
        if known.is_none() {
            self.state.sessions.store_session(&mut self.state.journal, session);
        }
        session
    }

    /// Makes the broker link's session a member of the group that deals, which it may be already.
    pub(crate) fn take_broker_link_seat(&mut self, now: Now, session: SessionKey, max_qos: QoS) {
        let options = SubscriberOptions::new(max_qos, false, true);
        let member = MemberOptions { options: options.bits(), subscription_id: 0 };
        let whole = format!("$share/{BROKER_LINK_SHARE}/{BROKER_LINK_FILTER}");
        self.state.sessions.store_subscription(&mut self.state.journal, session, &whole, member.options, 0);
        let no_connection = ConnectionKey { index: u32::MAX, generation: 0 };
        let ticket = Ticket { connection: no_connection, sequence: 0 };
        let mut waits = SubAckWaits::default();
        subscribing!(self).join_group(now, session, BROKER_LINK_SHARE, BROKER_LINK_FILTER, member, ticket, &mut waits);
        self.groups.announce_presence(self.state, self.links, session, true);
    }

    /// A broker link is there again: messages in flight are sent again, and the broker gets the wanted filters.
    pub(super) fn resume_broker_link(
        &mut self,
        now: Now,
        key: BrokerLinkKey,
        connection: ConnectionKey,
        session_present: bool,
    ) {
        let has_members = self.broker_links.brokers.has_members;
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        let (session, draining, max_qos) = (broker_link.session, broker_link.draining.is_some(), broker_link.max_qos);
        // The connection of a dead member gets no messages.
        if has_members && broker_link.adopted.is_none() {
            broker_link.opening.begin(now);
        }
        self.broker_links.brokers.fit_window(self.state, key);
        if !draining {
            self.take_broker_link_seat(now, session, max_qos);
        }
        if !draining {
            self.groups.announce_presence(self.state, self.links, session, true);
        }
        if session_present {
            self.send_unpassed_again(now, key);
        } else {
            if let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) {
                // The messages that members ask about are lost.
                broker_link.questions.clear();
            }
            // A broker that has forgotten the orchestrator has forgotten its messages as well. While the session has no
            // connection, messages that are dealt again are queued and sent below, once.
            self.start_again(now, key);
        }
        if !draining {
            dealing!(self).keep_order(now);
        }
        if let Some(session) = self.state.sessions.get_mut(session.0) {
            session.connection = Some(connection);
        }
        if let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) {
            broker_link.begin_with_care(self.state);
        }
        // Before messages, so that the broker returns each message that is published from now on.
        self.broker_links.brokers.begin_filters(self.state, &self.broker_links.wanted, key, session_present);
        self.state.begin_resending(now.monotonic, session);
        self.state.refill(now.monotonic, self.layouts, session);
        let complete =
            self.broker_links.brokers.all.get(&key).is_some_and(|broker_link| broker_link.filters.is_complete());
        if complete {
            self.broker_links.brokers.begin_serving(now, self.state, key);
        }
        self.broker_links.brokers.set_broker_link_timer(self.state, key);
        self.check_gate(now);
    }

    /// The connection of a broker link has ended, for whatever reason.
    pub(crate) fn lose_broker_link(
        &mut self,
        now: Now,
        connection: ConnectionKey,
        reason: Reason,
        detail: Option<&str>,
    ) {
        let Some(key) = self.broker_links.brokers.by_connection.remove(&connection) else { return };
        self.broker_links.settlement.end_confirming(
            self.state,
            self.layouts,
            &mut self.broker_links.brokers,
            connection,
        );
        let reassign_at = self.broker_links.brokers.config.reassign_time(now);
        let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) else { return };
        let was = broker_link.stage;
        broker_link.connection = None;
        broker_link.pause.forget();
        broker_link.opening.forget();
        broker_link.since = now.unix;
        broker_link.counters.lost += u64::from(was == Stage::Open);
        if let Some(detail) = detail.filter(|detail| !detail.is_empty()) {
            detail.clone_into(&mut broker_link.last_error);
        } else if broker_link.last_error.is_empty() {
            broker_link.last_error = "the connection broke off".into();
        }
        let (session, silent) = (broker_link.session, broker_link.silent);
        let wanted = broker_link.ends || self.broker_links.brokers.stopping;
        if !wanted && !std::mem::replace(&mut broker_link.away_logged, true) {
            let (broker, detail) = (broker_link.name.to_string(), broker_link.last_error.clone());
            self.state.events.push_back(Event::Log(LogEvent::BrokerLost { broker, detail }));
        }
        let closed = was == Stage::Open && !wanted && reason == Reason::ConnectionLost;
        let at_once;
        if was == Stage::Open {
            broker_link.reassign_at = reassign_at;
            broker_link.note_lost();
            self.state.sessions_connected -= 1;
            at_once = self.suspect(now, key, closed);
            if let Some(session) = self.state.sessions.get_mut(session.0) {
                session.connection = None;
                if let Some(flow) = session.flow.as_mut() {
                    flow.to_resend = 0;
                }
            }
        } else if silent {
            at_once = broker_link.note_silent_close();
        } else {
            at_once = broker_link.note_failed_attempt();
        }
        self.broker_links.brokers.forget_hold(key);
        self.end_filters(now, key, closed);
        self.broker_links.brokers.rest(now, self.state, key, at_once);
    }

    /// A broker stays away: other brokers get its messages, if there are any.
    pub(crate) fn give_up_broker_link(&mut self, now: Now, key: BrokerLinkKey) {
        let Some(broker_link) = self.broker_links.brokers.all.get(&key) else { return };
        let session = broker_link.session;
        let another = self.broker_links.brokers.all.iter().any(|(other, broker_link)| {
            *other != key && broker_link.stage == Stage::Open && broker_link.draining.is_none()
        });
        if !another {
            // No other broker serves: its messages stay, and other brokers are looked for again later.
            if let Some(broker_link) = self.broker_links.brokers.all.get_mut(&key) {
                broker_link.reassign_at = now.monotonic.plus(REASSIGN_AGAIN_MS);
            }
            return;
        }
        self.groups.announce_presence(self.state, self.links, session, false);
        self.reassign(now, key);
    }
}

/// How long until it is asked again whether another broker could take a lost one's messages, milliseconds.
const REASSIGN_AGAIN_MS: u64 = 500;
