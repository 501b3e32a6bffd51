//! The orchestrator of each partition, as one engine sees it (BRK-27).
//!
//! Without a table every partition is at home here. With one, a client whose partition is served elsewhere is
//! redirected or relayed there. A client whose partition no orchestrator may serve at the moment (it moves, or its
//! lease has run out) is refused.

use crate::ids::{PARTITIONS, PartitionId, SessionKey, ShardId, ShardPosition, partition_of};
use crate::now::{Millis, Now};
use crate::state::ShardState;
use crate::topics::is_own_topic;

/// The place that serves the clients of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In this process.
    Here,
    /// At another place, by its number in [`Homes::references`].
    At(u16),
    /// Nowhere at the moment: the partition moves.
    Nowhere,
}

/// A table of homes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Homes {
    /// The home of each partition.
    pub homes: [Home; PARTITIONS as usize],
    /// The Server Reference of each place, for MQTT 5 clients.
    pub references: Vec<String>,
    /// True if MQTT 5 clients are redirected to their home (0x9C); otherwise their bytes are relayed there.
    pub redirect: bool,
    /// When the lease ends: nothing is at home here from then on. [`Millis::NEVER`] for none.
    pub lease_until: Millis,
    /// How long clients stay connected behind the end of the lease until another table says who serves them. Nothing
    /// but pings is answered meanwhile. Milliseconds; 0 ends their connections with the lease.
    pub patience_ms: u64,
}

impl Homes {
    /// Whether no partition has a home: the process is no member of its cluster yet.
    pub(crate) fn are_nowhere(&self) -> bool {
        self.homes.iter().all(|home| *home == Home::Nowhere)
    }

    fn of(&self, partition: PartitionId) -> Home {
        self.homes.get(usize::from(partition.0)).copied().unwrap_or(Home::Nowhere)
    }
}

/// The table in force, if there is one.
#[derive(Debug, Default)]
pub(crate) struct HomesInForce {
    pub(crate) table: Option<Box<Homes>>,
    /// The lease has run out.
    pub(crate) ended: bool,
    /// Until when clients wait for the next table, then.
    pub(crate) patient_until: Millis,
}

impl HomesInForce {
    /// Whether retained values have versions: where several nodes may keep one of the same topic.
    pub(crate) fn keep_versions(&self, topic: &str) -> bool {
        !self.are_everywhere() && !is_own_topic(topic)
    }

    /// The home of a partition.
    #[inline]
    pub(crate) fn of(&self, partition: PartitionId) -> Home {
        match &self.table {
            None => Home::Here,
            Some(table) => match table.of(partition) {
                Home::Here if self.ended => Home::Nowhere,
                home => home,
            },
        }
    }

    /// Whether there is no table, so that every partition is served here.
    pub(crate) fn are_everywhere(&self) -> bool {
        self.table.is_none()
    }

    /// Whether the lease on the table has ended.
    pub(crate) fn have_ended(&self) -> bool {
        self.ended
    }

    /// The home of a partition as soon as there is a lease.
    pub(crate) fn meant(&self, partition: PartitionId) -> Home {
        self.table.as_ref().map_or(Home::Here, |table| table.of(partition))
    }

    /// Whether the lease has run out and clients wait for the next table.
    pub(crate) fn is_patient(&self, now: Now) -> bool {
        self.ended && self.patient_until > now.monotonic
    }

    /// A place that serves some partition, for clients without a home.
    pub(crate) fn any_place(&self) -> Option<u16> {
        let table = self.table.as_ref()?;
        table.homes.iter().find_map(|home| if let Home::At(place) = home { Some(*place) } else { None })
    }

    pub(crate) fn reference(&self, place: u16) -> Option<String> {
        self.table.as_ref()?.references.get(usize::from(place)).filter(|text| !text.is_empty()).cloned()
    }
}

impl HomesInForce {
    /// The home of a partition.
    #[inline]
    pub(crate) fn home_of(&self, state: &ShardState, partition: PartitionId) -> Home {
        match self.of(partition) {
            Home::Here if state.moving.has(partition) => Home::Nowhere,
            home => home,
        }
    }

    /// The Server Reference for a connection whose client has another home.
    pub(crate) fn reference_of_home(&self, state: &ShardState, session: Option<SessionKey>) -> Option<String> {
        let session = state.sessions.get(session?.0)?;
        match self.home_of(state, partition_of(session.tenant, &session.client_id)) {
            Home::At(place) => self.reference(place),
            Home::Here | Home::Nowhere => None,
        }
    }

    /// A shard that can name a client: this one where it works a partition that is at home here.
    pub(crate) fn naming_shard(&self, place: ShardPosition, state: &ShardState) -> Option<ShardId> {
        let here = || PartitionId::all().filter(|partition| self.home_of(state, *partition) == Home::Here);
        let own = here().any(|partition| place.owns(partition));
        if own { Some(place.shard) } else { here().next().map(|partition| place.home_of(partition)) }
    }
}
