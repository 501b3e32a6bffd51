//! The newest retained values that brokers have brought for topics at home elsewhere: at another shard, or at another
//! member. A message that is sent again to a broker must not replace them there.

use std::collections::{BTreeMap, VecDeque};

/// Topics that are remembered, at most; the first noted ones are forgotten.
const TOPICS_MAX: usize = 1_024;

/// When the newest known value of each topic entered, by the hash of the topic.
#[derive(Debug, Default)]
pub(crate) struct NewestBrought {
    entered: BTreeMap<u64, (u64, u64)>,
    order: VecDeque<u64>,
}

impl NewestBrought {
    /// A broker has brought a value that entered at this time, with this number.
    pub(crate) fn note(&mut self, topic: &str, entered: (u64, u64)) {
        let topic = hash_of(topic);
        if let Some(newest) = self.entered.get_mut(&topic) {
            *newest = entered.max(*newest);
            return;
        }
        self.entered.insert(topic, entered);
        self.order.push_back(topic);
        if self.order.len() > TOPICS_MAX
            && let Some(first) = self.order.pop_front()
        {
            self.entered.remove(&first);
        }
    }

    /// When the newest known value of a topic entered.
    pub(crate) fn of(&self, topic: &str) -> Option<&(u64, u64)> {
        self.entered.get(&hash_of(topic))
    }
}

fn hash_of(topic: &str) -> u64 {
    crate::hash::hash_bytes(0, topic.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_values_have_a_limit() {
        let mut newest = NewestBrought::default();
        for entered in [(2, 1), (1, 9), (2, 0)] {
            newest.note("t", entered);
        }
        assert_eq!(newest.of("t"), Some(&(2, 1)));
        (1..TOPICS_MAX as u64).for_each(|number| newest.note(&number.to_string(), (3, number)));
        assert_eq!((newest.of("t"), newest.of("u")), (Some(&(2, 1)), None));
        newest.note("u", (4, 0));
        assert_eq!((newest.of("t"), newest.of("u")), (None, Some(&(4, 0))));
        assert_eq!(newest.entered.len(), TOPICS_MAX);
    }
}
