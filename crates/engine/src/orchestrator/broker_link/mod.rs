//! Broker links, which make an engine an orchestrator in front of other brokers (BRK-15, BRK-23..28).
//!
//! A broker link is a connection in the other direction: the engine connects to a broker and is a client there. A
//! subscriber's session serves it: its queue holds the broker's messages, its window bounds the messages in flight, its
//! entries in the store outlive the process. All broker links are members of one shared group in a tenant of their own,
//! which deals the clients' messages; messages from brokers go to the subscribers of the clients' tenant. They live on
//! one shard, the home of partition 0.
//!
//! - `route.rs`: clients' messages get an id and go to the fleet, or wait for space.
//! - `connection.rs`: CONNECT to CONNACK, probes, and which packets a broker may send.
//! - `filters.rs`: each filter of this process once at each broker, in the packets of `asking.rs`; `coverage.rs`: which
//!   messages a broker does not bring back; `merging.rs`: filters without overlap (`disjoint.rs`) at brokers that send a
//!   copy for each.
//! - `receive.rs`: messages from brokers; `copies.rs`: each of them once.
//! - `refusal.rs`: a filter that no broker takes, or that one refuses a user, is refused to the client.
//! - `settle.rs`: acknowledged and returned messages are settled; others are sent again.
//! - `packet_limits.rs`: a message that is too long for a broker goes to another; `quarantine.rs`: topics that brokers
//!   deny are refused for a while.
//! - `suspects.rs`: a message that makes brokers close the connection is set aside; `ending.rs`: a filter that does is
//!   not asked for.
//! - `settled.rs`: whether all messages have arrived that brokers sent before a moment.
//! - `opening.rs`: a broker that has connected waits for the filters of other members.
//! - `order.rs`: a topic's messages keep their order while its broker changes. `spread.rs`: without such an order, long
//!   queues are dealt again when a broker begins to serve, or has none.
//! - `confirm.rs`: returned messages are settled in the store when all shards have them.
//! - `here.rs`: delivers messages that no broker brings back.
//! - `life.rs`: broker links come and are lost; `leave.rs`: they are drained and removed; `quota.rs`: they have no room for
//!   a while.
//! - `clock.rs`: the time in an id, which is the version of a retained value.
//! - `report.rs`: reports about them; `former.rs`: broker links of an earlier process.

pub(crate) mod adopted;
pub(crate) mod asking;
mod changes;
pub(crate) mod clock;
pub(crate) mod confirm;
pub(crate) mod connection;
pub(crate) mod copies;
mod coverage;
mod disjoint;
pub(crate) mod ending;
pub(crate) mod filters;
pub(crate) mod former;
pub(crate) mod id;
mod leave;
pub(crate) mod life;
mod merging;
pub(crate) mod newest;
pub(crate) mod opening;
pub(crate) mod order;
pub(crate) mod packet_limits;
pub(crate) mod passed;
pub(crate) mod quarantine;
pub(crate) mod quota;
pub(crate) mod receive;
pub(crate) mod refusal;
mod report;
pub(crate) mod route;
pub(crate) mod settle;
pub(crate) mod settled;
pub(crate) mod spread;
pub(crate) mod suspects;
pub(crate) mod versions;

use crate::hash::hash_bytes;
pub(crate) use crate::ids::BROKER_LINK_PREFIX;
use crate::ids::BrokerLinkKey;
use crate::ids::{ConnectionKey, PartitionId, SessionKey, ShardPosition};
use crate::journal::keys::StoredSession;
use crate::message::MessageRef;
use crate::now::Millis;
use crate::session::InFlight;
pub use crate::settings::broker_links::{
    BrokerLinkCounters, BrokerLinkError, BrokerLinkOptions, BrokerLinkReport, BrokerLinkSettings, BrokerLinkState,
    DialAttempt, RoutingPolicy,
};
use adopted::Adopted;
use clock::IdClock;
use confirm::Confirming;
use copies::{KeptIds, LastMessage};
pub(crate) use filters::{FilterSync, WantedFilters};
use former::{Continued, Former};
use id::sequence::{IdReader, IdWriter};
use id::{MessageId, SeenIds};
use newest::NewestBrought;
use opening::Opening;
pub(crate) use order::Hold;
use packet_limits::{LenLimit, PacketLimit};
use passed::{MemberQuestion, Unpassed};
use quarantine::Quarantine;
pub(crate) use quota::Pause;
pub(crate) use route::Gate;
use settle::Resends;
pub use settled::Settling;
use std::collections::{BTreeMap, BTreeSet};
pub(crate) use suspects::{Blames, Suspicion};
use tidegate_mqtt::{QoS, ReasonCode, Version};

/// The share name of the group that all broker links are in.
pub(crate) const BROKER_LINK_SHARE: &str = "$uplink";

