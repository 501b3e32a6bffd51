//! Filters as sets of topics, against a count of all topics of a small alphabet.

use proptest::prelude::*;
use tidegate_acl::{covers, overlaps};
use tidegate_mqtt::{TopicFilter, TopicName};

/// Levels of topics. No filter contains `z`, so it represents all levels that no filter names; `$` begins a level that
/// leading wildcards do not match.
const LEVELS: [&str; 5] = ["a", "b", "", "$s", "z"];

/// Levels beyond the deepest filter that is tried.
const DEPTH: usize = 5;

fn topics() -> Vec<String> {
    let mut all: Vec<Vec<&str>> = LEVELS.iter().map(|level| vec![*level]).collect();
    let mut from = 0;
    for _ in 1..DEPTH {
        let until = all.len();
        for place in from..until {
            for level in LEVELS {
                let mut longer = all[place].clone();
                longer.push(level);
                all.push(longer);
            }
        }
        from = until;
    }
    all.into_iter().map(|levels| levels.join("/")).collect()
}

fn matching(filter: &str, topics: &[String]) -> Vec<bool> {
    let filter = TopicFilter::new(filter).unwrap();
    let matches = |topic: &String| match TopicName::new(topic) {
        Ok(topic) => filter.matches(topic),
        // No topic is empty; that filters are compared as if one were makes no rule wider.
        Err(_) => ["#", "+", "+/#", "/#"].contains(&filter.as_str()),
    };
    topics.iter().map(matches).collect()
}

fn filter() -> impl Strategy<Value = String> {
    let level = prop::sample::select(vec!["a", "b", "", "$s", "+"]);
    (prop::collection::vec(level, 0..=3), any::<bool>())
        .prop_map(|(mut levels, all)| {
            if all || levels.is_empty() {
                levels.push("#");
            }
            levels.join("/")
        })
        .prop_filter("no filter is empty", |text| !text.is_empty())
}

proptest! {
    #[test]
    fn covering_and_overlapping_agree_with_all_topics(one in filter(), other in filter()) {
        let topics = topics();
        let (ones, others) = (matching(&one, &topics), matching(&other, &topics));
        let covered = others.iter().zip(&ones).all(|(theirs, ours)| !theirs || *ours);
        prop_assert_eq!(covers(&one, &other), covered, "{} covers {}", one, other);
        let shared = ones.iter().zip(&others).any(|(ours, theirs)| *ours && *theirs);
        prop_assert_eq!(overlaps(&one, &other), shared, "{} overlaps {}", one, other);
    }
}

#[test]
fn a_rule_with_all_below_covers_its_parent_and_no_system_topics() {
    assert!(covers("a/#", "a"));
    assert!(covers("a/#", "a/+/#"));
    assert!(covers("#", "+/#") && covers("+/#", "#"));
    assert!(!covers("a/+/#", "a/#"));
    assert!(!covers("#", "$SYS/#"));
    assert!(!covers("+/a", "$SYS/a"));
    assert!(!covers("a/+", "a/#"));
    assert!(!overlaps("#", "$SYS/#"));
    assert!(overlaps("$SYS/#", "$SYS/+/x"));
}
