use std::thread;
use std::time::Duration;

use mio::{Events, Poll};

use super::*;

const LONG: Option<Duration> = Some(Duration::from_secs(60));

/// An end with its own poller.
struct Polled {
    end: PipeEnd,
    poll: Poll,
    events: Events,
}

impl Polled {
    fn of(mut end: PipeEnd) -> Self {
        let poll = Poll::new().unwrap();
        end.register(poll.registry(), Token(7), Interest::READABLE).unwrap();
        Self { end, poll, events: Events::with_capacity(8) }
    }

    fn is_reported(&mut self, timeout: Option<Duration>) -> bool {
        self.poll.poll(&mut self.events, timeout).unwrap();
        self.events.iter().any(|event| event.is_readable() || event.is_read_closed())
    }

    /// Reads until there is no more for now.
    fn read_all(&mut self) -> (Vec<u8>, bool) {
        let (mut all, mut buffer) = (Vec::new(), [0; 1000]);
        loop {
            match self.end.read(&mut buffer) {
                Ok(0) => return (all, true),
                Ok(count) => all.extend_from_slice(&buffer[..count]),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    return (all, false);
                }
            }
        }
    }
}

fn polled() -> (Polled, Polled) {
    let (one, other) = pair().unwrap();
    (Polled::of(one), Polled::of(other))
}

fn kind(result: std::io::Result<usize>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn bytes_come_in_order_with_one_wake_up_for_a_batch() {
    let (mut one, mut other) = polled();
    assert_eq!(one.end.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"c")]).unwrap(), 3);
    assert_eq!(one.end.write(b"de").unwrap(), 2);
    assert!(other.is_reported(LONG));
    assert!(!other.is_reported(Some(Duration::ZERO)), "the second write found the reader woken");
    assert_eq!(other.read_all(), (b"abcde".to_vec(), false));
    assert_eq!(other.end.write(b"f").unwrap(), 1);
    assert_eq!(one.read_all(), (b"f".to_vec(), false), "each direction is its own");
}

#[test]
fn a_reader_that_has_read_all_without_a_look_behind_is_woken() {
    let (mut one, mut other) = polled();
    one.end.write_all(b"abc").unwrap();
    let mut buffer = [0; 9];
    assert_eq!(other.end.read(&mut buffer).unwrap(), 3);
    one.end.write_all(b"d").unwrap();
    assert!(other.is_reported(LONG));
}

#[test]
fn a_writer_waits_for_room_and_is_woken_once_for_it() {
    let (mut one, mut other) = polled();
    let bytes = vec![1; CAPACITY + 10];
    assert_eq!(one.end.write(&bytes).unwrap(), CAPACITY);
    assert_eq!(kind(one.end.write(&bytes)), ErrorKind::WouldBlock);
    let mut buffer = vec![0; CAPACITY / 4];
    other.end.read_exact(&mut buffer).unwrap();
    assert!(!one.is_reported(Some(Duration::ZERO)), "a quarter of the room wakes no writer");
    other.end.read_exact(&mut buffer).unwrap();
    assert!(one.is_reported(LONG));
    assert_eq!((one.read_all(), one.end.has_room()), ((Vec::new(), false), true));
    assert_eq!(one.end.write(&bytes).unwrap(), CAPACITY / 2);
    assert!(!one.end.has_room());
    assert_eq!(other.read_all().0.len(), CAPACITY);
    assert!(one.is_reported(LONG), "a part that found no room waits, too");
}

#[test]
fn an_end_that_goes_leaves_its_bytes_and_takes_none() {
    let (mut one, mut other) = polled();
    one.end.write_all(b"last").unwrap();
    drop(one);
    assert!(other.is_reported(LONG));
    assert_eq!(other.read_all(), (b"last".to_vec(), true));
    assert_eq!(kind(other.end.write(b"x")), ErrorKind::BrokenPipe);

    let (mut one, mut other) = polled();
    assert_eq!(one.read_all(), (Vec::new(), false));
    other.end.shutdown_write();
    assert!(one.is_reported(LONG));
    assert_eq!(one.read_all(), (Vec::new(), true));
    one.end.write_all(b"answer").unwrap();
    assert_eq!(other.read_all(), (b"answer".to_vec(), false), "one direction has ended, and not the other");
}

#[test]
fn a_bell_is_emptied_before_it_is_full() {
    let (mut one, mut other) = polled();
    for round in 0..2_000 {
        one.end.write_all(&[7]).unwrap();
        assert!(other.is_reported(LONG), "round {round}");
        assert_eq!(other.read_all(), (vec![7], false));
    }
}

#[test]
fn a_bell_does_not_fill_while_its_owner_only_writes() {
    let (mut one, mut other) = polled();
    // Bytes that the writer does not read, and has to find later.
    assert_eq!(one.read_all(), (Vec::new(), false));
    other.end.write_all(b"answer").unwrap();
    let bytes = vec![1; CAPACITY + 1];
    for round in 0..2_000 {
        while one.end.write(&bytes).is_ok() {}
        let mut half = vec![0; CAPACITY / 2];
        other.end.read_exact(&mut half).unwrap();
        assert!(one.is_reported(LONG), "round {round}");
        assert!(one.end.has_room(), "round {round}");
    }
    // As at another poller, to which it moves.
    one.end.deregister(one.poll.registry()).unwrap();
    one.end.register(one.poll.registry(), Token(7), Interest::READABLE).unwrap();
    assert!(one.is_reported(LONG), "a ring for bytes stays");
    assert_eq!(one.read_all().0, b"answer");
}

#[test]
fn a_read_says_whether_it_leaves_bytes_or_the_end() {
    let (mut one, mut other) = polled();
    one.end.write_all(b"abc").unwrap();
    let mut buffer = [0; 2];
    assert_eq!((other.end.read(&mut buffer).unwrap(), other.end.has_more()), (2, true));
    assert_eq!((other.end.read(&mut buffer).unwrap(), other.end.has_more()), (1, false));
    one.end.write_all(b"d").unwrap();
    one.end.shutdown_write();
    assert!(other.is_reported(LONG));
    assert_eq!(
        (other.end.read(&mut buffer).unwrap(), other.end.has_more()),
        (1, true),
        "no ring will announce the end"
    );
    assert_eq!((other.end.read(&mut buffer).unwrap(), other.end.has_more()), (0, false));
}

#[test]
fn two_threads_lose_no_byte_and_no_wake_up() {
    const BYTES: usize = 4 * CAPACITY;
    let (mut one, mut other) = polled();
    let number = |at: usize| (at % 251) as u8;
    let writer = thread::spawn(move || {
        let all: Vec<u8> = (0..BYTES).map(number).collect();
        let mut rest = &all[..];
        let mut steps = (1..).map(|step| step * 37 % 9_000 + 1);
        while !rest.is_empty() {
            let piece = &rest[..rest.len().min(steps.next().unwrap())];
            match one.end.write(piece) {
                Ok(count) => rest = &rest[count..],
                Err(_) => assert!(one.is_reported(LONG), "a wake-up is lost"),
            }
            // Answers fill the other direction, which the writer empties now and then.
            one.read_all();
        }
        drop(one);
    });
    let mut found = 0;
    loop {
        let (bytes, ended) = other.read_all();
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == number(found + at)));
        found += bytes.len();
        if ended {
            break;
        }
        let _ = other.end.write(b"answer");
        assert!(other.is_reported(LONG), "a wake-up is lost");
    }
    writer.join().unwrap();
    assert_eq!(found, BYTES);
}
