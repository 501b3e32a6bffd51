//! Mosquitto's acl file.

use std::fmt::Write;

use tidegate_acl::{DecidedBy, Effect, LoadError, RulesBuilder};

use crate::{allowed, client, decide, mosquitto, publish, user};

const FILE: &str = "\
# A comment
topic read public/#
topic write inbox

user alice
topic alice/#
topic deny alice/secret/#
topic read with spaces/#
user bob smith
topic readwrite bob
user alice
topic write later
pattern write sensors/%u/%c
pattern deny sensors/+/blocked
pattern read all
";

const REQUESTS: [&str; 12] = [
    "p inbox",
    "r public/x",
    "s public/#",
    "p public/x",
    "p alice/x",
    "p alice/secret/x",
    "s alice/#",
    "r with spaces/x",
    "p bob",
    "p later",
    "p sensors/alice/c",
    "r all",
];

#[test]
fn each_client_has_its_section_and_the_patterns() {
    let rules = mosquitto(FILE);
    assert_eq!(allowed(&rules, &client("c"), &REQUESTS), "p inbox, r public/x, s public/#, r all");
    let alice = "p alice/x, s alice/#~, r with spaces/x, p later, p sensors/alice/c, r all";
    assert_eq!(allowed(&rules, &user("alice", "c"), &REQUESTS), alice);
    assert_eq!(allowed(&rules, &user("bob smith", "c"), &REQUESTS), "p bob, r all");
    assert_eq!(allowed(&rules, &user("carol", "c"), &REQUESTS), "r all");
}

#[test]
fn denials_come_first_and_a_section_before_the_patterns() {
    let rules = mosquitto("user u\ntopic a/#\ntopic deny a/b\npattern c/#\npattern deny c/%u\n");
    assert_eq!(allowed(&rules, &user("u", "x"), &["p a/a", "p a/b", "p c/c", "p c/u"]), "p a/a, p c/c");
    // No pattern denies a topic that a section allows.
    let rules = mosquitto("user u\ntopic c/#\npattern deny c/%u\n");
    assert_eq!(allowed(&rules, &user("u", "x"), &["p c/u"]), "p c/u");
}

#[test]
fn system_topics_are_named_or_not_there() {
    let rules = mosquitto("topic read #\n");
    assert_eq!(allowed(&rules, &client("c"), &["r a", "r $SYS/x", "s #", "s $SYS/#"]), "r a, s #");
    let rules = mosquitto("topic read $SYS/#\n");
    assert_eq!(allowed(&rules, &client("c"), &["r a", "r $SYS/x", "s #", "s $SYS/#"]), "r $SYS/x, s $SYS/#");
}

#[test]
fn a_subscription_is_checked_by_message_unless_none_can_pass() {
    let rules = mosquitto("topic read a/b\ntopic deny a/c/#\ntopic write w\n");
    let asked =
        ["s a/b", "s a/+", "s #", "s a/c", "s a/c/+", "s w", "s b", "s $share/g/a/#", "r a/b", "r a/c", "r a/d"];
    assert_eq!(allowed(&rules, &client("c"), &asked), "s a/b, s a/+~, s #~, s $share/g/a/#~, r a/b");
}

#[test]
fn no_pattern_applies_to_names_with_wildcards() {
    let rules = mosquitto("topic t\nuser +\ntopic t\npattern readwrite all\n");
    assert_eq!(allowed(&rules, &user("+", "c"), &["p t", "p all"]), "p t");
    assert_eq!(allowed(&rules, &client("a#"), &["p t", "p all"]), "p t");
    assert_eq!(allowed(&rules, &client("a/b"), &["p t", "p all"]), "p t, p all");
}

#[test]
fn one_word_is_the_topic_even_when_it_reads_like_an_access() {
    let rules = mosquitto("topic read\ntopic deny   a b  \ntopic  write   c\r\n");
    assert_eq!(allowed(&rules, &client("x"), &["p read", "s read", "p a b", "p c"]), "p read, s read, p c");
}

#[test]
fn a_rule_knows_its_line() {
    let rules = mosquitto(FILE);
    let DecidedBy::Rule(id) = decide(&rules, &user("alice", "c"), &publish("alice/secret/x")).by else { panic!() };
    assert_eq!(rules.rule(id).unwrap().to_string(), "acl:7: topic deny alice/secret/# (user alice)");
}

#[test]
fn problems_are_reported_with_place_and_fix() {
    for (text, expected) in [
        ("topic\n", "acl:1:6: the topic is missing; write it behind the access, as in `topic read a/#`"),
        (
            "\ntopic rw a\n",
            "acl:2:7: \"rw\" is no access; write read, write, readwrite or deny before a topic that holds spaces",
        ),
        (
            "topic read a/#/b",
            "acl:1:12: the topic holds '#' elsewhere than alone in the last level; write a topic filter, with `+` and `#` alone in their levels",
        ),
        ("user \n", "acl:1:5: the user name is missing; write `user NAME`"),
        (
            "topics a\n",
            "acl:1:1: \"topics\" is no keyword; begin the line with `user`, `topic` or `pattern` and a space, or with `#` for a comment",
        ),
        (" # x\n", "acl:1:2: \"#\" is no keyword; begin a comment in the first column"),
    ] {
        let error = RulesBuilder::new().mosquitto_file("acl", text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_placeholder_that_is_not_replaced_is_warned_of() {
    let mut builder = RulesBuilder::new();
    builder.mosquitto_file("acl", b"pattern read a/x%c\npattern read b\npattern read %c\n").unwrap();
    let warnings: Vec<String> = builder.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "acl:1:14: `%c` and `%u` are replaced only when they are a whole level; this one is taken literally",
            "acl:2:14: this pattern has neither `%c` nor `%u`, so it holds for all clients"
        ]
    );
}

#[test]
fn too_many_rules_are_refused() {
    let mut text = String::new();
    for number in 0..=tidegate_acl::MAX_RULES {
        let _ = writeln!(text, "topic {number}");
    }
    let mut builder = RulesBuilder::new();
    assert!(matches!(builder.mosquitto_file("acl", text.as_bytes()), Err(LoadError::TooMany { .. })));
    assert!(builder.build(Effect::Deny).is_empty());
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let rules = mosquitto("\u{feff}user alice\r\ntopic read a/#\r\n");
    assert_eq!(allowed(&rules, &user("alice", "c"), &["r a/b", "r b"]), "r a/b");
    let own = crate::own("\u{feff}[[rule]]\r\nallow = true\r\ntopics = \"a/#\"\r\n");
    assert_eq!(allowed(&own, &client("c"), &["r a/b", "r b"]), "r a/b");
}
