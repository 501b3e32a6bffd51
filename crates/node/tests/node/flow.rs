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
    let burst = publish("nobody/listens", &[0; 1000]).repeat(1000);
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
