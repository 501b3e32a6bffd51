//! Questions of nodes to each other.

use tidegate_node::{AskError, MAX_QUESTION_BYTES, PeerEvent, PeerQuestion};

use super::world::{World, name};

/// The next question.
fn question(events: &std::sync::mpsc::Receiver<PeerEvent>) -> PeerQuestion {
    loop {
        if let PeerEvent::Question(question) = events.recv().unwrap() {
            return question;
        }
    }
}

#[test]
fn a_question_is_answered_by_the_node_that_is_asked() {
    let world = World::of(&[("a", 1), ("b", 2), ("c", 1)]);
    let events = world.nodes["b"].handle().listen_to_peers();
    let a = world.nodes["a"].handle();
    let first = a.ask_node(&name("b"), b"one".to_vec()).unwrap();
    let second = a.ask_node(&name("b"), b"two".to_vec()).unwrap();
    let (one, two) = (question(&events), question(&events));
    assert_eq!((one.from.as_str(), &one.body[..], &two.body[..]), ("a", &b"one"[..], &b"two"[..]));
    two.answer(b"2".to_vec());
    one.answer(vec![7; MAX_QUESTION_BYTES]);
    assert_eq!(second.recv().unwrap(), Ok(b"2".to_vec()));
    assert_eq!(first.recv().unwrap().unwrap().len(), MAX_QUESTION_BYTES);
    let third = a.ask_node(&name("b"), b"three".to_vec()).unwrap();
    question(&events).answer(vec![7; MAX_QUESTION_BYTES + 1]);
    assert_eq!(third.recv().unwrap(), Err(AskError::Busy));
}

#[test]
fn a_question_without_an_answer_says_why() {
    let mut world = World::of(&[("a", 1), ("b", 1)]);
    let a = world.nodes["a"].handle();
    let ask = |to: &str| a.ask_node(&name(to), b"x".to_vec()).unwrap();
    assert_eq!(ask("b").recv().unwrap(), Err(AskError::Busy), "nothing listens there");
    assert_eq!(ask("z").recv().unwrap(), Err(AskError::NotLinked));
    assert_eq!(a.ask_node(&name("b"), vec![0; MAX_QUESTION_BYTES + 1]).unwrap_err(), AskError::TooLong);
    let events = world.nodes["b"].handle().listen_to_peers();
    let waiting = ask("b");
    let _unanswered = question(&events);
    drop(world.nodes.remove("b"));
    assert_eq!(waiting.recv().unwrap(), Err(AskError::Lost));
}

#[test]
fn a_listener_hears_of_every_session() {
    let mut world = World::apart(&[("a", 1), ("b", 1)], tidegate_node::LinkLimits::default());
    let events = world.nodes["a"].handle().listen_to_peers();
    world.introduce();
    world.settle();
    assert!(matches!(events.recv().unwrap(), PeerEvent::Linked(node) if node.as_str() == "b"));
    let late = world.nodes["b"].handle().listen_to_peers();
    assert!(matches!(late.recv().unwrap(), PeerEvent::Linked(node) if node.as_str() == "a"));
}

#[test]
fn questions_take_a_quarter_of_the_room_of_a_link() {
    let limits = tidegate_node::LinkLimits { outbox_bytes: 64 * 1024, ..tidegate_node::LinkLimits::default() };
    let mut world = World::apart(&[("a", 1), ("b", 1)], limits);
    world.introduce();
    world.settle();
    let events = world.nodes["b"].handle().listen_to_peers();
    let a = world.nodes["a"].handle();
    let ask = |bytes: usize| a.ask_node(&name("b"), vec![1; bytes]).unwrap();
    assert_eq!(ask(17 * 1024).recv().unwrap(), Err(AskError::Busy));
    // Two that are being answered are more than a quarter together.
    let (first, second) = (ask(10 * 1024), ask(10 * 1024));
    let one = question(&events);
    assert_eq!(second.recv().unwrap(), Err(AskError::Busy));
    one.answer(vec![2; 17 * 1024]);
    assert_eq!(first.recv().unwrap(), Err(AskError::Busy), "the answer is too long for the link");
    let third = ask(10 * 1024);
    question(&events).answer(vec![2; 100]);
    assert_eq!(third.recv().unwrap(), Ok(vec![2; 100]));
}
