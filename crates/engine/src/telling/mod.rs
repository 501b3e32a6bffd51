//! What happens to single messages, told for those who look for one of them: a bounded part of it, the rest is counted.

pub(crate) mod clients;
pub(crate) mod counters;
pub(crate) mod reason;
pub(crate) mod sys;

use crate::addresses::Fate;
use crate::desk::Reporting;
use crate::event::{Attempt, Delay, Event, LogEvent};
use crate::ids::{ConnectionKey, SessionKey, TenantId, hash_name};
use crate::message::{MessageRef, Publication};
use crate::now::Millis;
use crate::session::BlockedPublisher;
use crate::session::overflow::Arriving;
use crate::telling::reason::Reason;
use std::collections::BTreeMap;

/// Events of messages told about one client per second; the next one that is told says how many were not.
pub(crate) const TOLD_PER_CLIENT: u32 = 10;

/// Events of messages told per second of all clients of a shard.
const TOLD_PER_SHARD: u32 = 200;

/// Clients of whom it is known how many events were not told. Of further ones nothing is told until a second is over.
const CLIENTS: usize = 1024;

/// What was told of one client.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    second: u64,
    told: u32,
    /// Events since the last one told.
    untold: u64,
}

/// How much of what happens to messages was told.
#[derive(Debug, Default)]
pub(crate) struct Telling {
    second: u64,
    told: u32,
    clients: BTreeMap<u64, Tally>,
    /// Names of principals, which have no session that has one.
    principals: BTreeMap<ConnectionKey, Box<str>>,
}

impl Telling {
    /// A principal has this name.
    pub(crate) fn name_principal(&mut self, key: ConnectionKey, name: &str) {
        self.principals.insert(key, name.into());
    }

    /// A principal is gone.
    pub(crate) fn forget_principal(&mut self, key: ConnectionKey) {
        self.principals.remove(&key);
    }

    /// Counts an event about a client; if it is to be told, says how many before it were not.
    fn take(&mut self, now: Millis, client_id: &str) -> Option<u64> {
        let second = now.0 / 1000;
        if self.second != second {
            self.second = second;
            self.told = 0;
        }
        let name = name_of(client_id);
        if self.clients.len() >= CLIENTS && !self.clients.contains_key(&name) {
            self.clients.retain(|_, tally| tally.second == second);
            if self.clients.len() >= CLIENTS {
                return None;
            }
        }
        let tally = self.clients.entry(name).or_default();
        if tally.second != second {
            *tally = Tally { second, told: 0, ..*tally };
        }
        if tally.told >= TOLD_PER_CLIENT || self.told >= TOLD_PER_SHARD {
            tally.untold += 1;
            return None;
        }
        tally.told += 1;
        self.told += 1;
        Some(std::mem::take(&mut tally.untold))
    }

    pub(crate) fn untold(&self, client_id: &str) -> u64 {
        self.clients.get(&name_of(client_id)).map_or(0, |tally| tally.untold)
    }
}

/// Whoever asks about a client does so by its id alone.
fn name_of(client_id: &str) -> u64 {
    hash_name(TenantId::DEFAULT, client_id)
}