/// The filter of that group.
pub(crate) const BROKER_LINK_FILTER: &str = "#";

/// The brokers of a fleet on a shard, and the state that every shard of an orchestrator needs.
#[derive(Debug, Default)]
pub(crate) struct BrokerLinks {
    /// The number of this shard's message ids, different in each process.
    pub(crate) origin: u64,
    next_number: u64,
    ids: IdWriter,
    /// The connection whose message got the last id, and the publisher in it.
    last_publisher: Option<(ConnectionKey, u64)>,
    /// When messages enter, for their ids.
    pub(crate) clock: IdClock,
    /// Whether the fleet takes messages.
    pub(crate) gate: Gate,
    /// Messages since the gate was looked at.
    pub(crate) unchecked: u32,
    /// Topics that brokers deny.
    pub(crate) quarantine: Quarantine,
    /// The longest packet that any broker takes, bytes.
    pub(crate) largest: LenLimit,
    /// Publishers that wait until it does.
    pub(crate) waiting: BTreeSet<ConnectionKey>,
    pub(crate) brokers: Brokers,
    pub(crate) settlement: Settlement,
    pub(crate) wanted: WantedFilters,
}

/// The connections to brokers: their state, their timers, and their windows.
#[derive(Debug, Default)]
pub(crate) struct Brokers {
    pub(crate) config: FleetConfig,
    pub(crate) all: BTreeMap<BrokerLinkKey, BrokerLink>,
    pub(crate) next_key: u32,
    pub(crate) next_attempt: u64,
    pub(crate) by_session: BTreeMap<u32, BrokerLinkKey>,
    pub(crate) by_connection: BTreeMap<ConnectionKey, BrokerLinkKey>,
    /// Sessions of brokers that are better not given every message at present.
    pub(crate) flawed: BTreeSet<u32>,
    /// Every broker takes packets of at most this length, bytes; 0 as long as that is not known.
    smallest: u32,
    /// Brokers that wait for others, so that topics keep their order.
    pub(crate) held: BTreeSet<BrokerLinkKey>,
    pub(crate) former: Former,
    /// The connections of dead orchestrators that an earlier process worked off, and that are not forgotten.
    pub(crate) continued: Continued,
    /// The process stops: no broker is dialed any more.
    pub(crate) stopping: bool,
    /// True if other members share the brokers.
    pub(crate) has_members: bool,
}

/// How the fleet is configured.
#[derive(Debug, Default)]
pub(crate) struct FleetConfig {
    settings: Option<BrokerLinkSettings>,
    /// Whether this shard has the connections to the brokers.
    here: bool,
}

/// Messages that were given to brokers, from the acknowledgement until they have returned.
#[derive(Debug, Default)]
pub(crate) struct Settlement {
    /// How often messages were sent again that did not return.
    pub(crate) resends: Resends,
    /// How often messages were under way when brokers closed the connection.
    pub(crate) blames: Blames,
    /// Brokers that need no care any more, since the packet at hand.
    pub(crate) trusted: Vec<BrokerLinkKey>,
    /// Messages that no broker brings back, at the end of the packet at hand.
    pub(crate) for_here: Vec<(BrokerLinkKey, MessageRef)>,
    pub(crate) seen: SeenIds,
    pub(crate) newest_brought: NewestBrought,
    /// The ids of messages that brokers bring.
    pub(crate) brought: IdReader,
    /// The ids of messages that brokers acknowledge.
    pub(crate) settled: IdReader,
    pub(crate) confirming: Confirming,
    /// Messages that brokers have acknowledged in the packet at hand.
    pub(crate) acknowledged: Vec<(SessionKey, InFlight)>,
    /// Messages that brokers will never take, in the packet at hand, with a waiting publisher.
    pub(crate) denied: Vec<MessageId>,
    /// Messages that brokers have answered with an error, in the packet at hand.
    pub(crate) refused: Vec<Declined>,
    pub(crate) unreturned_bytes: u64,
    /// Bytes of acknowledged messages that other members may not have received.
    pub(crate) unpassed_bytes: u64,
    /// Where brokers whose sessions were restored go on keeping ids.
    restored_ids: BTreeMap<StoredSession, u64>,
}

/// A message that a broker has answered with an error.
#[derive(Debug)]
pub(crate) struct Declined {
    pub(crate) session: SessionKey,
    pub(crate) code: ReasonCode,
    pub(crate) in_flight: InFlight,
}

