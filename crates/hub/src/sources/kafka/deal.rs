//! Deals the partitions of topics to the members of a group that read them.

use std::collections::{BTreeMap, BTreeSet};

use super::wire::{Assignment, Subscriber};

/// The topics that members read.
pub(super) fn topics(members: &[Subscriber]) -> BTreeSet<String> {
    members.iter().flat_map(|member| member.topics.iter().cloned()).collect()
}

/// Deals partitions as Kafka's own consumers deal ranges: each topic to the members that read it, in the order of their
/// names, and the first members get one more. Each member has an entry.
pub(super) fn deal(members: &[Subscriber], partitions: &BTreeMap<String, Vec<i32>>) -> Vec<Assignment> {
    let mut dealt: BTreeMap<&str, Vec<(String, Vec<i32>)>> =
        members.iter().map(|member| (member.id.as_str(), Vec::new())).collect();
    for (topic, partitions) in partitions {
        let reads = |member: &&Subscriber| member.topics.contains(topic);
        let readers: BTreeSet<&str> = members.iter().filter(reads).map(|member| member.id.as_str()).collect();
        let count = readers.len().max(1);
        let (each, more) = (partitions.len() / count, partitions.len() % count);
        let mut left = partitions.iter().copied();
        for (place, reader) in readers.into_iter().enumerate() {
            let share: Vec<i32> = left.by_ref().take(each + usize::from(place < more)).collect();
            if !share.is_empty() {
                dealt.entry(reader).or_default().push((topic.clone(), share));
            }
        }
    }
    dealt.into_iter().map(|(member, topics)| Assignment { member: member.to_owned(), topics }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscriber(id: &str, topics: &[&str]) -> Subscriber {
        Subscriber { id: id.to_owned(), topics: topics.iter().map(ToString::to_string).collect() }
    }

    /// A member and its partitions, by topic.
    type Dealt = (String, Vec<(String, Vec<i32>)>);

    fn dealt(members: &[Subscriber], partitions: &[(&str, i32)]) -> Vec<Dealt> {
        let partitions = partitions.iter().map(|(topic, count)| ((*topic).to_owned(), (0..*count).collect())).collect();
        deal(members, &partitions).into_iter().map(|one| (one.member, one.topics)).collect()
    }

    #[test]
    fn members_get_ranges_of_the_partitions() {
        let members = [subscriber("b", &["t"]), subscriber("a", &["t"])];
        let of = |partitions: &[i32]| vec![("t".to_owned(), partitions.to_vec())];
        assert_eq!(dealt(&members, &[("t", 5)]), [("a".to_owned(), of(&[0, 1, 2])), ("b".to_owned(), of(&[3, 4]))]);
        assert_eq!(dealt(&members, &[("t", 1)]), [("a".to_owned(), of(&[0])), ("b".to_owned(), vec![])]);
    }

    #[test]
    fn each_topic_is_dealt_to_the_members_that_read_it() {
        let members = [subscriber("a", &["orders"]), subscriber("b", &["alarms"]), subscriber("c", &["alarms"])];
        let of = |topic: &str, partitions: &[i32]| vec![(topic.to_owned(), partitions.to_vec())];
        let expected = [
            ("a".to_owned(), of("orders", &[0, 1, 2])),
            ("b".to_owned(), of("alarms", &[0, 1])),
            ("c".to_owned(), of("alarms", &[2])),
        ];
        assert_eq!(dealt(&members, &[("orders", 3), ("alarms", 3)]), expected);
        assert_eq!(topics(&members).len(), 2);
    }
}
