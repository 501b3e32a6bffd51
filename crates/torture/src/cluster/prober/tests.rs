//! Probes at servers of a few lines: one that serves, and one that refuses.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Longest wait for something that must come.
const ENOUGH: Duration = Duration::from_secs(60);

/// Answers CONNECT and PUBLISH while it serves; refuses clients otherwise. Gives its port.
fn server(serves: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serves = Arc::clone(&serves);
            std::thread::spawn(move || answer(stream, &serves));
        }
    });
    port
}

fn answer(mut stream: TcpStream, serves: &AtomicBool) {
    let mut head = [0; 2];
    while stream.read_exact(&mut head).is_ok() {
        let mut rest = vec![0; usize::from(head[1])];
        let refused = !serves.load(Ordering::Relaxed);
        let answer = match head[0] >> 4 {
            1 => [0x20, 2, 0, if refused { 3 } else { 0 }],
            3 if !refused => [0x40, 2, 0, 1],
            _ => return,
        };
        if stream.read_exact(&mut rest).is_err() || stream.write_all(&answer).is_err() {
            return;
        }
    }
}

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