/// One broker link.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent, and each is read in another place")]
#[derive(Debug)]
pub(crate) struct BrokerLink {
    pub(crate) name: Box<str>,
    pub(crate) options: BrokerLinkOptions,
    pub(crate) session: SessionKey,
    pub(crate) connection: Option<ConnectionKey>,
    pub(crate) stage: Stage,
    /// Since when it is in its present state, Unix milliseconds.
    pub(crate) since: u64,
    /// The version of the present connection, or of the next attempt.
    pub(crate) version: Version,
    /// The version that was accepted last.
    pub(crate) accepted: Option<Version>,
    /// The evidence against MQTT 5.0 at the broker.
    pub(crate) objection: versions::Objection,
    /// Whether the end of this connection could mean an unknown version: the broker has sent nothing so far.
    pub(crate) silent: bool,
    pub(crate) draining: Option<Drain>,
    pub(crate) filters: FilterSync,
    /// In flight, but for others to deliver: only the packet ids are to be released.
    pub(crate) released: u64,
    /// The pause in sending, since it had no space.
    pub(crate) pause: Pause,
    /// Messages of others that have to be settled before it gets more.
    pub(crate) hold: Hold,
    /// The rest of its queue that is to be dealt again.
    pub(crate) spread: spread::Spread,
    /// The history of the connections that it has closed.
    pub(crate) suspicion: Suspicion,
    /// Acknowledged messages that have not returned.
    pub(crate) unreturned: BTreeMap<MessageId, Unreturned>,
    /// Acknowledged messages that other members may not have received.
    pub(crate) unpassed: Unpassed,
    /// The wait until other members have their filters there.
    pub(crate) opening: Opening,
    /// Other members' questions about messages that it had for this one.
    pub(crate) questions: Vec<MemberQuestion>,
    /// When its timer is set.
    pub(crate) timer: Millis,
    /// When a dead broker's messages go to others.
    pub(crate) reassign_at: Millis,
    /// How long the next attempt waits.
    pub(crate) backoff_ms: u64,
    /// Packets in flight as the broker allows.
    pub(crate) window: u16,
    /// The longest packet that it takes.
    pub(crate) limit: PacketLimit,
    /// The highest QoS that the broker takes.
    pub(crate) max_qos: QoS,
    pub(crate) probe: Probe,
    /// The last message that had no id.
    pub(crate) last: LastMessage,
    pub(crate) kept: KeptIds,
    /// The highest number of the messages of this shard that it has brought back above QoS 0.
    pub(crate) last_own: u64,
    /// The dead orchestrator whose session this connection uses.
    pub(crate) adopted: Option<Box<Adopted>>,
    pub(crate) counters: BrokerLinkCounters,
    pub(crate) last_error: String,
    /// True if the log has reported that the broker is away.
    pub(crate) away_logged: bool,
    /// True if the log has ever reported that it serves.
    pub(crate) serving_logged: bool,
    /// Whether its connection ends on request.
    pub(crate) ends: bool,
}

/// How far the connection of a broker link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The shell opens a transport.
    Dialing(DialAttempt),
    /// CONNECT was sent.
    Connecting,
    /// CONNACK came.
    Open,
    /// The next attempt is at this time.
    Resting(Millis),
}

/// Whether the broker lives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Probe {
    /// When the unanswered PINGREQ was sent.
    pub(crate) asked: Option<Millis>,
    /// Time of the next one.
    pub(crate) next: Millis,
    /// PINGRESP packets taken on this connection.
    pub(crate) answered: u64,
}

impl Probe {
    /// When the broker is lost that has sent its last packet at `seen`. A slow one may have much to do before it comes
    /// to the probe: whatever it sends shows that it lives.
    pub(crate) fn due(&self, seen: Millis, timeout: u64) -> Option<Millis> {
        self.asked.map(|asked| asked.max(seen).plus(timeout))
    }
}

/// A broker that gets no new messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    /// The answer that shows that the broker has worked off all it was given: one to a PINGREQ sent behind it.
    pub(crate) answers_wanted: u64,
}

/// A message that a broker has acknowledged and that is to return.
#[derive(Debug)]
pub(crate) struct Unreturned {
    pub(crate) in_flight: InFlight,
    pub(crate) since: Millis,
}

impl BrokerLinks {
    pub(crate) fn new(settings: Option<BrokerLinkSettings>, seed: u64, place: ShardPosition) -> Self {
        let origin = hash_bytes(seed, b"origin of messages for a fleet");
        let max_owed = settings.as_ref().map_or(0, |settings| settings.max_owed_messages);
        let config = FleetConfig { settings, here: place.owns(PartitionId(0)) };
        let brokers = Brokers { config, ..Brokers::default() };
        let settlement = Settlement { seen: SeenIds::for_owed(max_owed), ..Settlement::default() };
        Self { origin, brokers, settlement, ..Self::default() }
    }

    /// The number of the last message that got an id on this shard.
    pub(crate) fn last_number(&self) -> u64 {
        self.next_number
    }

