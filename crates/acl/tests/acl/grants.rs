//! Lists of a token, and superusers.

use tidegate_acl::{DecidedBy, Grants, Rules, Subject};

use crate::{allowed, decide, own, publish, user};

#[test]
fn a_list_of_a_token_replaces_the_rules_for_its_action() {
    let rules = own("[[rule]]\nallow = true\ntopics = [\"#\"]\n");
    let granted = Grants { publish: Some(vec!["own/${clientid}/#".to_owned(), "#/bad".to_owned()]), subscribe: None };
    let subject = Subject { granted: Some(&granted), ..user("u", "c") };
    assert_eq!(allowed(&rules, &subject, &["p own/c/x", "p own/d/x", "p a", "s a", "r a"]), "p own/c/x, s a, r a");
    let granted = Grants { publish: Some(Vec::new()), subscribe: Some(vec!["a/+".to_owned()]) };
    let subject = Subject { granted: Some(&granted), ..user("u", "c") };
    assert_eq!(allowed(&rules, &subject, &["p a", "s a/b", "s a/#", "s a/+", "r a/b", "r a"]), "s a/b, s a/+, r a/b");
}

#[test]
fn a_list_of_a_token_is_widened_by_no_name() {
    let granted = Grants { publish: Some(vec!["own/${clientid}/#".to_owned()]), subscribe: None };
    for name in ["+", "#", "a/b", ""] {
        let subject = Subject { granted: Some(&granted), ..user("u", name) };
        assert_eq!(allowed(&own(""), &subject, &["p own/a/x", "p own/a/b/x"]), "");
    }
}

#[test]
fn no_rule_holds_for_a_superuser() {
    let rules = own("[[rule]]\nallow = false\ntopics = [\"#\", \"$SYS/#\"]\n");
    let subject = Subject { superuser: true, ..user("root", "c") };
    assert_eq!(decide(&rules, &subject, &publish("a")).by, DecidedBy::Superuser);
    assert_eq!(allowed(&rules, &subject, &["p a", "s #", "s $SYS/#", "r $SYS/x"]), "p a, s #, s $SYS/#, r $SYS/x");
}

#[test]
fn without_rules_everything_is_allowed() {
    let rules = std::sync::Arc::new(Rules::open());
    assert_eq!(allowed(&rules, &user("u", "+"), &["p a", "s #", "s $SYS/#"]), "p a, s #, s $SYS/#");
}
