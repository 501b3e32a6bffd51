//! Settings with which a node refuses to start.

use tidegate_node::{Node, StartError};

use crate::{addresses, node, settings};

#[test]
fn an_address_that_is_taken_is_named() {
    let running = node(1);
    let [tcp, ..] = addresses(&running);
    let mut second = settings(1);
    second.listeners[0] = tcp.to_string().parse().unwrap();
    let error = Node::start(second).unwrap_err();
    assert!(matches!(error, StartError::Bind(_)));
    assert!(error.to_string().contains(&tcp.to_string()), "{error}");
}

#[test]
fn impossible_settings_are_refused() {
    for shards in [0, 65] {
        let error = Node::start(settings(shards)).unwrap_err();
        assert!(error.to_string().contains("use 1 to 64"), "{error}");
    }
    let mut unmatched = settings(1);
    unmatched.engine.listeners.pop();
    assert!(matches!(Node::start(unmatched), Err(StartError::Listeners { addresses: 6, settings: 5 })));
    let mut greedy = settings(1);
    greedy.max_connections = u32::MAX;
    assert!(matches!(Node::start(greedy), Err(StartError::TooFewFiles(_))));
}
