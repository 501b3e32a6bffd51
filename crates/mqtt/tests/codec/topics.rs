//! Valid and invalid Topic Names and Topic Filters.

use proptest::prelude::*;
use tidegate_mqtt::topic::check_levels;
use tidegate_mqtt::{MAX_TOPIC_LEN, MAX_TOPIC_LEVELS, TopicError, TopicFilter, TopicName};

fn check_name(text: &str, expected: Result<(), TopicError>) {
    let decoded = TopicName::new(text).map(TopicName::as_str);
    assert_eq!(decoded, expected.map(|()| text), "{text:?}");
    let decoded = TopicName::from_utf8(text.as_bytes()).map(TopicName::as_str);
    assert_eq!(decoded, expected.map(|()| text), "{text:?} as bytes");
}

fn check_filter(text: &str, expected: Result<(), TopicError>) {
    let decoded = TopicFilter::new(text).map(TopicFilter::as_str);
    assert_eq!(decoded, expected.map(|()| text), "{text:?}");
    let decoded = TopicFilter::from_utf8(text.as_bytes()).map(TopicFilter::as_str);
    assert_eq!(decoded, expected.map(|()| text), "{text:?} as bytes");
}

/// Text that is both: wildcards aside, the rules are the same.
const PLAIN: [&str; 11] = [
    "a",
    "/",
    "//",
    "/a",
    "a/",
    "a//b",
    "sport/tennis/player1",
    " ",
    "with space/\u{E9}\u{10FFFF}",
    "$SYS/broker",
    "$",
];

#[test]
fn plain_text_is_both() {
    for text in PLAIN {
        check_name(text, Ok(()));
        check_filter(text, Ok(()));
    }
}

/// [MQTT-4.7.3-1].
#[test]
fn there_is_at_least_one_character() {
    check_name("", Err(TopicError::Empty));
    check_filter("", Err(TopicError::Empty));
}

/// [MQTT-4.7.3-2].
#[test]
fn the_null_character_is_in_neither() {
    for text in ["\0", "a\0", "\0/a", "a/\0/b"] {
        check_name(text, Err(TopicError::Null));
        check_filter(text, Err(TopicError::Null));
    }
}

/// [MQTT-4.7.3-3].
#[test]
fn there_are_at_most_65_535_bytes() {
    let longest = "x".repeat(MAX_TOPIC_LEN);
    check_name(&longest, Ok(()));
    check_filter(&longest, Ok(()));
    let longer = "x".repeat(MAX_TOPIC_LEN + 1);
    check_name(&longer, Err(TopicError::TooLong));
    check_filter(&longer, Err(TopicError::TooLong));
    let characters = "\u{E9}".repeat(MAX_TOPIC_LEN / 2 + 1);
    check_name(&characters, Err(TopicError::TooLong));
}

/// [MQTT-1.5.4-1], [MQTT-3.8.3-1], [MQTT-3.10.3-1].
#[test]
fn bytes_must_be_utf_8() {
    for bytes in [&b"\xff"[..], b"a/\xed\xa0\x80", b"\xc0\x80"] {
        assert_eq!(TopicName::from_utf8(bytes), Err(TopicError::IllFormed));
        assert_eq!(TopicFilter::from_utf8(bytes), Err(TopicError::IllFormed));
    }
}

/// [MQTT-3.3.2-2], [MQTT-4.7.0-1].
#[test]
fn a_name_has_no_wildcard() {
    for text in ["#", "+", "a/#", "a/+/b", "a+", "#a", "sport/tennis#"] {
        check_name(text, Err(TopicError::Wildcard));
    }
}

/// [MQTT-4.7.1-1].
#[test]
fn a_hash_stands_alone_in_the_last_level() {
    for text in ["#", "/#", "a/#", "a//#", "+/#", "+/+/#", "$SYS/#"] {
        check_filter(text, Ok(()));
    }
    for text in ["a#", "#a", "##", "#/", "#/a", "a/#/b", "a/#b", "a/b#", "+#", "/#/"] {
        check_filter(text, Err(TopicError::MisplacedMultiLevelWildcard));
    }
}

/// [MQTT-4.7.1-2].
#[test]
fn a_plus_stands_alone_in_its_level() {
    for text in ["+", "/+", "+/", "+/+", "a/+", "+/a", "a/+/b", "+/#", "+//+"] {
        check_filter(text, Ok(()));
    }
    for text in ["a+", "+a", "++", "a/b+", "+a/b", "a/+b/c", "a+/#"] {
        check_filter(text, Err(TopicError::MisplacedSingleLevelWildcard));
    }
}

#[test]
fn a_shared_filter_has_a_group_and_a_filter() {
    for (text, group, filter) in [
        ("$share/g/a", "g", "a"),
        ("$share/g/a/b", "g", "a/b"),
        ("$share/g//", "g", "/"),
        ("$share/g/#", "g", "#"),
        ("$share/g/+/a/#", "g", "+/a/#"),
        ("$share/group 1/$SYS/#", "group 1", "$SYS/#"),
        ("$share/$share/a", "$share", "a"),
        ("$share/a/a", "a", "a"),
    ] {
        let whole = TopicFilter::new(text).expect(text);
        let (name, proper) = whole.shared().expect(text);
        assert_eq!((name, proper.as_str()), (group, filter), "{text}");
        assert_eq!(whole.proper(), proper, "{text}");
        assert_eq!(proper.shared(), None, "{text}");
        assert_eq!(TopicFilter::new(filter), Ok(proper), "{text}: as if it stood alone");
        let levels: Vec<&str> = filter.split('/').collect();
        assert_eq!(whole.levels().collect::<Vec<_>>(), levels, "{text}");
    }
}

