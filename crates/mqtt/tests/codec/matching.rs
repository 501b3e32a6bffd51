//! Matches of Topic Filters and Topic Names.

use proptest::prelude::*;
use tidegate_mqtt::{TopicFilter, TopicName};

use crate::check::{filter, name};

fn check(text: &str, matching: &[&str], others: &[&str]) {
    for &topic in matching {
        assert!(filter(text).matches(name(topic)), "{text} matches {topic}");
    }
    for &topic in others {
        let matches = filter(text).matches(name(topic));
        assert!(!matches, "{text} does not match {topic}");
    }
}

#[test]
fn without_wildcards_they_are_equal() {
    check("a/b", &["a/b"], &["a", "a/b/", "/a/b", "a/B", "a/b/c", "a/bb"]);
    check("/", &["/"], &["//", "a", "a/", "/a"]);
    check("a/", &["a/"], &["a", "a//", "a/b"]);
}

/// Section 4.7.1.2.
#[test]
fn a_hash_matches_the_parent_and_all_below() {
    let below = ["sport/tennis", "sport/tennis/player1", "sport/tennis/player1/ranking", "sport/tennis/"];
    check("sport/tennis/#", &below, &["sport", "sport/tennisx", "sport/"]);
    check("#", &["a", "/", "a/b/c", "/a", "//"], &[]);
    check("/#", &["/", "/a", "/a/b"], &["a", "a/b"]);
    check("a//#", &["a/", "a//", "a//b"], &["a", "a/b"]);
}

/// Section 4.7.1.3.
#[test]
fn a_plus_matches_one_level() {
    check("sport/+", &["sport/", "sport/tennis"], &["sport", "sport/tennis/player1", "x/y"]);
    check("+", &["finance"], &["/finance", "a/b", "/"]);
    check("/+", &["/finance", "/"], &["finance", "//"]);
    check("+/+", &["/finance", "a/b", "/"], &["a", "a/b/c"]);
    check("a/+/c", &["a/b/c", "a//c"], &["a/c", "a/b/b/c"]);
    check("+/b/#", &["a/b", "a/b/c/d", "/b"], &["b", "a/c", "a/a/b"]);
    check("a/+/#", &["a/", "a/b", "a/b/c"], &["a", "b/a"]);
}

/// [MQTT-4.7.2-1].
#[test]
fn a_wildcard_at_the_start_does_not_match_a_dollar() {
    check("#", &[], &["$SYS", "$SYS/a", "$"]);
    check("+/a", &[], &["$SYS/a", "$/a"]);
    check("+", &[], &["$SYS", "$"]);
    check("$SYS/#", &["$SYS", "$SYS/a", "$SYS/a/b"], &["SYS/a"]);
    check("$SYS/+", &["$SYS/a"], &["$SYS", "$SYS/a/b"]);
    check("a/+", &["a/$b"], &[]);
    check("#", &["a/$SYS", "/$SYS"], &[]);
}

/// [MQTT-4.7.3-4].
#[test]
fn nothing_is_normalised() {
    check("\u{E9}", &["\u{E9}"], &["e\u{301}", "E\u{301}"]);
    check("a b", &["a b"], &["a  b", "ab"]);
    check("ACCOUNTS", &["ACCOUNTS"], &["Accounts"]);
}

#[test]
fn a_shared_filter_matches_by_its_filter_proper() {
    check("$share/g/a/#", &["a", "a/b"], &["$share/g/a", "b"]);
    check("$share/g/#", &["a"], &["$SYS/a"]);
}

/// Matching as section 4.7 words it, by recursion over the levels.
fn reference(filter: &[&str], topic: &[&str]) -> bool {
    match (filter, topic) {
        (["#"], _) | ([], []) => true,
        (["+", filter @ ..], [_, topic @ ..]) => reference(filter, topic),
        ([wanted, filter @ ..], [level, topic @ ..]) => wanted == level && reference(filter, topic),
        _ => false,
    }
}

fn reference_matches(filter: &str, topic: &str) -> bool {
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let filter: Vec<&str> = filter.split('/').collect();
    let topic: Vec<&str> = topic.split('/').collect();
    reference(&filter, &topic)
}

fn filter_text() -> impl Strategy<Value = String> {
    let level = prop_oneof![3 => "[ab$]{0,1}", 2 => Just("+".to_owned())];
    (prop::collection::vec(level, 0..4), any::<bool>()).prop_map(|(mut levels, hash)| {
        if hash {
            levels.push("#".to_owned());
        }
        levels.join("/")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn it_agrees_with_the_reference(filter in filter_text(), topic in "[ab$/]{1,7}") {
        let Ok(parsed) = TopicFilter::new(&filter) else {
            return Ok(());
        };
        let topic_name = TopicName::new(&topic).unwrap();
        prop_assert_eq!(parsed.matches(topic_name), reference_matches(&filter, &topic));
    }

    #[test]
    fn a_name_matches_itself_and_the_filters_made_from_it(
        topic in "[ab$/]{1,7}",
        replaced in any::<prop::sample::Index>(),
    ) {
        let topic_name = TopicName::new(&topic).unwrap();
        prop_assert!(TopicFilter::new(&topic).unwrap().matches(topic_name));
        let mut levels: Vec<&str> = topic.split('/').collect();
        let index = replaced.index(levels.len());
        let escapes = index == 0 && topic.starts_with('$');
        levels[index] = "+";
        let plus = levels.join("/");
        prop_assert_eq!(TopicFilter::new(&plus).unwrap().matches(topic_name), !escapes);
        levels[index] = "#";
        let hash = levels[..=index].join("/");
        prop_assert_eq!(TopicFilter::new(&hash).unwrap().matches(topic_name), !escapes);
    }
}
