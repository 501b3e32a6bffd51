//! The books of service, on a clock that the test turns.

use super::*;

/// A cluster of three nodes with six partitions, two for each node, and a lease of three seconds.
struct Bench {
    service: Service,
    now: Moment,
    /// The node that serves each partition.
    homes: [Option<usize>; 6],
    ready: [bool; 3],
    alive: [bool; 3],
}

const STEP: Duration = Duration::from_millis(100);
const LIMIT: Duration = Duration::from_secs(5);

impl Bench {
    fn new() -> Self {
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let mut service = Service::new((0..6).collect(), names, LIMIT);
        service.excuse(false, Moment::ZERO);
        let homes = std::array::from_fn(|partition| Some(partition % 3));
        Self { service, now: Moment::ZERO, homes, ready: [true; 3], alive: [true; 3] }
    }

    /// Asks every partition at every living node ten times a second.
    fn pass(&mut self, time: Duration) -> &mut Self {
        let end = self.now + time;
        while self.now < end {
            self.now += STEP;
            for node in 0..3 {
                self.service.note_ready(node, self.ready[node]);
                for partition in 0..6 {
                    let asked = Asked { partition, node, at: self.now };
                    if self.alive[node] && self.homes[partition].is_some_and(|home| self.alive[home]) {
                        self.service.note_answer(asked, self.now);
                    } else {
                        self.service.note_failure(asked);
                    }
                }
            }
            self.service.look(self.now);
        }
        self
    }

    fn kill(&mut self, node: usize) -> &mut Self {
        (self.alive[node], self.ready[node]) = (false, false);
        self.service.disturb(self.now);
        self
    }

    fn take_over(&mut self, dead: usize) -> &mut Self {
        for home in self.homes.iter_mut().filter(|home| **home == Some(dead)) {
            *home = Some((dead + 1) % 3);
        }
        self
    }

