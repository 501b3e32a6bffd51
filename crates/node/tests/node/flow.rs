//! Sockets that take less than they are sent, or send more than their share.

use crate::wire::*;
use crate::{addresses, node};

/// More than the buffers of any socket hold, so that writes block and go on many times.
#[test]
fn a_large_message_reaches_a_reader_that_comes_late() {
    let node = node(1);
    let payload: Vec<u8> = (0..1_500_000_u32).map(|i| (i % 251) as u8).collect();
    for address in &addresses(&node) {
        let mut reader = Client::connect(address, "reader");
        reader.send(&subscribe("large"));
        reader.expect(&SUBACK);
        let mut writer = Client::connect(address, "writer");
        let message = publish_qos1("large", &payload);
        for _ in 0..6 {
            writer.send(&message);
            writer.expect(&PUBACK);
        }
        for _ in 0..6 {
            reader.expect(&publish("large", &payload));
        }
    }
    assert!(node.handle().report().unwrap().shell.writes_blocked > 0);
}

/// A ping is answered although another client sends without end.
#[test]
fn a_firehose_does_not_silence_others() {
    let node = node(1);
    let [tcp, ..] = addresses(&node);
    let mut firehose = Client::connect(&tcp, "firehose");
    let burst = publish("no/subscriber", &[0; 1000]).repeat(1000);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let flood = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            firehose.send(&burst);
        }
    });
    let mut other = Client::connect(&tcp, "other");
    for _ in 0..100 {
        other.send(&PINGREQ);
        other.expect(&PINGRESP);
    }
    drop(stop);
    flood.join().unwrap();
}

/// Bytes that came together with the end of the connection are not lost.
#[test]
fn the_last_bytes_before_the_end_count() {
    let node = node(1);
    for address in &addresses(&node) {
        let mut reader = Client::connect(address, "reader");
        reader.send(&subscribe("last"));
        reader.expect(&SUBACK);
        let mut writer = Client::connect(address, "writer");
        writer.send(&[publish("last", b"words"), DISCONNECT.to_vec()].concat());
        writer.socket().finish();
        reader.expect(&publish("last", b"words"));
        assert_eq!(writer.rest(), b"");
    }
}

/// A message to many is written to some of them in each turn, so that everybody else is served between. All get it.
#[test]
fn a_message_to_many_does_not_make_a_long_turn() {
    const READERS: usize = 2_400;
    const MESSAGES: usize = 5;
    let node = node(1);
    let [tcp, ..] = addresses(&node);
    let mut readers: Vec<Client> = (0..READERS)
        .map(|number| {
            let mut reader = Client::connect(&tcp, &format!("reader-{number}"));
            reader.send(&subscribe("many"));
            reader.expect(&SUBACK);
            reader
        })
        .collect();
    let mut writer = Client::connect(&tcp, "writer");
    let messages: Vec<Vec<u8>> = (0..MESSAGES).map(|number| publish("many", &[number as u8; 100])).collect();
    writer.send(&messages.concat());
    writer.send(&PINGREQ);
    writer.expect(&PINGRESP);
    for reader in &mut readers {
        reader.expect(&messages.concat());
    }
    let shell = node.handle().report().unwrap().shell;
    assert!(shell.writes >= READERS as u64, "{} writes", shell.writes);
    assert!(shell.most_writes.0 < READERS as u64 / 4, "{} sockets were written in one turn", shell.most_writes.0);
}

/// Connections that close while they wait in line neither stop the others nor stay.
#[test]
fn connections_in_line_may_close() {
    let node = node(1);
    let [tcp, ..] = addresses(&node);
    let mut readers: Vec<Client> = (0..200)
        .map(|number| {
            let mut reader = Client::connect(&tcp, &format!("reader-{number}"));
            reader.send(&subscribe("many"));
            reader.expect(&SUBACK);
            reader
        })
        .collect();
    let mut writer = Client::connect(&tcp, "writer");
    let message = publish("many", &[7; 1000]);
    // Half of them go, some before the message, some while it is on its way to them.
    let rest = readers.split_off(100);
    writer.send(&message.repeat(20));
    drop(readers);
    for mut reader in rest {
        reader.expect(&message.repeat(20));
    }
    writer.send(&PINGREQ);
    writer.expect(&PINGRESP);
    let stopped = node.stop(std::time::Duration::from_secs(60));
    assert!(stopped.drained && stopped.failed.is_empty(), "{stopped:?}");
}
