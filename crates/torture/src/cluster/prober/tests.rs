//! Probes at servers of a few lines: one that serves, and one that refuses.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::planted::server;
use super::*;

/// Longest wait for something that must come.
const ENOUGH: Duration = Duration::from_secs(60);

fn wait_until(missing: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < ENOUGH, "{missing} does not come");
        std::thread::yield_now();
    }
}

#[test]
fn probes_tell_which_partitions_are_served() {
    let [one, other, over] = [true, false, false].map(|value| Arc::new(AtomicBool::new(value)));
    let ports = [server(Arc::clone(&one)), server(Arc::clone(&other))];
    let numbers = vec![3, 700];
    let client_ids = super::super::partition::client_ids(&numbers, 2);
    let names = vec!["one".to_owned(), "other".to_owned()];
    let service = Arc::new(Mutex::new(Service::new(numbers, names, ENOUGH)));
    let prober = Prober::new(client_ids, &ports, Arc::clone(&service), Instant::now()).unwrap();
    let ended = Arc::clone(&over);
    let thread = std::thread::spawn(move || prober.run(|| ended.load(Ordering::Relaxed)));
    wait_until("an answer of each partition", || lock(&service).sums.answered >= 4 && lock(&service).is_whole());
    one.store(false, Ordering::Relaxed);
    wait_until("a failure of each partition", || (0..2).all(|partition| lock(&service).is_unserved(partition)));
    other.store(true, Ordering::Relaxed);
    wait_until("the other server", || lock(&service).is_whole());
    over.store(true, Ordering::Relaxed);
    thread.join().unwrap().unwrap();
}

#[test]
fn each_node_is_asked_as_often_in_each_second() {
    let (partitions, nodes) = (256, 3);
    let second = |partition, node| turn_of((partition, partitions), (node, nodes)).as_secs() as usize;
    for node in 0..nodes {
        let mut asked = [0; 3];
        (0..partitions).for_each(|partition| asked[second(partition, node)] += 1);
        assert!(asked.iter().all(|count| (85..=86).contains(count)), "node {node}: {asked:?}");
    }
    for partition in 0..partitions {
        let mut seconds: Vec<usize> = (0..nodes).map(|node| second(partition, node)).collect();
        seconds.sort_unstable();
        assert_eq!(seconds, [0, 1, 2], "partition {partition}");
    }
}

#[test]
fn a_question_out_of_turn_moves_no_later_turn() {
    let (first, cycle) = (Instant::now(), Duration::from_secs(3));
    assert_eq!(next_turn(first, cycle, first), first + cycle);
    let late = first + cycle * 4 + Duration::from_millis(2_900);
    assert_eq!(next_turn(first, cycle, late), first + cycle * 5);
}
