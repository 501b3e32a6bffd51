//! Our own file of rules.

use tidegate_acl::{DecidedBy, RulesBuilder, Subject};
use tidegate_mqtt::{QoS, TopicFilter, TopicName};

use crate::{Request, allowed, client, decide, own, publish, user};

fn error(text: &str) -> String {
    RulesBuilder::new().rules_file("rules.toml", text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn the_first_applicable_rule_decides_and_the_default_denies() {
    let rules = own("\
[[rule]]
allow = false
topics = ['a/secret']
[[rule]]
effect = 'allow'
topics = 'a/#'
[[rule]]
allow = false
topics = ['a/b']
");
    let asked = ["p a/secret", "p a/b", "p b", "s a/b", "s a/#", "s a/+", "r a/secret", "r a/x"];
    assert_eq!(allowed(&rules, &client("c"), &asked), "p a/b, s a/b, r a/x");
}

#[test]
fn all_conditions_of_a_rule_must_hold() {
    let rules = own("\
[[rule]]
allow = true
users = ['alice', 'team-*']
clients = ['dev-*']
listeners = 'tls'
tenants = ['acme']
certificate = 'CN1'
attributes = { role = ['admin', 'ops'], site = 'x' }
topics = ['t']
");
    let attributes = [
        ("role".to_owned(), "user".to_owned()),
        ("role".to_owned(), "ops".to_owned()),
        ("site".to_owned(), "x".to_owned()),
    ];
    let all = Subject {
        client_id: "dev-1",
        user_name: Some("team-a"),
        tenant: "acme",
        listener: "tls",
        certificate_cn: Some("CN1"),
        attributes: &attributes,
        superuser: false,
        granted: None,
    };
    let may = |subject: &Subject<'_>| decide(&rules, subject, &publish("t")).allowed;
    assert!(may(&all) && may(&Subject { user_name: Some("alice"), ..all }));
    for lacking in [
        Subject { user_name: None, ..all },
        Subject { user_name: Some("bob"), ..all },
        Subject { user_name: Some("alice2"), ..all },
        Subject { client_id: "x", ..all },
        Subject { listener: "tcp", ..all },
        Subject { tenant: "", ..all },
        Subject { certificate_cn: None, ..all },
        Subject { attributes: &attributes[..2], ..all },
        Subject { attributes: &attributes[2..], ..all },
    ] {
        assert!(!may(&lacking), "{lacking:?}");
    }
}

#[test]
fn a_rule_can_match_anonymous_clients_only() {
    let rules = own(
        "[[rule]]\nallow = true\nanonymous = true\ntopics = 'a'\n[[rule]]\nallow = true\nanonymous = false\ntopics = 'b'\n",
    );
    assert_eq!(allowed(&rules, &client("c"), &["p a", "p b"]), "p a");
    assert_eq!(allowed(&rules, &user("u", "c"), &["p a", "p b"]), "p b");
}

#[test]
fn qos_and_retain_are_conditions_of_the_request() {
    let rules = own("\
[[rule]]
allow = true
actions = 'publish'
retain = true
qos = 0
topics = 'a'
[[rule]]
allow = true
actions = ['publish', 'subscribe']
retain = false
qos = [1, 2]
topics = 'a'
");
    let topic = TopicName::new("a").unwrap();
    let may = |qos, retain| decide(&rules, &client("c"), &Request::Publish { topic, qos, retain }).allowed;
    assert!(may(QoS::AtMostOnce, true) && !may(QoS::AtMostOnce, false));
    assert!(may(QoS::ExactlyOnce, false) && !may(QoS::ExactlyOnce, true));
    let filter = TopicFilter::new("a").unwrap();
    let may = |qos| decide(&rules, &client("c"), &Request::Subscribe { filter, qos }).allowed;
    assert!(may(QoS::AtLeastOnce) && !may(QoS::AtMostOnce));
    assert_eq!(allowed(&rules, &client("c"), &["r a"]), "r a");
}

#[test]
fn receive_filters_messages_and_eq_denies_one_subscription() {
    let rules = own("\
[[rule]]
allow = false
actions = 'subscribe'
topics = ['eq #', 'eq +/#']
[[rule]]
allow = false
actions = 'receive'
topics = 'a/secret'
[[rule]]
allow = true
actions = 'subscribe'
topics = '#'
");
    let asked = ["s #", "s +/#", "s a/#", "s b/#", "s a/secret", "r a/secret", "r a/x", "r b", "p a/x"];
    assert_eq!(allowed(&rules, &client("c"), &asked), "s a/#~, s b/#, s a/secret~, r a/x, r b");
    let rules = own("[[rule]]\nallow = true\nactions = 'subscribe'\ntopics = 'eq a/+'\n");
    assert_eq!(allowed(&rules, &client("c"), &["s a/+", "s a/b", "r a/b", "r b"]), "s a/+, r a/b");
    let rules = own("[[rule]]\nallow = true\ntopics = ['eq a/b', 'eq c/+']\n");
    assert_eq!(allowed(&rules, &client("c"), &["p a/b", "p c/d"]), "p a/b");
}

#[test]
fn a_denied_topic_cannot_be_reached_by_a_wider_filter() {
    let rules = own("[[rule]]\nallow = false\ntopics = 'a/secret/#'\n[[rule]]\nallow = true\ntopics = '#'\n");
    let asked = ["s #", "s +/+", "s a/#", "s a/+/x", "s +", "s b/#", "s a/other/#", "s a/secret"];
    assert_eq!(allowed(&rules, &client("c"), &asked), "s +, s b/#, s a/other/#");
}

#[test]
fn placeholders_are_filled_in_for_each_client() {
    let rules = own("[[rule]]\nallow = true\ntopics = ['u/${username}/#', 'c-${clientid}', 'x/${claim.site}']\n");
    let attributes = [("site".to_owned(), "s1".to_owned()), ("site".to_owned(), "s2".to_owned())];
    let subject = Subject { attributes: &attributes, ..user("u", "c") };
    let asked = ["p u/u/x", "p u/c/x", "p c-c", "p c-d", "p x/s1", "p x/s2", "s u/u/+", "s u/+"];
    assert_eq!(allowed(&rules, &subject, &asked), "p u/u/x, p c-c, p x/s1, s u/u/+");
}

#[test]
fn a_rule_knows_its_line_and_is_shown_in_one() {
    let rules =
        own("# x\n\n[[rule]]\nallow = true\nusers = ['a', 'b*', 'c', 'd']\ntopics = ['a/#']\nactions = ['publish']\n");
    let DecidedBy::Rule(id) = decide(&rules, &user("a", "c"), &publish("a")).by else { panic!() };
    assert_eq!(rules.rule(id).unwrap().to_string(), "rules.toml:3: allow publish a/# (users a, b*, c and 1 more)");
}

#[test]
fn problems_are_reported_with_place_and_fix() {
    let rule = |line: &str| error(&format!("[[rule]]\nallow = true\ntopics = ['a']\n{line}\n"));
    assert_eq!(rule("user = 'x'"), "rules.toml:4:1: unknown key `rule.user`; did you mean `users`?");
    assert_eq!(
        rule("actions = ['read']"),
        "rules.toml:4:12: \"read\" is no action; the actions are \"publish\", \"subscribe\", \"receive\" and \"all\""
    );
    assert_eq!(rule("users = []"), "rules.toml:4:9: `rule.users` is empty; name at least one, or leave the key out");
    assert_eq!(
        rule("users = ['a*b']"),
        "rules.toml:4:10: `users` has a `*` that is not at the end of its value; write the beginning and one `*`, or the whole value"
    );
    assert_eq!(
        rule("effect = 'deny'"),
        "rules.toml:4:10: `rule.effect` says the same as `allow` once more; keep one of them"
    );
    assert!(rule("qos = 3").starts_with("rules.toml:4:7: `rule.qos` must be 0, 1 or 2"));
    assert!(rule("qos = []").contains("`rule.qos` is empty"));
    assert!(rule("retain = 1").contains("`rule.retain` must be true, false or \"any\""));
    assert!(rule("attributes = 'x'").contains("`rule.attributes` must be a table"));
    assert!(rule("anonymous = 'x'").contains("`rule.anonymous` must be true or false"));
    assert!(
        error("[[rule]]\ntopics = ['a']\n").contains("1:1: the rule neither allows nor denies; add `allow = true`")
    );
    assert!(error("[[rule]]\nallow = true\n").contains("the rule has no topics"));
    assert!(
        error("[[rule]]\nallow = true\ntopics = ['a/${user}']\n")
            .starts_with("rules.toml:3:11: the topic has a placeholder that is not known")
    );
    assert!(error("[rules]\n").contains("unknown key `rules`"));
    assert!(error("rule = 1\n").contains("`rule` must be a list"));
    assert!(error("[[rule]]\nallow = \n").contains("rules.toml:2:"));
}

#[test]
fn every_problem_is_named_not_only_the_first() {
    let text = error("[[rule]]\nallow = 1\n[[rule]]\nallow = true\ntopics = ['a#']\n");
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn a_wrong_value_of_any_key_refuses_the_whole_file() {
    let lists = ["users", "clients", "listeners", "tenants", "certificate", "actions", "attributes.role"];
    let wrong = ["1", "1.5", "true", "''", "[]", "['']", "['a', 1]", "[['a']]", "{ a = 'b' }", "2026-01-02", "['a*b']"];
    let mut lines: Vec<String> = lists.iter().flat_map(|key| wrong.map(|value| format!("{key} = {value}"))).collect();
    lines.extend(["'true'", "1", "[]", "['true']", "{}"].map(|value| format!("anonymous = {value}")));
    lines.extend(["'x'", "1", "[true]", "{}"].map(|value| format!("retain = {value}")));
    lines.extend(["3", "-1", "'1'", "1.0", "[]", "[0, 3]", "[[0]]", "{}"].map(|value| format!("qos = {value}")));
    lines.extend(["'a'", "[]", "{}", "{ '' = 1 }", "[{ a = 'b' }]"].map(|value| format!("attributes = {value}")));
    lines.extend(["allow = true", "effect = 'allow'", "Users = 'a'", "users.name = 'a'"].map(str::to_owned));
    for line in lines {
        // A restriction without its condition, or without its denial, would leave more allowed than is written.
        let denial = format!("[[rule]]\nallow = false\ntopics = 'secret/#'\n{line}\n");
        let all = "[[rule]]\nallow = true\ntopics = '#'\n";
        for text in [format!("{denial}{all}"), format!("{all}{denial}")] {
            let refused = RulesBuilder::new().rules_file("rules.toml", text.as_bytes());
            assert!(refused.is_err(), "{line}");
        }
    }
}

#[test]
fn names_that_do_not_exist_are_warned_of() {
    let mut builder = tidegate_acl::RulesBuilder::new();
    let text = "[[rule]]\nallow = false\nlisteners = ['wsx', 'w*']\ntopics = ['a']\n\n\
                [[rule]]\nallow = true\ntenants = ['acme', 'x*']\ntopics = ['b']\n";
    builder.rules_file("rules", text.as_bytes()).unwrap();
    builder.warn_of_unknown_names(&["ws".to_owned()], &["acme".to_owned()]);
    let warnings: Vec<String> = builder.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "rules:1:1: there is no listener `wsx`, so the rule holds for no client of it",
            "rules:6:1: there is no tenant `x*`, so the rule holds for no client of it"
        ]
    );
}
