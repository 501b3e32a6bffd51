//! Published vulnerabilities of other brokers, by their numbers.

use tidegate_acl::{Effect, LoadError, RulesBuilder, Subject};

use crate::{allowed, client, mosquitto, own, user};

const DANGEROUS: [&str; 8] = ["+", "#", "a/b", "+/x", "/", "a#", "", "x\0y"];

#[test]
fn cve_2017_7650_a_wildcard_in_a_name_widens_no_pattern() {
    let by_client = mosquitto("pattern readwrite own/%c/#\n");
    let by_user = mosquitto("pattern readwrite own/%u/#\n");
    let requests = ["p own/a/x", "p own/b", "p own/a/b/x", "s own/#", "s own/+/#", "s #", "r own/a/x", "r own/a/b/x"];
    for name in DANGEROUS {
        assert_eq!(allowed(&by_client, &client(name), &requests), "", "client id {name:?}");
        assert_eq!(allowed(&by_user, &user(name, "c"), &requests), "", "user name {name:?}");
    }
    assert_eq!(
        allowed(&by_client, &client("a"), &requests),
        "p own/a/x, p own/a/b/x, s own/#~, s own/+/#~, s #~, r own/a/x, r own/a/b/x"
    );
}

#[test]
fn cve_2017_7650_a_wildcard_in_any_value_widens_no_rule_of_ours() {
    let topics = ["${clientid}", "${username}", "${cert.cn}", "${claim.site}", "${tenant}", "${listener}"];
    let requests = ["p own/a/x", "p own/b", "p own/a/b/x", "s own/#", "s own/+/#", "s #", "r own/a/x", "r own/a/b/x"];
    for topic in topics {
        let rules = own(&format!("[[rule]]\nallow = true\ntopics = [\"own/{topic}/#\"]\n"));
        for name in DANGEROUS {
            let attributes = [("site".to_owned(), name.to_owned())];
            let subject = Subject {
                client_id: name,
                user_name: Some(name),
                tenant: name,
                listener: name,
                certificate_cn: Some(name),
                attributes: &attributes,
                ..client("")
            };
            assert_eq!(allowed(&rules, &subject, &requests), "", "{topic} as {name:?}");
        }
    }
}

#[test]
fn cve_2017_7650_no_client_escapes_a_denial_by_its_name() {
    let ours = own(
        "[[rule]]\nallow = false\ntopics = [\"a/${clientid}/secret\"]\n\n[[rule]]\nallow = true\ntopics = [\"a/#\"]\n",
    );
    let theirs = mosquitto("pattern deny a/%c/secret\npattern readwrite a/#\n");
    for name in DANGEROUS {
        for rules in [&ours, &theirs] {
            assert_eq!(
                allowed(rules, &client(name), &["p a/x/secret", "p a/b/secret", "r a/x/secret"]),
                "",
                "{name:?}"
            );
        }
    }
    assert_eq!(allowed(&ours, &client("x"), &["p a/x/secret", "p a/b/secret"]), "p a/b/secret");
    assert_eq!(allowed(&theirs, &client("x"), &["p a/x/secret", "p a/b/secret"]), "p a/b/secret");
}

#[test]
fn cve_2017_7650_a_dollar_name_opens_no_system_topics() {
    let requests = ["p $SYS/x", "s $SYS/#", "r $SYS/x"];
    let theirs = mosquitto("pattern readwrite %c/#\npattern readwrite %u/#\n");
    let ours = own("[[rule]]\nallow = true\ntopics = [\"${clientid}/#\", \"${username}/#\"]\n");
    for rules in [theirs, ours] {
        assert_eq!(allowed(&rules, &user("$SYS", "$SYS"), &requests), "");
    }
}

#[test]
fn cve_2018_12550_an_empty_file_of_rules_closes_the_door() {
    let requests = ["p a", "s a", "s #", "r a", "r $SYS/x"];
    for text in ["", "\n\n", "# only a comment\n"] {
        for subject in [client("c"), user("u", "c")] {
            assert_eq!(allowed(&mosquitto(text), &subject, &requests), "");
            assert_eq!(allowed(&own(text), &subject, &requests), "");
        }
    }
}

#[test]
fn cve_2018_12550_a_broken_file_of_rules_is_refused_as_a_whole() {
    for text in
        ["topic read\n\ntopic reed a/b c\n", "topic a/#/b\n", "user\n", "topic read a\nnonsense\n", "topic a+\n"]
    {
        let mut builder = RulesBuilder::new();
        assert!(matches!(builder.mosquitto_file("acl", text.as_bytes()), Err(LoadError::Wrong { .. })), "{text:?}");
        assert!(builder.build(Effect::Deny).is_empty(), "{text:?}");
    }
    for text in ["[[rule]]\nallow = true\n", "[[rule]\n", "[[rule]]\nallow = true\ntopics = [\"a\"]\nuser = \"x\"\n"] {
        let mut builder = RulesBuilder::new();
        assert!(matches!(builder.rules_file("rules", text.as_bytes()), Err(LoadError::Wrong { .. })), "{text:?}");
        assert!(builder.build(Effect::Deny).is_empty(), "{text:?}");
    }
    let mut builder = RulesBuilder::new();
    assert!(matches!(builder.mosquitto_file("acl", b"topic a\xff"), Err(LoadError::NotText { offset: 7, .. })));
    let large = vec![b'\n'; tidegate_acl::MAX_FILE_BYTES + 1];
    assert!(matches!(builder.rules_file("rules", &large), Err(LoadError::TooLarge { .. })));
}
