//! The text of stored records.

use crate::addresses::{NODE_GROUP, group_of_stored};
use crate::cluster::outgoing::describe_outgoing;
use crate::ids::{Partitions, TenantId};
use crate::link::exchange_word::ExchangeName;
use crate::now::{Millis, Now};
use crate::wire::WireReader;

use super::session_record::{SessionRecord, client_of, is_ahead};
use crate::journal::Reserved;
use crate::journal::keys::Key;
use crate::journal::keys::StoredSession;
use crate::records::stored::Content;
use crate::records::stored::ReadEntry;
use crate::records::stored::SentRecord;
use crate::records::stored::read_message;
use crate::records::stored::read_subscription;
use crate::session::refused::RefusedMessage;

/// The name of a key space's records for people, in the plural; `None` when the key is not the engine's or not of this
/// version.
pub fn name_of_kind(key: &[u8]) -> Option<&'static str> {
    Some(match Key::read(key).ok()? {
        Key::Numbers(_) => "numbers given out",
        Key::Session(_) => "sessions",
        Key::Subscription(..) => "subscriptions",
        Key::Received(..) => "packet ids of QoS 2 messages taken",
        Key::Entry(..) => "messages owed",
        Key::Sent(..) => "states of messages sent",
        Key::Seen(..) => "ids of messages that brokers brought",
        Key::Refused(..) => "QoS 2 messages refused",
        Key::Will(_) => "wills of clients whose session ends with their connection",
        Key::Body(_) => "messages that several sessions share",
        Key::Crossing(_) => "messages between shards",
        Key::Crossed(..) => "arrivals of those",
        Key::Outgoing(_) => "wills under way to other nodes",
        Key::Mark(..) => "QoS 2 messages of other nodes that were taken",
        Key::Retained(..) => "retained messages",
        Key::Arrival(_) => "partitions that came from other homes",
        Key::Passed(..) => "messages passed on to partitions that came",
        Key::Group(..) => "shared groups",
        Key::Foreign => return None,
    })
}

/// Whether a message that a session is owed stays in memory after a start, with all before it in the queue. Others may
/// wait in the store alone.
pub fn stays_in_memory(key: &[u8], value: &[u8]) -> bool {
    matches!(Key::read(key), Ok(Key::Entry(..))) && ReadEntry::stays_in_memory(value)
}

/// A pair of a store in words for people; `None` when it is not the engine's or not of this version.
pub fn describe(key: &[u8], value: &[u8]) -> Option<String> {
    // Times are shown as they are stored: since the Unix epoch.
    let clock = Now { monotonic: Millis(0), unix: 0 };
    match Key::read(key).ok()? {
        Key::Numbers(shard) => {
            let Reserved { sessions, bodies } = Reserved::read(value).ok()?;
            Some(format!("{shard} numbers sessions below {sessions} and shared messages below {bodies}"))
        }
        Key::Session(session) => describe_session(session, value, clock),
        Key::Subscription(session, filter) => {
            let (options, id) = read_subscription(value).ok()?;
            Some(describe_subscription(session, filter, options, id))
        }
        Key::Seen(session, place) => {
            let mut reader = WireReader::new(value);
            reader.u64("the number of an id").ok()?;
            let (origin, number) = (reader.u64("an origin").ok()?, reader.u64("a number").ok()?);
            Some(format!("session {}: message {origin:016x}/{number} was brought (place {place})", session.0))
        }
        Key::Received(session, id) => Some(format!("session {}: QoS 2 packet id {id} taken", session.0)),
        Key::Refused(session, id) => {
            let reason = RefusedMessage::read_stored(value).ok()?.reason.label();
            Some(format!("session {}: QoS 2 packet id {id} refused ({reason})", session.0))
        }
        Key::Entry(session, number) => {
            let entry = ReadEntry::read(value, clock, crate::TenantId::DEFAULT, &[]).ok()?;
            let content = match &entry.content {
                Content::Here(message) => format!("{:?}, {} bytes", message.topic(), message.payload().len()),
                Content::Body(body) => format!("message {body}"),
            };
            let sent = entry.sent.map_or_else(|| "waiting".to_owned(), |id| format!("sent as packet id {id}"));
            Some(format!("session {}: owed {number} at QoS {}, {content}, {sent}", session.0, entry.qos.bits()))
        }
        Key::Sent(session, number) => {
            let sent = SentRecord::read(value).ok()?;
            Some(format!("session {}: {number} is under packet id {} ({:?})", session.0, sent.id, sent.state))
        }
        Key::Will(number) => {
            let record = SessionRecord::read(value, clock).ok()?;
            let (client, will) = (&record.client_id, record.will?.message);
            Some(format!("will {} of {client:?}: {:?}, {} bytes", number.0, will.topic(), will.payload().len()))
        }
        Key::Body(number) => {
            let mut reader = WireReader::new(value);
            let tenant = crate::TenantId(reader.u16("a tenant").ok()?);
            let message = read_message(&mut reader, clock, tenant).ok()?;
            Some(format!("message {number}: {:?}, {} bytes", message.topic(), message.payload().len()))
        }
        Key::Crossing(number) => describe_crossing(number, value, clock),
        Key::Crossed(number, place) => {
            Some(format!("message {number}: has arrived at {} of {}", place.shard, place.shards))
        }
        Key::Outgoing(number) => Some(format!("message {number}: {}", describe_outgoing(value, clock).ok()?)),
        Key::Mark(name, _) => describe_mark(name, value),
        Key::Retained(tenant, topic) => describe_retained(tenant, topic, value, clock),
        Key::Arrival(number) => describe_arrival(number, value),
        Key::Passed(origin, number) => {
            let partitions = Partitions::read(&mut WireReader::new(value)).ok()?.iter().count();
            Some(format!("message {origin:016x}/{number} was passed on to {partitions} partitions that came"))
        }
        Key::Group(tenant, name) => Some(format!("shared group {name:?} (tenant {})", tenant.0)),
        Key::Foreign => None,
    }
}

