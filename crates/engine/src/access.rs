//! What a client may do: the seam to rules that are made elsewhere.
//!
//! The engine asks for each message that a client publishes, for its will when it connects and once more when the will is
//! published, and once for each subscription. A session remembers under which epoch of the rules its subscriptions were
//! allowed: when new rules come, those of every other epoch are asked for again, in bounded steps, and what is no longer
//! allowed ends. What was queued until then was allowed when it came and is still delivered.

use std::fmt;

use tidegate_mqtt::{QoS, Will};

use crate::engine::Engine;
use crate::ids::{SessionKey, TenantId};
use crate::now::Now;
use crate::reason::Reason;

/// Who wants to do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The client's tenant.
    pub tenant: TenantId,
    /// The client id.
    pub client_id: &'a str,
}

/// Compiled rules. Asked on a shard's thread: answers come at once, from memory.
pub trait Access: fmt::Debug {
    /// Whether a message may be published to a topic.
    fn may_publish(&self, subject: Subject<'_>, topic: &str, qos: QoS, retain: bool) -> bool;
    /// Whether a filter may be subscribed to; for a shared subscription the filter behind the share name.
    fn may_subscribe(&self, subject: Subject<'_>, filter: &str, qos: QoS) -> bool;
}

/// Sessions and subscriptions looked at in one turn after the rules have changed.
const RECHECKED_PER_TURN: usize = 512;

/// The rules in force, and how far sessions were asked for again.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    access: Option<Box<dyn Access>>,
    /// Counts the rules, so that sessions of earlier ones are known by their number; 0 is that of no rules.
    epoch: u16,
    /// The next session to be asked for, while that is not done.
    recheck_from: Option<u32>,
}

impl Rules {
    /// Whether sessions wait to be asked for again.
    pub(crate) fn is_rechecking(&self) -> bool {
        self.recheck_from.is_some()
    }

    /// Has every session asked for again, if there are rules.
    pub(crate) fn recheck(&mut self) {
        if self.access.is_some() {
            self.recheck_from = Some(0);
        }
    }

    /// The epoch of subscriptions that are allowed now.
    pub(crate) fn epoch(&self) -> u16 {
        self.epoch
    }
}

impl Engine {
    /// Puts rules in force; without any, everyone may do everything. Subscriptions that the new rules do not allow end in
    /// the next turns ([`Engine::next_deadline`] says so).
    pub fn set_access(&mut self, access: Option<Box<dyn Access>>) {
        self.rules.access = access;
        self.rules.epoch = self.rules.epoch.checked_add(1).unwrap_or(1);
        self.rules.recheck_from = None;
        self.rules.recheck();
    }

    fn subject(&self, key: SessionKey) -> Option<Subject<'_>> {
        let session = self.desk.sessions.get(key.0)?;
        Some(Subject { tenant: session.tenant, client_id: &session.client_id })
    }

    #[inline]
    pub(crate) fn may_publish(&self, key: SessionKey, topic: &str, qos: QoS, retain: bool) -> bool {
        let Some(access) = &self.rules.access else { return true };
        self.subject(key).is_some_and(|subject| access.may_publish(subject, topic, qos, retain))
    }

    /// The same for a client that has no session yet.
    pub(crate) fn may_leave_will(&self, subject: Subject<'_>, will: &Will<'_>) -> bool {
        let Some(access) = &self.rules.access else { return true };
        access.may_publish(subject, will.topic.as_str(), will.qos, will.retain)
    }

    pub(crate) fn may_subscribe(&self, key: SessionKey, filter: &str, qos: QoS) -> bool {
        let Some(access) = &self.rules.access else { return true };
        self.subject(key).is_some_and(|subject| access.may_subscribe(subject, filter, qos))
    }

    /// Asks for the subscriptions of some more sessions again.
    pub(crate) fn recheck_rights(&mut self, now: Now) {
        let Some(from) = self.rules.recheck_from else { return };
        let epoch = self.rules.epoch();
        let mut keys = Vec::new();
        let mut looked_at = 0;
        for (key, session) in self.desk.sessions.iter_from(from) {
            looked_at += 1;
            if session.rights_epoch != epoch && !session.is_inner() {
                looked_at += session.subscriptions();
                keys.push(SessionKey(key));
            }
            if looked_at >= RECHECKED_PER_TURN {
                self.rules.recheck_from = Some(key + 1);
                break;
            }
        }
        if looked_at < RECHECKED_PER_TURN {
            self.rules.recheck_from = None;
        }
        for key in keys {
            self.recheck_session(now, key, epoch);
        }
    }

    fn recheck_session(&mut self, now: Now, key: SessionKey, epoch: u16) {
        let Some(session) = self.desk.sessions.get_mut(key.0) else { return };
        session.rights_epoch = epoch;
        let mut ended: Vec<String> = Vec::new();
        let Some(session) = self.desk.sessions.get(key.0) else { return };
        for filter in session.filters.iter() {
            let qos = self.index.subscriber(filter, key).map_or(QoS::AtMostOnce, |subscriber| subscriber.options.qos());
            let text = self.index.filter(filter).unwrap_or_default();
            if !self.may_subscribe(key, text, qos) {
                ended.push(text.to_owned());
            }
        }
        for membership in session.rare.iter().flat_map(|rare| &rare.memberships) {
            let qos = crate::topics::SubscriberOptions::from_bits(membership.member.options).qos();
            if !self.may_subscribe(key, &membership.filter, qos) {
                ended.push(format!("$share/{}/{}", membership.share, membership.filter));
            }
        }
        for filter in ended {
            if let Ok(filter) = tidegate_mqtt::TopicFilter::new(&filter) {
                self.unsubscribe(now, key, filter);
                self.desk.counters.requests_refused[Reason::NotAuthorized.number()] += 1;
            }
        }
    }
}