    /// Timers that are set.
    pub(crate) fn timers(&self) -> usize {
        let of_former = usize::from(matches!(self.brokers.former, Former::Awaited(_)));
        of_former + self.brokers.all.values().filter(|broker_link| broker_link.timer != Millis::NEVER).count()
    }

    /// A broker has answered a message. Takes the message if its outcome is decided behind the packet, and returns whether
    /// that is so: an acknowledged message may have to return, and one that the broker has no room for goes to another.
    pub(crate) fn note_answered(&mut self, session: SessionKey, code: ReasonCode, in_flight: &mut InFlight) -> bool {
        let key = self.brokers.by_session.get(&session.0).copied();
        if let Some((key, broker_link)) = key.and_then(|key| Some((key, self.brokers.all.get_mut(&key)?))) {
            if broker_link.note_one_answered() {
                self.settlement.trusted.push(key);
            }
            if in_flight.delivery.is_none() {
                broker_link.released = broker_link.released.saturating_sub(1);
            }
        }
        let Some(delivery) = &in_flight.delivery else { return false };
        if !self.settlement.blames.is_empty()
            && let Some(id) = MessageId::at_end_of(delivery.message.properties())
        {
            self.settlement.blames.forget(&id);
        }
        if !code.is_error() {
            self.settlement.acknowledged.push((session, std::mem::take(in_flight)));
            return true;
        }
        let goes_elsewhere = matches!(code, ReasonCode::QuotaExceeded | ReasonCode::PacketTooLarge);
        if !goes_elsewhere && !self.brokers.held.is_empty() {
            self.settlement.denied.extend(MessageId::at_end_of(delivery.message.properties()));
        }
        self.settlement.refused.push(Declined { session, code, in_flight: std::mem::take(in_flight) });
        true
    }
}

impl Brokers {
    /// How many broker links there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many of them have a connection that counts as a session's.
    pub(crate) fn connected(&self) -> usize {
        self.all.values().filter(|broker_link| broker_link.stage == Stage::Open).count()
    }

    /// The broker link whose connection this is.
    #[inline]
    pub(crate) fn of_connection(&self, key: ConnectionKey) -> Option<BrokerLinkKey> {
        self.by_connection.get(&key).copied()
    }

    /// The connection of a broker link.
    pub(crate) fn connection_of(&self, key: BrokerLinkKey) -> Option<ConnectionKey> {
        self.all.get(&key)?.connection
    }

    /// Notes when the timer of a broker link is due; returns whether the link exists.
    pub(crate) fn note_timer(&mut self, key: BrokerLinkKey, due: Millis) -> bool {
        let broker_link = self.all.get_mut(&key);
        broker_link.map(|broker_link| broker_link.timer = due).is_some()
    }

    pub(crate) fn find(&self, name: &str) -> Option<BrokerLinkKey> {
        self.all.iter().find(|(_, broker_link)| &*broker_link.name == name).map(|(key, _)| *key)
    }
}

impl FleetConfig {
    /// Whether this process is an orchestrator.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.settings.is_some()
    }

    pub(crate) fn settings(&self) -> Option<&BrokerLinkSettings> {
        self.settings.as_ref()
    }

    /// Bytes of the longest packet that is taken from a broker.
    #[inline]
    pub(crate) fn max_packet_size(&self) -> u32 {
        self.settings.as_ref().map_or(u32::MAX, |settings| settings.max_packet_size)
    }

    /// Whether brokers decide on the rights of clients, since they know them: then only messages that a broker has let
    /// pass are kept or delivered.
    #[inline]
    pub(crate) fn brokers_decide(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.user.is_some())
    }
}

impl Settlement {
    /// Bytes of acknowledged messages that have not returned.
    pub(crate) fn unreturned_bytes(&self) -> u64 {
        self.unreturned_bytes
    }

    /// Whether a broker has decided about messages in the packet at hand.
    #[inline]
    pub(crate) fn has_undecided(&self) -> bool {
        self.acknowledged.len() | self.denied.len() | self.trusted.len() | self.refused.len() != 0
    }

    /// Whether messages were sent again and have not returned.
    fn awaits_resent(&self) -> bool {
        !self.resends.is_empty()
    }

    /// Whether a message was received.
    pub(crate) fn has_seen(&self, id: &MessageId) -> bool {
        self.seen.contains(id)
    }

    /// The received messages.
    pub(crate) fn seen_ids(&self) -> &SeenIds {
        &self.seen
    }

    /// The messages received so far.
    pub(crate) fn seen_now(&self) -> SeenIds {
        self.seen.clone()
    }
}

/// The client id of the broker link to a broker, in its tenant.
pub(crate) fn session_name(broker: &str) -> String {
    format!("{BROKER_LINK_PREFIX}{broker}")
}