    fn found(&mut self) -> Vec<(Finding, String)> {
        std::iter::from_fn(|| self.service.complaint()).collect()
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_cluster_that_serves_has_no_findings() {
    let mut bench = Bench::new();
    bench.pass(seconds(60));
    assert_eq!(bench.found(), []);
    let sums = bench.service.sums;
    assert_eq!((sums.longest, sums.overdue, sums.stood_still), (Duration::ZERO, Duration::ZERO, 0));
    assert!((170..=180).contains(&sums.ready_seconds), "{sums:?}");
    assert!(bench.service.are_ready() && bench.service.is_whole());
}

#[test]
fn a_takeover_within_the_limit_is_no_finding() {
    let mut bench = Bench::new();
    bench.pass(seconds(10)).kill(0).pass(Duration::from_millis(4_900)).take_over(0).pass(seconds(10));
    assert_eq!(bench.found(), []);
    let longest = bench.service.sums.longest;
    assert!(longest > seconds(4) && longest <= LIMIT, "{longest:?}");
}

#[test]
fn a_takeover_beyond_the_limit_is_counted() {
    let mut bench = Bench::new();
    bench.pass(seconds(10)).kill(0).pass(seconds(7)).take_over(0).pass(seconds(10));
    let found = bench.found();
    assert_eq!(found.iter().map(|(finding, _)| *finding).collect::<Vec<_>>(), [Finding::Overdue; 2], "{found:?}");
    assert!(found[0].1.starts_with("partition 0 is unserved for 5.") && found[1].1.starts_with("partition 3"));
    // Two partitions for two seconds each.
    let overdue = bench.service.sums.overdue;
    assert!(overdue > seconds(3) && overdue < seconds(5), "{overdue:?}");
}

#[test]
fn a_second_strike_begins_the_limit_again() {
    let mut bench = Bench::new();
    bench.pass(seconds(10)).kill(0).pass(seconds(4)).kill(1).pass(Duration::from_millis(4_500));
    bench.take_over(0).take_over(1).pass(seconds(10));
    assert_eq!(bench.found(), []);
    assert!(bench.service.sums.longest > seconds(8));
}

#[test]
fn nothing_is_owed_while_the_bus_is_away() {
    let mut bench = Bench::new();
    bench.pass(seconds(10)).kill(0);
    let away = bench.now;
    bench.service.excuse(true, away);
    bench.pass(seconds(20));
    let back = bench.now;
    bench.service.excuse(false, back);
    bench.pass(seconds(4)).take_over(0).pass(seconds(5));
    assert_eq!(bench.found(), []);
}

#[test]
fn a_ready_node_that_answers_no_probe_is_found() {
    let mut bench = Bench::new();
    bench.pass(seconds(10));
    bench.alive[2] = false;
    bench.pass(seconds(4));
    let found = bench.found();
    let about_nodes: Vec<&String> =
        found.iter().filter(|(_, text)| text.contains("c says")).map(|(_, text)| text).collect();
    assert_eq!(about_nodes.len(), 1, "once for each time: {found:?}");
    // All nodes say that they are ready, and the partitions of one are dead.
    assert_eq!(found.iter().filter(|(_, text)| text.contains("none serves partition")).count(), 2, "{found:?}");
    assert!(found.iter().all(|(finding, _)| *finding == Finding::Unserved), "within the limit: {found:?}");
}

#[test]
fn dead_partitions_of_ready_nodes_are_found() {
    let mut bench = Bench::new();
    bench.pass(seconds(10));
    bench.homes[4] = None;
    bench.pass(seconds(4));
    let found = bench.found();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, Finding::Unserved);
    assert!(found[0].1.contains("partition 4"), "{found:?}");
}

#[test]
fn silence_is_found_out_after_a_while() {
    let silence = || Allowance::Silence { knowing: Vec::new() };
    for (allowance, time, found) in
        [(silence(), 4, 0), (silence(), 7, 1), (Allowance::SilentLink, 6, 0), (Allowance::SilentLink, 9, 1)]
    {
        let mut bench = Bench::new();
        bench.service.allow(&allowance);
        bench.pass(seconds(10));
        bench.homes[4] = None;
        // Other strikes keep the limit of partitions away.
        for _ in 0..time {
            let now = bench.now;
            bench.service.disturb(now);
            bench.pass(seconds(1));
        }
        assert_eq!(bench.found().len(), found, "after {time} s of {allowance:?}");
    }
}

#[test]
fn a_node_that_knows_of_a_silence_says_so_at_once() {
    let mut bench = Bench::new();
    bench.service.allow(&Allowance::Silence { knowing: vec![1] });
    bench.pass(seconds(10));
    (bench.alive[1], bench.alive[2]) = (false, false);
    bench.pass(seconds(3));
    let found: Vec<String> = bench.found().into_iter().map(|(_, text)| text).collect();
    assert!(found.len() == 1 && found[0].starts_with("b says"), "{found:?}");
}

#[test]
fn ready_nodes_may_wait_for_a_bus_that_is_away() {
    let mut bench = Bench::new();
    bench.pass(seconds(10));
    bench.alive = [false; 3];
    bench.service.excuse(true, bench.now);
    bench.service.allow(&Allowance::AwaitsBus);
    bench.pass(seconds(20));
    bench.service.excuse(false, bench.now);
    bench.service.allow(&Allowance::None);
    bench.pass(seconds(1));
    assert_eq!(bench.found(), []);
    bench.pass(seconds(3));
    assert_eq!(bench.found().len(), 9, "three nodes and six partitions");
}

#[test]
fn a_node_that_says_it_is_not_ready_may_fail() {
    let mut bench = Bench::new();
    bench.pass(seconds(10)).kill(1).take_over(1).pass(seconds(30));
    assert_eq!(bench.found(), []);
    assert!(!bench.service.are_ready());
}

#[test]
fn an_answer_shows_that_a_waiting_question_fails_alone() {
    let mut bench = Bench::new();
    bench.pass(seconds(10));
    let asked = Asked { partition: 0, node: 0, at: bench.now };
    bench.now += seconds(1);
    bench.service.note_answer(Asked { node: 1, ..asked }, bench.now);
    bench.service.note_failure(asked);
    bench.now += STEP;
    bench.service.note_answer(Asked { node: 2, ..asked }, bench.now);
    assert_eq!(bench.service.sums.longest, STEP);
}

#[test]
fn a_stall_of_the_rig_excuses_its_own_time() {
    // The rig stands still for 3 s of the outage: 5 s and 3 s are allowed.
    for (time, found) in [(3_900, 0), (4_500, 2)] {
        let mut bench = Bench::new();
        bench.pass(seconds(10)).kill(0).pass(seconds(1));
        bench.now += seconds(3);
        bench.pass(Duration::from_millis(time)).take_over(0).pass(seconds(4));
        assert_eq!(bench.found().len(), found, "{time} ms");
        let sums = bench.service.sums;
        assert_eq!((sums.stood_still, sums.stalled), (1, seconds(3) + STEP));
    }
}

#[test]
fn stalls_of_the_rig_do_not_hide_an_outage() {
    let mut bench = Bench::new();
    bench.pass(seconds(10)).kill(0);
    for _ in 0..20 {
        bench.now += seconds(1);
        bench.pass(STEP);
    }
    assert_eq!(bench.found().len(), 2, "both partitions of the dead node");
    assert_eq!(bench.service.sums.stood_still, 20);
}

#[test]
fn stalls_of_the_rig_do_not_hide_a_false_readiness() {
    let mut bench = Bench::new();
    bench.pass(seconds(10));
    bench.alive[2] = false;
    for (stalls, found) in [(5, 0), (10, 3)] {
        for _ in 0..stalls {
            bench.now += seconds(1);
            bench.pass(STEP);
        }
        let count = bench.found().iter().filter(|(finding, _)| *finding == Finding::Unserved).count();
        assert_eq!(count, found, "after {stalls} stalls");
    }
}

#[test]
fn members_that_keep_each_message_may_notice_a_standstill() {
    let mut bench = Bench::new();
    bench.pass(seconds(10));
    bench.service.allow(&Allowance::Keeps);
    // Nothing is acknowledged; the nodes find out after two seconds.
    bench.homes = [None; 6];
    bench.pass(seconds(3)).ready = [false; 3];
    bench.pass(seconds(1));
    assert_eq!(bench.found(), []);
    bench.ready = [true; 3];
    bench.pass(seconds(6));
    assert!(bench.found().iter().any(|(finding, _)| *finding == Finding::Unserved), "they never say so");
}
