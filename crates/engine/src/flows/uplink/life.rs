//! A broker connects, fails and is tried again.

use crate::event::{Event, LogEvent};
use crate::events::reason::Reason;
use crate::flows::contexts::Uplinking;
use crate::flows::contexts::dealing;
use crate::flows::contexts::subscribing;
use crate::ids::UPLINK_LISTENER;
use crate::ids::UplinkKey;
use crate::ids::{ConnectionKey, SessionKey, TenantId};
use crate::link::envelope::Ticket;
use crate::link::record::MemberOptions;
use crate::now::Now;
use crate::orchestrator::uplink::filters::PACKETS_UNDER_WAY;
use crate::orchestrator::uplink::{Stage, UPLINK_FILTER, UPLINK_SHARE};
use crate::session::{FilterList, Session, Standing};
use crate::subscribe::SubAckWaits;
use crate::topics::SubscriberOptions;
use tidegate_mqtt::QoS;

impl Uplinking<'_> {
    /// The session of a broker's uplink; a new one if the store has none.
    pub(crate) fn uplink_session(&mut self, broker: &str) -> SessionKey {
        let client_id = Self::uplink_session_name(broker);
        let known = self.state.sessions.find_session(TenantId::UPLINK, &client_id);
        let session = known.unwrap_or_else(|| {
            self.state.insert_session(Session {
                client_id: client_id.into(),
                connection: None,
                filters: FilterList::default(),
                flow: None,
                rare: None,
                expiry_seconds: u32::MAX,
                tenant: TenantId::UPLINK,
                listener: UPLINK_LISTENER,
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

    /// Makes the uplink's session a member of the group that deals, which it may be already.
    pub(crate) fn take_uplink_seat(&mut self, now: Now, session: SessionKey, max_qos: QoS) {
        let options = SubscriberOptions::new(max_qos, false, true);
        let member = MemberOptions { options: options.bits(), subscription_id: 0 };
        let whole = format!("$share/{UPLINK_SHARE}/{UPLINK_FILTER}");
        self.state.sessions.store_subscription(&mut self.state.journal, session, &whole, member.options, 0);
        let no_connection = ConnectionKey { index: u32::MAX, generation: 0 };
        let ticket = Ticket { connection: no_connection, sequence: 0 };
        let mut waits = SubAckWaits::default();
        subscribing!(self).join_group(now, session, UPLINK_SHARE, UPLINK_FILTER, member, ticket, &mut waits);
        self.groups.announce_presence(self.state, self.links, session, true);
    }

    /// An uplink is there again: messages in flight are sent again, and the broker gets the wanted filters.
    pub(super) fn resume_uplink(&mut self, now: Now, key: UplinkKey, connection: ConnectionKey, session_present: bool) {
        let Some(uplink) = self.uplinks.brokers.all.get(&key) else { return };
        let (session, draining, max_qos) = (uplink.session, uplink.draining.is_some(), uplink.max_qos);
        self.uplinks.brokers.fit_window(self.state, key);
        if !draining {
            self.take_uplink_seat(now, session, max_qos);
        }
        if !draining {
            self.groups.announce_presence(self.state, self.links, session, true);
        }
        if !session_present {
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
        if let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) {
            uplink.begin_with_care(self.state);
        }
        // Before messages, so that each that is published from now on comes back.
        self.uplinks.brokers.begin_filters(self.state, &self.uplinks.wanted, key, session_present);
        self.state.resume(now.monotonic, self.layouts, session);
        let complete = self.uplinks.brokers.all.get(&key).is_some_and(|uplink| uplink.filters.is_complete());
        if complete {
            self.uplinks.brokers.begin_serving(now, self.state, key);
        }
        self.uplinks.brokers.set_uplink_timer(self.state, key);
        self.check_gate(now);
    }

    /// The connection of an uplink has ended, for whatever reason.
    pub(crate) fn lose_uplink(&mut self, now: Now, connection: ConnectionKey, reason: Reason, detail: Option<&str>) {
        let Some(key) = self.uplinks.brokers.by_connection.remove(&connection) else { return };
        self.uplinks.settlement.end_confirming(self.state, self.layouts, &mut self.uplinks.brokers, connection);
        let reassign_at = self.uplinks.brokers.config.reassign_time(now);
        let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) else { return };
        let was = uplink.stage;
        uplink.connection = None;
        uplink.pause.forget();
        uplink.since = now.unix;
        uplink.counters.lost += u64::from(was == Stage::Open);
        if let Some(detail) = detail.filter(|detail| !detail.is_empty()) {
            detail.clone_into(&mut uplink.last_error);
        } else if uplink.last_error.is_empty() {
            uplink.last_error = "the connection broke off".into();
        }
        let (session, silent) = (uplink.session, uplink.silent);
        let wanted = uplink.ends || self.uplinks.brokers.stopping;
        if !wanted && !std::mem::replace(&mut uplink.away_logged, true) {
            let (broker, detail) = (uplink.name.to_string(), uplink.last_error.clone());
            self.state.events.push_back(Event::Log(LogEvent::BrokerLost { broker, detail }));
        }
        let closed = was == Stage::Open && !wanted && reason == Reason::ConnectionLost;
        let at_once;
        if was == Stage::Open {
            uplink.reassign_at = reassign_at;
            uplink.note_lost();
            self.state.sessions_connected -= 1;
            at_once = self.suspect(now, key, closed);
            if let Some(session) = self.state.sessions.get_mut(session.0) {
                session.connection = None;
                if let Some(flow) = session.flow.as_mut() {
                    flow.to_resend = 0;
                }
            }
        } else if silent {
            at_once = uplink.note_silent_close();
        } else {
            at_once = uplink.note_failed_attempt();
        }
        self.uplinks.brokers.forget_hold(key);
        self.end_filters(now, key, closed);
        self.uplinks.brokers.rest(now, self.state, key, at_once);
    }

    /// A broker stays away: other brokers get its messages, if there are any.
    pub(crate) fn give_up_uplink(&mut self, now: Now, key: UplinkKey) {
        let Some(uplink) = self.uplinks.brokers.all.get(&key) else { return };
        let session = uplink.session;
        let another = self
            .uplinks
            .brokers
            .all
            .iter()
            .any(|(other, uplink)| *other != key && uplink.stage == Stage::Open && uplink.draining.is_none());
        if !another {
            // No other broker serves: its messages stay, and other brokers are looked for again later.
            if let Some(uplink) = self.uplinks.brokers.all.get_mut(&key) {
                uplink.reassign_at = now.monotonic.plus(REASSIGN_AGAIN_MS);
            }
            return;
        }
        self.groups.announce_presence(self.state, self.links, session, false);
        self.reassign(now, key);
    }
}

/// How long until it is asked again whether another broker could take a lost one's messages, milliseconds.
const REASSIGN_AGAIN_MS: u64 = 500;