fn describe_mark(name: ExchangeName, value: &[u8]) -> Option<String> {
    let by = crate::link::got::Got::read_stored(&mut WireReader::new(value)).ok()?;
    let (sessions, groups) = (by.sessions.iter().count(), by.groups.iter().count());
    let name = format!("{:016x}/{}", name.origin, name.number);
    Some(format!("message {name} of another node: taken for {sessions} partitions, dealt for {groups}"))
}

fn describe_crossing(number: u64, value: &[u8], clock: Now) -> Option<String> {
    let mut replay = super::crossing::Replay::default();
    replay.add(number, value, clock).ok()?;
    let message = replay.message(number)?;
    Some(format!("message {number}: {:?}, on its way between shards", message.topic()))
}

fn describe_arrival(number: u64, value: &[u8]) -> Option<String> {
    let mut reader = WireReader::new(value);
    reader.u64("the end of an arrival").ok()?;
    let partitions = Partitions::read(&mut reader).ok()?.iter().count();
    Some(format!("arrival {number}: {partitions} partitions have come from another home"))
}

fn describe_retained(tenant: TenantId, topic: &str, value: &[u8], clock: Now) -> Option<String> {
    let bytes = read_message(&mut WireReader::new(value), clock, tenant).ok()?.payload().len();
    let content = if bytes == 0 { "removed".to_owned() } else { format!("{bytes} bytes") };
    Some(format!("retained {topic:?} (tenant {}): {content}", tenant.0))
}

fn describe_session(session: StoredSession, value: &[u8], clock: Now) -> Option<String> {
    if is_ahead(value) {
        let (tenant, client_id) = client_of(value).ok()?;
        return Some(format!("session {} of {client_id:?} (tenant {}), still to come", session.0, tenant.0));
    }
    let record = SessionRecord::read(value, clock).ok()?;
    let user = record.identity.as_ref().and_then(|identity| identity.user_name.as_deref()).unwrap_or("-");
    let state = if record.connected { "connected" } else { "away" };
    let (tenant, client, expiry) = (record.tenant.0, &record.client_id, record.expiry_seconds);
    let will = if record.will.is_some() { ", with a will" } else { "" };
    let number = session.0;
    Some(format!("session {number} of {client:?} (tenant {tenant}, user {user}, expiry {expiry} s, {state}{will})"))
}

fn describe_subscription(session: StoredSession, filter: &str, options: u8, id: u32) -> String {
    let number = session.0;
    if options & NODE_GROUP != 0 {
        return format!("session {number}: in the group {:?} of mobile nodes", group_of_stored(filter));
    }
    format!("session {number}: subscribed to {filter:?} at QoS {} (identifier {id})", options & 3)
}
