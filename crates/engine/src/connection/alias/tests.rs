use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn alias(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

#[test]
fn inbound_aliases_are_bounded_and_can_change() {
    let mut aliases = InboundAliases::default();
    assert_eq!(aliases.get(alias(1)), None);
    assert!(!aliases.set(alias(11), "above", 10));
    assert!(!aliases.set(alias(1), "off", 0));
    assert_eq!(aliases.heap_bytes(), 0);
    assert!(aliases.set(alias(10), "ten", 10));
    assert!(aliases.set(alias(1), "one", 10));
    assert!(aliases.set(alias(10), "TEN", 10));
    let found = [1, 2, 10, 11].map(|number| aliases.get(alias(number)));
    assert_eq!(found, [Some("one"), None, Some("TEN"), None]);
    assert_eq!(aliases.len(), 2);
}

#[test]
fn a_high_alias_costs_no_more_than_a_low_one() {
    let mut aliases = InboundAliases::default();
    aliases.set(alias(u16::MAX), "x", u16::MAX);
    assert!(aliases.heap_bytes() < 200, "{}", aliases.heap_bytes());
}

#[test]
fn outbound_aliases_go_to_the_first_topics() {
    let mut aliases = OutboundAliases::new(2);
    assert_eq!(aliases.choose(&"x".repeat(2000)), None, "too long to be remembered");
    assert_eq!(aliases.choose("a"), Some(Outbound::New(alias(1))));
    assert_eq!(aliases.choose("b"), Some(Outbound::New(alias(2))));
    assert_eq!(aliases.choose("c"), None);
    assert_eq!(aliases.choose("b"), Some(Outbound::Known(alias(2))));
    assert_eq!(aliases.choose("a"), Some(Outbound::Known(alias(1))));
    assert_eq!(aliases.len(), 2);
    let mut off = OutboundAliases::default();
    assert_eq!(off.choose("a"), None);
    assert!(off.used.is_none());
}

#[test]
fn all_outbound_aliases_can_be_used() {
    let mut aliases = OutboundAliases::new(u16::MAX);
    for number in 1..=u16::MAX {
        assert_eq!(aliases.choose(&number.to_string()), Some(Outbound::New(alias(number))));
    }
    assert_eq!(aliases.choose("0"), None);
    assert_eq!(aliases.choose("65535"), Some(Outbound::Known(alias(u16::MAX))));
}

proptest! {
    #[test]
    fn inbound_aliases_behave_like_a_map(steps in proptest::collection::vec((1..40_u16, 0..9_u8), 0..100)) {
        let mut aliases = InboundAliases::default();
        let mut model = BTreeMap::new();
        for (number, topic) in steps {
            let topic = topic.to_string();
            if aliases.set(alias(number), &topic, 30) {
                model.insert(number, topic);
            }
        }
        for number in 1..40 {
            prop_assert_eq!(aliases.get(alias(number)), model.get(&number).map(String::as_str));
        }
    }
}
