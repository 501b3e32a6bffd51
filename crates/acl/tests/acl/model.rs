//! Random rules, clients and requests: the compiled view agrees with the explanation and keeps its guarantees.

use std::fmt::Write;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate_acl::{Compiler, Effect, Request, Rules, RulesBuilder, Subject};
use tidegate_mqtt::{QoS, TopicFilter, TopicName};

const NAMES: [&str; 6] = ["a", "b", "u", "+", "x/y", "$s"];

fn topic_of_rule() -> impl Strategy<Value = String> {
    let level = prop::sample::select(vec!["a", "b", "u", "+", "${clientid}", "${username}", "b-${clientid}", "$s"]);
    (prop::collection::vec(level, 0..=3), any::<bool>(), prop::bool::weighted(0.1)).prop_map(
        |(mut levels, all, exact)| {
            if all || levels.is_empty() {
                levels.push("#");
            }
            format!("{}{}", if exact { "eq " } else { "" }, levels.join("/"))
        },
    )
}

fn rule() -> impl Strategy<Value = String> {
    (
        any::<bool>(),
        prop::collection::vec(topic_of_rule(), 1..=2),
        prop::sample::select(vec!["all", "publish", "subscribe", "receive"]),
        prop::sample::select(vec![
            "",
            "users = ['a', 'u']",
            "users = 'b*'",
            "clients = 'a'",
            "anonymous = true",
            "users = '+'",
        ]),
        prop::sample::select(vec!["", "", "retain = true", "retain = false", "qos = 0", "qos = [1, 2]"]),
    )
        .prop_map(|(allow, topics, action, who, more)| {
            format!("[[rule]]\nallow = {allow}\ntopics = {topics:?}\nactions = '{action}'\n{who}\n{more}\n")
        })
}

fn line_of_mosquitto() -> impl Strategy<Value = String> {
    let level = prop::sample::select(vec!["a", "b", "u", "+", "%c", "%u", "$s"]);
    let topic = (prop::collection::vec(level, 0..=3), any::<bool>()).prop_map(|(mut levels, all)| {
        if all || levels.is_empty() {
            levels.push("#");
        }
        levels.join("/")
    });
    let access = prop::sample::select(vec!["read", "write", "readwrite", "deny"]);
    let keyword = prop::sample::select(vec!["topic", "pattern"]);
    prop_oneof![
        1 => prop::sample::select(NAMES.to_vec()).prop_map(|name| format!("user {name}\n")),
        4 => (keyword, access, topic).prop_map(|(keyword, access, topic)| format!("{keyword} {access} {topic}\n")),
    ]
}

fn rules() -> impl Strategy<Value = Arc<Rules>> {
    let ours = prop_oneof![4 => prop::collection::vec(rule(), 0..6), 1 => prop::collection::vec(rule(), 20..40)]
        .prop_map(|rules| rules.concat());
    let theirs = prop::collection::vec(line_of_mosquitto(), 0..8).prop_map(|lines| lines.concat());
    (ours, theirs, any::<bool>()).prop_map(|(ours, theirs, open)| {
        let mut builder = RulesBuilder::new();
        builder.rules_file("ours", ours.as_bytes()).unwrap();
        builder.mosquitto_file("theirs", theirs.as_bytes()).unwrap();
        Arc::new(builder.build(if open { Effect::Allow } else { Effect::Deny }))
    })
}

fn levels(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(words.to_vec()), 1..=4).prop_map(|levels| levels.join("/"))
}

fn topic() -> impl Strategy<Value = String> {
    levels(&["a", "b", "u", "b-a", "$s", "x", "y"])
}

fn filter() -> impl Strategy<Value = String> {
    let longer = (levels(&["a", "b", "u", "b-a", "$s", "+"]), any::<bool>())
        .prop_map(|(text, all)| if all { format!("{text}/#") } else { text });
    prop_oneof![8 => longer, 1 => Just("#".to_owned())]
}

fn qos() -> impl Strategy<Value = QoS> {
    prop::sample::select(vec![QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce])
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(NAMES.to_vec())
}

