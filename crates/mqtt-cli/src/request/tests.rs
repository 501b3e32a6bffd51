use tidegate_client::{QoS, Version};

use super::{Args, Work};
use crate::flags::parse;

fn read(flags: &[&str]) -> Result<Work, String> {
    let args: Args = parse(flags).map_err(|error| error.to_string())?;
    args.read().map_err(|error| error.to_string())
}

#[test]
fn the_request_names_the_response_topic_in_mqtt_5_only() {
    let work = read(&["-t", "ask", "-e", "answer", "-m", "x", "-q", "1"]).unwrap();
    assert_eq!(work.connection.options.version, Version::V5);
    let response_topic = work.request.properties.response_topic.unwrap();
    assert_eq!(response_topic.as_str(), "answer");
    let (filter, options) = &work.subscribe.subscriptions[0];
    assert_eq!((filter.as_str(), options.qos), ("answer", QoS::AtLeastOnce));
    let old = read(&["-t", "ask", "-e", "answer", "-n", "-V", "311"]).unwrap();
    assert_eq!(old.request.properties.response_topic, None);
}

#[test]
fn missing_and_superfluous_flags_are_refused() {
    for flags in [
        &["-t", "ask", "-m", "x"][..],
        &["-e", "answer", "-m", "x"],
        &["-t", "ask", "-e", "answer"],
        &["-t", "ask", "-e", "answer/#", "-m", "x"],
        &["-t", "ask", "-e", "answer", "-m", "x", "-n"],
        &["-t", "ask", "-e", "answer", "-m", "x", "-D", "publish", "response-topic", "other"],
        &["-t", "ask", "-e", "answer", "-m", "x", "-l"],
    ] {
        assert!(read(flags).is_err(), "{flags:?}");
    }
}
