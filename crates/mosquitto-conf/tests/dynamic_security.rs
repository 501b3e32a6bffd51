//! Files of the dynamic security plugin.

use tidegate_mosquitto_conf::{File, Outcome, SecurityError, dynamic_security};

const FILE: &str = include_str!("files/dynamic-security.json");

fn file(text: &str) -> File {
    File { name: "dynamic-security.json".to_owned(), text: text.to_owned() }
}

/// The rules in one line each.
fn rules(text: &str) -> Vec<String> {
    text.split("[[rule]]\n").skip(1).map(|rule| rule.trim().replace('\n', "; ")).collect()
}

#[test]
fn clients_keep_their_passwords() {
    let made = dynamic_security(&file(FILE)).unwrap();
    assert_eq!(made.users, "admin:$7$101$c2FsdA==$aGFzaA==\ngauge:$7$210000$c2FsdA==$aGFzaA==\n");
    let outcomes: Vec<(&str, Outcome, usize)> =
        made.lines.iter().map(|line| (&*line.key, line.outcome, line.line)).collect();
    assert_eq!(
        outcomes,
        [
            ("client admin", Outcome::Carried, 4),
            ("client gauge", Outcome::Changed, 5),
            ("client off", Outcome::Changed, 6),
            ("client open", Outcome::Refused, 7),
            ("role admin", Outcome::Carried, 4),
            ("role sensor", Outcome::Carried, 5),
            ("role reader", Outcome::Changed, 9),
        ]
    );
    assert!(made.left_out, "a client without a password cannot log in");
}

#[test]
fn a_bound_client_may_do_nothing_with_another_id() {
    let made = dynamic_security(&file(FILE)).unwrap();
    assert_eq!(
        &rules(&made.rules)[..6],
        [
            r##"allow = true; users = ["gauge"]; clients = ["gauge-1"]; actions = ["receive"]; topics = ["#", "$SYS/#"]"##,
            r#"allow = false; users = ["gauge"]; clients = ["gauge-1"]; actions = ["publish"]; topics = ["plant/secret"]"#,
            r#"allow = true; users = ["gauge"]; clients = ["gauge-1"]; actions = ["publish"]; topics = ["plant/${username}/#"]"#,
            r##"allow = false; users = ["gauge"]; clients = ["gauge-1"]; actions = ["publish"]; topics = ["#", "$SYS/#"]"##,
            r##"allow = false; users = ["gauge"]; clients = ["gauge-1"]; actions = ["subscribe"]; topics = ["#", "$SYS/#"]"##,
            r##"allow = false; users = ["gauge"]; topics = ["#", "$SYS/#"]"##,
        ]
    );
}

#[test]
fn roles_of_groups_come_behind_roles_of_the_client() {
    let made = dynamic_security(&file(FILE)).unwrap();
    let of_admin: Vec<String> =
        rules(&made.rules).into_iter().filter(|rule| rule.contains("admin") && rule.contains("publish")).collect();
    let topics: Vec<&str> = of_admin.iter().filter_map(|rule| rule.split("topics = ").nth(1)).collect();
    assert_eq!(
        topics,
        [r#"["$CONTROL/#"]"#, r#"["plant/secret"]"#, r#"["plant/${username}/#"]"#, r##"["#", "$SYS/#"]"##]
    );
    assert!(rules(&made.rules).iter().any(|rule| rule.contains("anonymous = true") && rule.contains("eq #")));
}

#[test]
fn other_json_is_refused() {
    assert!(matches!(dynamic_security(&file("{\"users\": []}")), Err(SecurityError::Json(_))));
    assert!(matches!(dynamic_security(&file("listener 1883\n")), Err(SecurityError::Json(_))));
}
