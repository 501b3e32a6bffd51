//! The suite judges: against a stand-in with answers of the test's choice, right or wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;
use tidegate_conformance::{CaseOutcome, Options, Report, Version, run};

/// Answers CONNECT, SUBSCRIBE and UNSUBSCRIBE of MQTT 3.1.1 well, PINGREQ with `pingresp`, and closes on anything else.
/// A CONNECT of another version is refused, so that the suite speaks 3.1.1 alone.
fn stand_in(pingresp: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve(stream, pingresp));
        }
    });
    address
}

/// Ends with the connection; the suite notices failures then.
fn serve(mut stream: TcpStream, pingresp: &[u8]) -> Option<()> {
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).ok()?;
        let mut body = vec![0; usize::from(head[1])];
        stream.read_exact(&mut body).ok()?;
        let packet_id = body.get(..2).unwrap_or_default().to_vec();
        let answer = match head[0] {
            0x10 if body.get(6) == Some(&4) => vec![0x20, 2, 0, 0],
            0x82 => [&[0x90, 3], &packet_id[..], &[0]].concat(),
            0xa2 => [&[0xb0, 2], &packet_id[..]].concat(),
            0xc0 => pingresp.to_vec(),
            _ => return None,
        };
        stream.write_all(&answer).ok()?;
    }
}

fn judge(pingresp: &'static [u8], only: &str, patience: Duration) -> Report {
    let mut options = Options::new(stand_in(pingresp));
    options.only = vec![only.to_owned()];
    options.patience = patience;
    run(&options).unwrap()
}

/// For answers that come.
const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn a_right_answer_passes_and_other_versions_are_skipped() {
    let report = judge(&[0xd0, 0], "keep_alive.ping_is_answered", PATIENCE);
    assert!(report.is_success());
    assert_eq!(report.results.len(), 3);
    for result in &report.results {
        let skipped = matches!(result.outcome, CaseOutcome::Skipped(_));
        assert_eq!(skipped, result.version != Version::V311, "{result:?}");
    }
    assert_eq!(report.score(Version::V311).held, 1);
    assert_eq!(report.score(Version::V5).skipped, 1);
}

#[test]
fn a_wrong_answer_fails_with_the_statement_and_the_bytes() {
    let report = judge(&[0xd1, 0], "keep_alive.ping_is_answered", PATIENCE);
    assert!(!report.is_success());
    assert_eq!(report.score(Version::V311).broken, 1);
    let text: String = report.failures().map(tidegate_conformance::Result::explain).collect();
    for part in ["FAILED keep_alive.ping_is_answered (MQTT 3.1.1)", "MQTT-2.2.2-1", "<- PINGRESP", "d1 00"] {
        assert!(text.contains(part), "no `{part}` in:\n{text}");
    }
}

#[test]
fn no_answer_fails_after_the_patience() {
    let report = judge(&[], "3.12.4-1", Duration::from_millis(500));
    let text: String = report.failures().map(tidegate_conformance::Result::explain).collect();
    assert!(text.contains("expected PINGRESP, nothing came for 0.5 s"), "{text}");
    assert!(text.contains("statements: MQTT-3.12.4-1"), "{text}");
}
