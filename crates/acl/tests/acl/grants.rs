//! Lists of a token, and superusers.

use tidegate_acl::{DecidedBy, Effect, GrantedAction, GrantedRule, Grants, Rules, Subject};

use crate::{allowed, decide, own, publish, user};

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn grants_of_a_token_replace_all_rules() {
    let rules = own("[[rule]]\nallow = true\ntopics = [\"#\"]\n");
    let granted = Grants::lists(&texts(&["own/%c/#", "x/${username}", "#/bad"]), &texts(&["a/+"]));
    let subject = Subject { granted: Some(&granted), ..user("u", "c") };
    let asked = ["p own/c/x", "p own/d/x", "p x/u", "p a", "s a/b", "s a/#", "s a/+", "s #", "r a/b", "r a"];
    assert_eq!(allowed(&rules, &subject, &asked), "p own/c/x, p x/u, s a/b, s a/+, r a/b");
    let nothing = Grants::lists(&[], &[]);
    assert_eq!(allowed(&rules, &Subject { granted: Some(&nothing), ..user("u", "c") }, &asked), "");
}

#[test]
fn of_granted_rules_the_first_that_applies_decides() {
    let rule = |allow, filter: &str| GrantedRule {
        effect: if allow { Effect::Allow } else { Effect::Deny },
        action: GrantedAction::All,
        filter: filter.to_owned(),
        literal: false,
        qos: [true; 3],
        retain: None,
    };
    let may = |rules: &[GrantedRule], asked: &[&str]| {
        let granted = Grants::new(rules);
        allowed(&own(""), &Subject { granted: Some(&granted), ..user("u", "c") }, asked)
    };
    let list = [rule(false, "a/secret"), rule(true, "a/#")];
    assert_eq!(may(&list, &["p a/secret", "p a/x", "s a/#", "s a/x", "r a/secret"]), "p a/x, s a/x");
    let list = [GrantedRule { literal: true, ..rule(false, "#") }, rule(true, "#")];
    assert_eq!(may(&list, &["s #", "s a/#", "r a"]), "s a/#, r a");
    let list = [GrantedRule { qos: [false, true, true], ..rule(true, "a") }];
    assert_eq!(may(&list, &["p a", "s a", "r a"]), "r a");
    // An invalid filter denies every topic in a denial, and allows no topic in a permission.
    assert_eq!(may(&[rule(false, "#/x"), rule(true, "#")], &["p a", "p $SYS/a"]), "");
    assert_eq!(may(&[rule(true, "#/x"), rule(true, "a")], &["p a", "p b"]), "p a");
}

#[test]
fn cve_2017_7650_no_name_widens_the_grants_of_a_token() {
    let granted = Grants::lists(&texts(&["own/${clientid}/#", "own/%u/#"]), &[]);
    for name in ["+", "#", "a/b", ""] {
        let subject = Subject { granted: Some(&granted), ..user(name, name) };
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
