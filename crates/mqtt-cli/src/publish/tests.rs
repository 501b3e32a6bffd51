use std::time::Duration;

use tidegate_client::QoS;

use super::{Args, Work};
use crate::flags::message_source::MessageSource;
use crate::flags::parse;

fn read(flags: &[&str]) -> Result<Work, String> {
    let args: Args = parse(flags).map_err(|error| error.to_string())?;
    args.read().map_err(|error| error.to_string())
}

#[test]
fn where_the_payload_comes_from() {
    let source = |flags: &[&str]| read(&[&["-t", "t"], flags].concat()).unwrap().source;
    assert_eq!(source(&["-m", "-n"]), Some(MessageSource::Text(b"-n".to_vec())));
    assert_eq!(source(&["-m", ""]), Some(MessageSource::Text(Vec::new())));
    assert_eq!(source(&["-n"]), Some(MessageSource::Text(Vec::new())));
    assert_eq!(source(&["-s"]), Some(MessageSource::StandardInput));
    assert_eq!(source(&["-f", "x"]), Some(MessageSource::File("x".into())));
    assert_eq!(source(&["-l"]), None);
    for flags in [&["-m", "x", "-n"][..], &["-l", "-s"], &["-f", "x", "-m", "y"]] {
        let problem = read(&[&["-t", "t"], flags].concat()).unwrap_err();
        assert!(problem.contains("one place only"), "{problem}");
    }
    assert!(read(&["-t", "t"]).unwrap_err().contains("nothing to publish"));
}

#[test]
fn the_message_and_its_repetitions() {
    let flags = ["-t", "t", "-m", "x", "-q", "2", "-r", "--repeat", "3", "--repeat-delay", "0.5", "-M", "7"];
    let work = read(&flags).unwrap();
    assert_eq!(work.message.topic.as_str(), "t");
    assert_eq!((work.message.qos, work.message.retain), (QoS::ExactlyOnce, true));
    assert_eq!((work.times, work.delay), (3, Duration::from_millis(500)));
    assert_eq!(work.connection.options.max_in_flight.get(), 7);
    assert!(read(&["-t", "t", "-l", "--repeat", "2"]).is_err());
    assert!(read(&["-t", "t", "-m", "x", "--repeat", "0"]).is_err());
    assert!(read(&["-t", "t", "-m", "x", "-q", "3"]).is_err());
}

#[test]
fn topics() {
    assert!(read(&["-m", "x"]).unwrap_err().contains("add -t TOPIC"));
    assert!(read(&["-m", "x", "-t", "a/#"]).unwrap_err().contains("wildcard"));
    assert!(read(&["-m", "x", "-t", ""]).unwrap_err().contains("empty"));
    let too_long = read(&["-m", "x", "-t", &"x".repeat(65_536)]).unwrap_err();
    assert!(too_long.contains("(65536 bytes)") && too_long.len() < 500, "{too_long}");
    let from_url = read(&["-m", "x", "-L", "mqtt://h/a/b"]).unwrap();
    assert_eq!(from_url.message.topic.as_str(), "a/b");
    let last = read(&["-m", "x", "-t", "a", "-t", "b"]).unwrap();
    assert_eq!(last.message.topic.as_str(), "b");
}