/// [MQTT-4.8.2-1], [MQTT-4.8.2-2].
#[test]
fn malformed_shared_filters() {
    for (text, error) in [
        ("$share", TopicError::EmptyShareName),
        ("$share/g/$share", TopicError::NestedShare),
        ("$share/", TopicError::EmptyShareName),
        ("$share//", TopicError::EmptyShareName),
        ("$share//a", TopicError::EmptyShareName),
        ("$share/g", TopicError::MissingSharedFilter),
        ("$share/g/", TopicError::MissingSharedFilter),
        ("$share/+/a", TopicError::WildcardInShareName),
        ("$share/#/a", TopicError::WildcardInShareName),
        ("$share/g+/a", TopicError::WildcardInShareName),
        ("$share/#", TopicError::WildcardInShareName),
        ("$share/g/$share/h/a", TopicError::NestedShare),
        ("$share/g/a#", TopicError::MisplacedMultiLevelWildcard),
        ("$share/g/a+", TopicError::MisplacedSingleLevelWildcard),
    ] {
        check_filter(text, Err(error));
    }
}

#[test]
fn a_filter_that_only_looks_shared_is_not() {
    for text in ["$shared/g/a", "$SHARE/g/a", "share/g/a", "/$share/g/a"] {
        let filter = TopicFilter::new(text).expect(text);
        assert_eq!(filter.shared(), None, "{text}");
        assert_eq!(filter.proper(), filter, "{text}");
    }
}

#[test]
fn wildcards_are_found_behind_the_share_name() {
    for (text, expected) in
        [("a/b", false), ("+", true), ("a/#", true), ("a/+/b", true), ("$share/g/a", false), ("$share/g/#", true)]
    {
        assert_eq!(TopicFilter::new(text).unwrap().has_wildcards(), expected, "{text}");
    }
}

#[test]
fn levels_may_be_empty() {
    let levels = |text| TopicName::new(text).unwrap().levels().collect::<Vec<_>>();
    assert_eq!(levels("a"), ["a"]);
    assert_eq!(levels("/"), ["", ""]);
    assert_eq!(levels("a//b/"), ["a", "", "b", ""]);
}

#[test]
fn the_limit_of_levels_is_not_part_of_validity() {
    let most = vec!["l"; MAX_TOPIC_LEVELS].join("/");
    assert_eq!(check_levels(&most), Ok(()));
    let more = format!("{most}/");
    assert_eq!(check_levels(&more), Err(TopicError::TooManyLevels));
    check_name(&more, Ok(()));
    check_filter(&more, Ok(()));
    assert!(TopicError::TooManyLevels.to_string().contains(&MAX_TOPIC_LEVELS.to_string()));
}

#[test]
fn display_is_the_text() {
    assert_eq!(TopicName::new("a/b").unwrap().to_string(), "a/b");
    let filter = TopicFilter::new("$share/g/+").unwrap();
    assert_eq!(filter.to_string(), "$share/g/+");
}

/// The rules once more, as the specification words them and without regard to speed.
fn reference_filter(text: &str) -> bool {
    if text.is_empty() || text.len() > 65_535 || text.contains('\0') {
        return false;
    }
    let mut levels: Vec<&str> = text.split('/').collect();
    if levels[0] == "$share" {
        let rest = levels.get(2..).unwrap_or_default().to_vec();
        let group = levels.get(1).copied().unwrap_or_default();
        let empty = rest.is_empty() || rest == [""];
        let nested = rest.first() == Some(&"$share");
        if group.is_empty() || group.contains('+') || group.contains('#') || empty || nested {
            return false;
        }
        levels = rest;
    }
    let last = levels.len() - 1;
    levels.iter().enumerate().all(|(index, level)| {
        let hash = !level.contains('#') || (*level == "#" && index == last);
        hash && (!level.contains('+') || *level == "+")
    })
}

proptest! {
    #[test]
    fn filters_agree_with_the_reference(text in "(\\$share/)?[a+#/$\0]{0,8}") {
        prop_assert_eq!(TopicFilter::new(&text).is_ok(), reference_filter(&text));
    }

    #[test]
    fn names_are_filters_without_wildcards(text in "[a+#/$\0]{0,8}") {
        let valid = !text.is_empty() && !text.contains(['+', '#', '\0']);
        prop_assert_eq!(TopicName::new(&text).is_ok(), valid);
    }

    #[test]
    fn arbitrary_bytes_are_judged(bytes in prop::collection::vec(any::<u8>(), 0..32)) {
        let text = std::str::from_utf8(&bytes).ok();
        prop_assert_eq!(TopicName::from_utf8(&bytes).ok(), text.and_then(|text| TopicName::new(text).ok()));
        prop_assert_eq!(TopicFilter::from_utf8(&bytes).ok(), text.and_then(|text| TopicFilter::new(text).ok()));
    }
}