proptest! {
    #[test]
    fn the_compiled_view_decides_as_the_explanation_does(
        rules in rules(), client_id in name(), user_name in prop::option::of(name()),
        topic in topic(), filter in filter(), qos in qos(), retain in any::<bool>(),
    ) {
        let subject = Subject { user_name, ..Subject::anonymous(client_id) };
        let compiled = Compiler::new(Arc::clone(&rules)).compile(&subject);
        let topic = TopicName::new(&topic).unwrap();
        let filter = TopicFilter::new(&filter).unwrap();
        for request in [Request::Publish { topic, qos, retain }, Request::Subscribe { filter, qos }, Request::Receive { topic }] {
            prop_assert_eq!(compiled.decide(&request), rules.explain(&subject, &request).decision, "{:?}", request);
        }
    }

    /// The engine relies on this to ask for single messages only where it must.
    #[test]
    fn messages_of_an_unfiltered_subscription_are_receivable(
        rules in rules(), client_id in name(), user_name in prop::option::of(name()),
        topics in prop::collection::vec(topic(), 1..20), filter in filter(), qos in qos(),
    ) {
        let subject = Subject { user_name, ..Subject::anonymous(client_id) };
        let compiled = Compiler::new(Arc::clone(&rules)).compile(&subject);
        let filter = TopicFilter::new(&filter).unwrap();
        let decision = compiled.decide(&Request::Subscribe { filter, qos });
        if decision.allowed && !decision.filtered {
            for topic in &topics {
                let topic = TopicName::new(topic).unwrap();
                if filter.matches(topic) {
                    prop_assert!(compiled.decide(&Request::Receive { topic }).allowed, "{}", topic);
                }
            }
        }
    }

    /// Under Mosquitto's rules a refused subscription could receive no message, so refusing it takes nothing away.
    #[test]
    fn a_refused_mosquitto_subscription_could_receive_nothing(
        lines in prop::collection::vec(line_of_mosquitto(), 0..8), client_id in name(), user_name in prop::option::of(name()),
        topics in prop::collection::vec(topic(), 1..20), filter in filter(),
    ) {
        let mut builder = RulesBuilder::new();
        builder.mosquitto_file("theirs", lines.concat().as_bytes()).unwrap();
        let rules = Arc::new(builder.build(Effect::Deny));
        let subject = Subject { user_name, ..Subject::anonymous(client_id) };
        let compiled = Compiler::new(rules).compile(&subject);
        let filter = TopicFilter::new(&filter).unwrap();
        if !compiled.decide(&Request::Subscribe { filter, qos: QoS::AtMostOnce }).allowed {
            for topic in &topics {
                let topic = TopicName::new(topic).unwrap();
                if filter.matches(topic) {
                    prop_assert!(!compiled.decide(&Request::Receive { topic }).allowed, "{}", topic);
                }
            }
        }
    }

    /// Whatever a file holds, it is read or refused.
    #[test]
    fn no_bytes_break_the_readers(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,80}", lines in prop::collection::vec("(topic|pattern|user|\\[\\[rule\\]\\]\n|allow = |topics = )[ a-z/+#%='\"\\[\\]]{0,12}\n", 0..6)) {
        for bytes in [bytes, text.into_bytes(), lines.concat().into_bytes()] {
            let mut builder = RulesBuilder::new();
            let _ = builder.mosquitto_file("f", &bytes);
            let _ = builder.rules_file("f", &bytes);
        }
    }
}

/// Clients with the same rules share their class; unused classes are dropped.
#[test]
fn classes_are_shared_and_given_back() {
    let mut text = String::new();
    for number in 0..500 {
        let _ = write!(text, "user u{number}\ntopic t{number}\n");
    }
    let mut builder = RulesBuilder::new();
    builder.mosquitto_file("acl", text.as_bytes()).unwrap();
    let compiler = Compiler::new(Arc::new(builder.build(Effect::Deny)));
    for number in 0..500 {
        let user = format!("u{number}");
        let subject = Subject { user_name: Some(&user), ..Subject::anonymous("c") };
        let topic = format!("t{number}");
        let request = Request::Publish { topic: TopicName::new(&topic).unwrap(), qos: QoS::AtMostOnce, retain: false };
        assert!(compiler.compile(&subject).decide(&request).allowed);
    }
    assert!(compiler.classes() <= 64, "{} classes are remembered", compiler.classes());
}