impl Reporting<'_> {
    /// Counts and tells a message that a session does not get.
    #[cold]
    pub(crate) fn drop_for(&mut self, reason: Reason, to: SessionKey, topic: &str) {
        self.counters.drop_message(reason);
        self.tell_dropped(reason, to, topic, None);
    }

    /// Counts a message that a session does not get, tells it, and keeps it as a dead letter if that is wanted.
    #[cold]
    pub(crate) fn discard_for(&mut self, reason: Reason, to: SessionKey, message: &MessageRef) {
        self.discard(reason, message);
        self.tell_fate_of(to, message, Fate::Dropped(reason));
        self.tell_dropped(reason, to, message.topic(), None);
    }

    /// The same for a message that nobody may have kept yet.
    #[cold]
    pub(crate) fn discard_publication_for(
        &mut self,
        reason: Reason,
        to: SessionKey,
        publication: &mut Publication<'_>,
    ) {
        self.discard_publication(reason, publication);
        self.tell_fate(to, publication.topic, publication.properties, publication.qos, Fate::Dropped(reason));
        self.tell_dropped(reason, to, publication.topic, None);
    }

    /// The same for the message that has just come.
    #[cold]
    pub(crate) fn discard_arriving(&mut self, reason: Reason, arriving: &Arriving<'_>) {
        let message = &arriving.delivery.message;
        self.discard(reason, message);
        self.tell_fate_of(arriving.to, message, Fate::Dropped(reason));
        self.tell_dropped(reason, arriving.to, message.topic(), arriving.publisher);
    }

    fn tell_dropped(&mut self, reason: Reason, to: SessionKey, topic: &str, by: Option<BlockedPublisher>) {
        let Some(session) = self.sessions.get(to.0) else { return };
        let Some(untold) = self.telling.take(self.now, &session.client_id) else { return };
        // That of another shard is not known here.
        let publisher = by.filter(|by| by.shard == self.shard).and_then(|by| self.client_of(by.connection));
        let (client_id, topic) = (session.client_id.to_string(), topic.to_owned());
        self.events.push_back(Event::Log(LogEvent::Dropped { client_id, topic, reason, publisher, untold }));
    }

    /// Tells that a session may not be sent messages of a topic; the route counts them.
    #[cold]
    pub(crate) fn tell_withheld(&mut self, to: SessionKey, topic: &str) {
        self.tell_dropped(Reason::NotAuthorized, to, topic, None);
    }

    /// Tells a message that a session did not get which is not there any more.
    #[cold]
    pub(crate) fn tell_given_up(&mut self, reason: Reason, client_id: &str, topic: &str) {
        let Some(untold) = self.telling.take(self.now, client_id) else { return };
        let (client_id, topic) = (client_id.to_owned(), topic.to_owned());
        self.events.push_back(Event::Log(LogEvent::Dropped { client_id, topic, reason, publisher: None, untold }));
    }

    /// Tells that a client was not allowed something.
    #[cold]
    pub(crate) fn tell_denied(&mut self, attempt: Attempt, by: SessionKey, topic: &str, reason: Reason) {
        let Some(session) = self.sessions.get(by.0) else { return };
        let name = session.client_id.clone();
        self.tell_denied_named(attempt, &name, topic, reason, None);
    }

    /// The same by the name of a client or a principal, and whose queue had no room.
    #[cold]
    pub(crate) fn tell_denied_named(
        &mut self,
        attempt: Attempt,
        name: &str,
        topic: &str,
        reason: Reason,
        whose: Option<SessionKey>,
    ) {
        let whose = whose.and_then(|whose| self.sessions.get(whose.0));
        let held_up_by = whose.map(|session| session.client_id.to_string());
        let Some(untold) = self.telling.take(self.now, name) else { return };
        let (client_id, topic) = (name.to_owned(), topic.to_owned());
        self.events.push_back(Event::Log(LogEvent::Denied { client_id, attempt, topic, reason, held_up_by, untold }));
    }

    /// Tells that a publisher has to wait.
    #[cold]
    pub(crate) fn tell_delayed(&mut self, delay: Delay, key: ConnectionKey) {
        let Some(client_id) = self.client_of(key) else { return };
        let Some(untold) = self.telling.take(self.now, &client_id) else { return };
        self.events.push_back(Event::Log(LogEvent::Delayed { key, client_id, delay, untold }));
    }

    /// The name of a client or a principal.
    fn client_of(&self, key: ConnectionKey) -> Option<String> {
        match self.connections.get(key)?.session {
            Some(session) => Some(self.sessions.get(session.0)?.client_id.to_string()),
            None => self.telling.principals.get(&key).map(ToString::to_string),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_told_of_so_often_in_a_second_and_the_rest_is_counted() {
        let mut telling = Telling::default();
        let told = (0..100).filter(|_| telling.take(Millis(1500), "a").is_some()).count();
        assert_eq!((told, telling.untold("a")), (TOLD_PER_CLIENT as usize, 90));
        assert_eq!(telling.take(Millis(1999), "b"), Some(0), "others have their own share");
        assert_eq!(telling.take(Millis(2000), "a"), Some(90));
        assert_eq!((telling.untold("a"), telling.untold("b"), telling.untold("c")), (0, 0, 0));
    }

    #[test]
    fn all_clients_together_are_told_of_so_often_and_remembered_in_bounds() {
        let mut telling = Telling::default();
        let name = |n: usize| format!("c{n}");
        let told = (0..10_000).filter(|n| telling.take(Millis(0), &name(*n)).is_some()).count();
        assert_eq!(told, TOLD_PER_SHARD as usize);
        assert_eq!((telling.clients.len(), telling.untold(&name(CLIENTS - 1))), (CLIENTS, 1));
        assert_eq!(telling.take(Millis(1000), "new"), Some(0), "those of the last second make room");
        assert_eq!(telling.clients.len(), 1);
    }
}
