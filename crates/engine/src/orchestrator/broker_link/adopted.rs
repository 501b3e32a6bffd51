//! Connections of dead orchestrators that this one continues.

use std::collections::{BTreeMap, VecDeque};

use super::{BrokerLink, Brokers};
use crate::ids::BrokerLinkKey;
use crate::link::envelope::Ticket;

/// Bytes noted for other members and not taken. Beyond it the connection ends, and the broker keeps the messages
/// that are not acknowledged.
const NOTED_MAX_BYTES: usize = 64 * 1024 * 1024;

/// An entry that waits until other members have a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Awaiting {
    /// The acknowledgement of a message that a broker has brought.
    Answer(Ticket),
    /// A message in the store that no broker brings again, by its number.
    Copy(u64),
}

/// The state of a dead orchestrator.
#[derive(Debug)]
pub(crate) struct Adopted {
    /// Its client id at the broker.
    pub(crate) client_id: String,
    /// By which its partitions were taken over: further ones when another home of theirs has died before it had them.
    pub(crate) transfers: Vec<u64>,
    /// Whether an earlier life of this process had taken it over.
    pub(crate) is_resumed: bool,
    /// The orchestrator is back, and continues the session at the broker when this connection ends.
    pub(crate) is_handed_back: bool,
    /// Messages that the broker has brought, for the members that have taken over the other partitions.
    pub(crate) for_members: Vec<u8>,
    /// The same for the new homes of partitions that had left the dead one, with messages that the dead one had taken;
    /// `None` where it had forwarded all.
    pub(crate) for_left: Option<Vec<u8>>,
    /// Messages that had come before, for sessions of other shards that were taken over.
    pub(crate) for_shards: Vec<u8>,
    /// Entries that wait until other members have the messages, in the order of the messages.
    pub(crate) unanswered: VecDeque<Awaiting>,
}

impl Adopted {
    pub(crate) fn new(client_id: String, transfer: u64, forwards: bool, is_resumed: bool) -> Self {
        let (for_members, for_shards, unanswered) = (Vec::new(), Vec::new(), VecDeque::new());
        let for_left = forwards.then(Vec::new);
        let transfers = vec![transfer];
        let is_handed_back = false;
        Self { client_id, transfers, is_resumed, is_handed_back, for_members, for_left, for_shards, unanswered }
    }

    /// True if so much waits for other members that the broker has to keep its messages.
    pub(crate) fn is_full(&self) -> bool {
        self.for_members.len().max(self.for_left.as_ref().map_or(0, Vec::len)) > NOTED_MAX_BYTES
    }
}

/// The state of a connection that this process has adopted from a dead orchestrator.
pub(crate) fn adopted_of(all: &mut BTreeMap<BrokerLinkKey, BrokerLink>, key: BrokerLinkKey) -> Option<&mut Adopted> {
    all.get_mut(&key)?.adopted.as_deref_mut()
}

impl Brokers {
    /// The state of the dead orchestrator to which the connection of this name belongs.
    pub(crate) fn adopted_named(&mut self, name: &str) -> Option<&mut Option<Box<Adopted>>> {
        let key = self.find(name)?;
        self.all.get_mut(&key).map(|broker_link| &mut broker_link.adopted)
    }
}

/// Whether there is a broker that gets messages of clients.
pub(crate) fn has_active(all: &BTreeMap<BrokerLinkKey, BrokerLink>) -> bool {
    all.values().any(|broker_link| broker_link.draining.is_none())
}

/// The connections to a broker: that of this process, and connections of dead orchestrators.
pub(crate) fn links_to(all: &BTreeMap<BrokerLinkKey, BrokerLink>, broker: &str) -> Vec<BrokerLinkKey> {
    let is_of = |name: &str| name == broker || name.rsplit_once('@').is_some_and(|(of, _)| of == broker);
    all.iter().filter(|(_, broker_link)| is_of(&broker_link.name)).map(|(key, _)| *key).collect()
}

/// The broker link whose session keeps the ids of messages that this one brings. The ids of the connection of a dead
/// orchestrator outlast it with the connection of this process to the same broker, which brings them as well, or with that to
/// another broker while the former one waits.
pub(crate) fn keeper_of(all: &BTreeMap<BrokerLinkKey, BrokerLink>, key: BrokerLinkKey) -> BrokerLinkKey {
    let broker_link = all.get(&key).filter(|broker_link| broker_link.adopted.is_some());
    let Some((broker, _)) = broker_link.and_then(|broker_link| broker_link.name.rsplit_once('@')) else { return key };
    let mut own = all.iter().filter(|(_, it)| it.adopted.is_none() && it.draining.is_none());
    let same = own.clone().find(|(_, it)| &*it.name == broker);
    same.or_else(|| own.next()).map_or(key, |(own, _)| *own)
}
