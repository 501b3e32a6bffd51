use super::*;
use crate::policy::tests::endpoints;
use crate::settings::ZoneName;

fn zone_with(none_healthy: NoneHealthy, endpoints: Vec<Endpoint>) -> Zone {
    let settings = Settings { none_healthy, ..Settings::new(ZoneName::new("fleet.example").unwrap()) };
    let zone = Zone::new(&settings, BTreeSet::from(["ns".to_owned()]), 0, u32::MAX);
    zone.set_endpoints(endpoints).unwrap();
    zone
}

fn zone(endpoints: Vec<Endpoint>) -> Zone {
    zone_with(NoneHealthy::LeastBad, endpoints)
}

/// The chosen name, with `+` before a healthy one, or the reason why none was chosen.
fn named(zone: &Zone, wanted: Wanted) -> String {
    let name = |chosen: &Chosen| chosen.endpoint().unwrap().name.to_string();
    match zone.choose(wanted, None) {
        Choice::Healthy(chosen) => format!("+{}", name(&chosen)),
        Choice::LeastBad(chosen) => name(&chosen),
        Choice::NotOffered => "not offered".to_owned(),
        Choice::Unavailable => "unavailable".to_owned(),
    }
}

fn turns(zone: &Zone, wanted: Wanted) -> String {
    (0..4).map(|_| named(zone, wanted)).collect()
}

#[test]
fn only_healthy_ones_are_named_while_there_are_any() {
    let mut all = endpoints(3);
    all[1].healthy = false;
    assert_eq!(turns(&zone(all), Wanted::V4), "+a+c+a+c");
}

#[test]
fn a_drained_one_vanishes_at_once_even_from_its_own_name() {
    let mut all = endpoints(2);
    let zone = zone(all.clone());
    assert_eq!(turns(&zone, Wanted::V4), "+a+b+a+b");
    all[1].draining = true;
    zone.set_endpoints(all).unwrap();
    assert_eq!(turns(&zone, Wanted::V4), "+a+a+a+a");
    assert!(zone.named("b", false).is_none() && zone.named("a", false).is_some());
}

#[test]
fn without_a_healthy_one_the_setting_decides() {
    let mut all = endpoints(3);
    for endpoint in &mut all {
        endpoint.healthy = false;
    }
    all[2].draining = true;
    assert_eq!(turns(&zone(all.clone()), Wanted::V4), "abab");
    assert_eq!(named(&zone_with(NoneHealthy::ServerFailure, all.clone()), Wanted::V4), "unavailable");
    // Its own name says where it is, not how it is.
    assert!(zone(all).named("a", false).is_some());
}

#[test]
fn no_name_is_given_where_all_drain_or_none_exists() {
    let mut all = endpoints(1);
    all[0].draining = true;
    assert_eq!(named(&zone(all), Wanted::Mqtt), "unavailable");
    assert_eq!(named(&zone(Vec::new()), Wanted::V4), "unavailable");
}

#[test]
fn a_family_of_no_healthy_endpoint_is_not_offered() {
    let mut all = endpoints(2);
    all[1].addresses = vec!["2001:db8::1".parse().unwrap()];
    all[1].healthy = false;
    all[1].secure_port = Some(8883);
    let zone = zone(all.clone());
    assert_eq!(named(&zone, Wanted::V6), "not offered");
    assert_eq!(named(&zone, Wanted::SecureMqtt), "not offered");
    assert_eq!(named(&zone, Wanted::Mqtt), "+a");
    all[0].healthy = false;
    zone.set_endpoints(all).unwrap();
    assert_eq!(named(&zone, Wanted::V6), "b");
    assert_eq!(named(&zone, Wanted::V4), "a");
}

#[test]
fn families_take_turns_apart() {
    let mut all = endpoints(2);
    for endpoint in &mut all {
        endpoint.addresses.push("2001:db8::1".parse().unwrap());
    }
    let zone = zone(all);
    // As a client asks: A, AAAA, A, AAAA.
    let both = |zone: &Zone| named(zone, Wanted::V4) + &named(zone, Wanted::V6);
    assert_eq!(both(&zone) + &both(&zone) + &both(&zone), "+a+a+b+b+a+a");
}

#[test]
fn several_addresses_of_one_endpoint_take_turns() {
    let mut all = endpoints(2);
    all[0].addresses =
        ["192.0.2.10", "2001:db8::10", "192.0.2.11", "2001:db8::11"].map(|one| one.parse().unwrap()).into();
    let zone = zone(all.clone());
    let address = |wanted, v6| match zone.choose(wanted, None) {
        Choice::Healthy(chosen) => chosen.address(v6).unwrap().to_string(),
        other => panic!("{other:?}"),
    };
    // `a` is every second choice of A and every one of AAAA, which are asked for in turn.
    let asked: Vec<[String; 2]> = (0..4).map(|_| [address(Wanted::V4, false), address(Wanted::V6, true)]).collect();
    let four: Vec<&str> = asked.iter().map(|[four, _]| four.as_str()).collect();
    let six: Vec<&str> = asked.iter().map(|[_, six]| six.as_str()).collect();
    assert_eq!(four, ["192.0.2.10", "192.0.2.2", "192.0.2.11", "192.0.2.2"]);
    assert_eq!(six, ["2001:db8::10", "2001:db8::11", "2001:db8::10", "2001:db8::11"]);
    // The turns of a name continue, also after a change of the others.
    zone.set_endpoints(all[..1].to_vec()).unwrap();
    let own = || zone.named("a", true).unwrap().address(true).unwrap().to_string();
    assert_eq!([own(), own()], ["2001:db8::10", "2001:db8::11"]);
}

#[test]
fn the_serial_grows_with_a_change_and_only_then() {
    let zone = zone(endpoints(2));
    // It began with the largest number.
    assert_eq!(zone.serial(), 0);
    zone.set_endpoints(endpoints(2)).unwrap();
    assert_eq!(zone.serial(), 0);
    zone.set_endpoints(endpoints(1)).unwrap();
    assert_eq!(zone.serial(), 1);
}

#[test]
fn an_invalid_name_is_refused_and_changes_nothing() {
    let zone = zone(endpoints(2));
    let one = |change: fn(&mut Endpoint)| {
        let mut all = endpoints(1);
        change(&mut all[0]);
        zone.set_endpoints(all).unwrap_err()
    };
    assert!(matches!(one(|one| one.addresses.clear()), ZoneError::Addresses { number: 0, .. }));
    assert!(matches!(one(|one| one.addresses = vec![one.addresses[0]; 17]), ZoneError::Addresses { number: 17, .. }));
    assert!(matches!(one(|one| one.addresses[0] = "0.0.0.0".parse().unwrap()), ZoneError::NotAMachine { .. }));
    assert!(matches!(one(|one| one.port = 0), ZoneError::Port(_)));
    assert!(matches!(one(|one| one.name = EndpointName::new("NS").unwrap()), ZoneError::NameOfServer(_)));
    let twice = [endpoints(2), endpoints(1)].concat();
    assert!(matches!(zone.set_endpoints(twice), Err(ZoneError::SameName(name)) if name.as_str() == "a"));
    let many = vec![endpoints(1)[0].clone(); MAX_ENDPOINTS + 1];
    assert!(matches!(zone.set_endpoints(many), Err(ZoneError::TooMany { number: 4097 })));
    assert_eq!(zone.endpoints(), endpoints(2));
}
