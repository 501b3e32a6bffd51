//! Topic aliases of one connection: set by the client, and set by the server.

use std::num::NonZeroU16;

use hashbrown::HashTable;

use crate::hash::hash_bytes;

/// Topics by the aliases that a client has set (MQTT 5, 3.3.2.3.4). Without aliases it owns no heap.
///
/// Its memory follows the number of aliases set, not the highest one; the listener's maximum bounds it.
#[derive(Debug, Default)]
pub(crate) struct InboundAliases {
    /// In the order of aliases.
    entries: Vec<(NonZeroU16, Box<str>)>,
    /// Bytes of all topics.
    bytes: u64,
}

impl InboundAliases {
    /// Sets `alias` to `topic`. Returns false, and does nothing, if it is above `maximum` ([MQTT-3.3.2-9]).
    #[inline]
    pub(crate) fn set(&mut self, alias: NonZeroU16, topic: &str, maximum: u16) -> bool {
        if alias.get() > maximum {
            return false;
        }
        match self.find(alias) {
            Ok(place) => {
                let known = &mut self.entries[place].1;
                if **known != *topic {
                    self.bytes -= known.len() as u64;
                    self.bytes += topic.len() as u64;
                    *known = topic.into();
                }
            }
            Err(place) => {
                self.bytes += topic.len() as u64;
                self.entries.insert(place, (alias, topic.into()));
            }
        }
        true
    }

    /// The topic of `alias`.
    #[inline]
    pub(crate) fn get(&self, alias: NonZeroU16) -> Option<&str> {
        let place = self.find(alias).ok()?;
        self.entries.get(place).map(|entry| &*entry.1)
    }

    /// All aliases and their topics, in the order of aliases.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NonZeroU16, &str)> {
        self.entries.iter().map(|(alias, topic)| (*alias, &**topic))
    }

    /// Bytes of all topics that have an alias.
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the client has set none.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of aliases set.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of heap held.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        let topics: usize = self.entries.iter().map(|entry| entry.1.len()).sum();
        self.entries.capacity() * size_of::<(NonZeroU16, Box<str>)>() + topics
    }

    /// The index of `alias`, or the index at which to insert it. Most clients use aliases from 1 on without gaps.
    #[inline]
    fn find(&self, alias: NonZeroU16) -> Result<usize, usize> {
        let dense = usize::from(alias.get() - 1);
        if self.entries.get(dense).is_some_and(|entry| entry.0 == alias) {
            return Ok(dense);
        }
        self.entries.binary_search_by_key(&alias, |entry| entry.0)
    }
}

/// Topics that the server has given an alias towards a client. The first topics get one, and keep it until the
/// connection ends. Without aliases it owns no heap.
#[derive(Debug, Default)]
pub(crate) struct OutboundAliases {
    maximum: u16,
    used: Option<Box<Used>>,
}

#[derive(Debug, Default)]
struct Used {
    /// The topic of alias 1 comes first.
    topics: Vec<Box<str>>,
    /// Places in `topics` by the hash of the topic.
    places: HashTable<u16>,
}

/// Longer topics, in bytes, get no alias, which bounds the memory of a connection by its number of aliases.
const TOPIC_LEN_MAX: usize = 1024;

/// How a message names its topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outbound {
    /// By topic and alias: this message sets the alias at the client.
    New(NonZeroU16),
    /// By the alias alone.
    Known(NonZeroU16),
}

impl OutboundAliases {
    /// No alias yet, and never more than `maximum`: the lower of the client's Topic Alias Maximum and the server's own.
    pub(crate) fn new(maximum: u16) -> Self {
        Self { maximum, used: None }
    }

    /// The alias for a message that is being sent to `topic`; `None` when the topic has none and gets none. A new alias
    /// counts as sent, so that the message has to be sent.
    #[inline]
    pub(crate) fn choose(&mut self, topic: &str) -> Option<Outbound> {
        if self.maximum == 0 || topic.len() > TOPIC_LEN_MAX {
            return None;
        }
        let used = self.used.get_or_insert_default();
        let hash = hash_bytes(0, topic.as_bytes());
        let known = used.places.find(hash, |place| *used.topics[usize::from(*place)] == *topic);
        if let Some(place) = known {
            return NonZeroU16::new(place + 1).map(Outbound::Known);
        }
        if used.topics.len() >= usize::from(self.maximum) {
            return None;
        }
        let place = used.topics.len() as u16;
        used.topics.push(topic.into());
        let topics = &used.topics;
        used.places.insert_unique(hash, place, |place| hash_bytes(0, topics[usize::from(*place)].as_bytes()));
        NonZeroU16::new(place + 1).map(Outbound::New)
    }

    /// Number of aliases that may be given.
    pub(crate) fn maximum(&self) -> u16 {
        self.maximum
    }

    /// Whether the client wants none.
    pub(crate) fn is_off(&self) -> bool {
        self.maximum == 0
    }

    /// Number of aliases given.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.used.as_ref().map_or(0, |used| used.topics.len())
    }
}

#[cfg(test)]
mod tests;
