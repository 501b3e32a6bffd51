use tidegate_client::{QoS, RetainHandling, Version};

use tidegate_random::SplitMix64;

use super::{Args, Chance, Work};
use crate::flags::parse;

fn read(flags: &[&str]) -> Result<Work, String> {
    let args: Args = parse(flags).map_err(|error| error.to_string())?;
    args.read().map_err(|error| error.to_string())
}

#[test]
fn several_topics_and_their_options() {
    let work = read(&["-t", "a/#", "-L", "mqtt://h/url", "-t", "b", "-q", "1", "-T", "a/x", "-U", "c"]).unwrap();
    assert_eq!(work.topics(), ["url", "a/#", "b"]);
    assert!(work.subscribe.subscriptions.iter().all(|(_, options)| options.qos == QoS::AtLeastOnce));
    assert_eq!(work.unsubscribe.filters.len(), 1);
    assert_eq!(work.filter_out.len(), 1);
    assert_eq!(work.connection.options.version, Version::V311);
}

#[test]
fn retain_options_are_of_mqtt_5() {
    let work = read(&["-t", "a", "--retain-as-published", "--retain-handling", "never"]).unwrap();
    assert_eq!(work.connection.options.version, Version::V5);
    let (_, options) = &work.subscribe.subscriptions[0];
    assert!(options.retain_as_published);
    assert_eq!(options.retain_handling, RetainHandling::DoNotSend);
    assert!(read(&["-t", "a", "--retain-as-published", "-V", "311"]).is_err());
    assert!(read(&["-t", "a", "--retain-handling", "sometimes"]).is_err());
}

#[test]
fn invalid_flags_are_refused() {
    for flags in [
        &[][..],
        &["-t", "a/#/b"],
        &["-t", "a", "-T", "b+"],
        &["-t", "a", "-U", ""],
        &["-t", "a", "-C", "0"],
        &["-t", "a", "-W", "0"],
        &["-t", "a", "-R", "--retained-only"],
        &["-t", "a", "-F", "%z"],
        &["-t", "a", "--message-rate", "-v"],
        &["-t", "a", "--random-filter", "0"],
        &["-t", "a", "surplus"],
    ] {
        assert!(read(flags).is_err(), "{flags:?}");
    }
    assert!(read(&["-U", "a"]).is_ok());
}

#[test]
fn chance_lets_about_its_share_through() {
    let mut always = Chance { share: Chance::new(None).share, series: SplitMix64::new(1) };
    assert!((0..10_000).all(|_| always.draw()));
    let mut some = Chance { share: Chance::new(Some(10.0)).share, series: SplitMix64::new(1) };
    let drawn = (0..10_000).filter(|_| some.draw()).count();
    assert!((900..1100).contains(&drawn), "{drawn}");
}
