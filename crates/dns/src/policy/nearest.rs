//! The one with the shortest way.

use super::round_robin::RoundRobin;
use crate::endpoint::Endpoint;
use crate::location::Location;

/// Endpoints whose distances differ by less than this take turns, km: the best precision of a network's coordinates.
const SAME_PLACE_KM: f64 = 10.0;

/// The endpoint with the next turn in one place.
#[derive(Debug)]
pub(crate) struct Nearest {
    equals: RoundRobin,
}

impl Nearest {
    pub(crate) fn new(seed: u64) -> Self {
        Self { equals: RoundRobin::new(seed) }
    }

    pub(crate) fn choose(&mut self, endpoints: &[Endpoint], among: &[usize], asker: Option<Location>) -> Option<usize> {
        let Some(asker) = asker else { return self.equals.choose(endpoints.len(), among) };
        let distance = |place: usize| {
            let location = endpoints.get(place).and_then(|endpoint| endpoint.location);
            location.map_or(f64::INFINITY, |location| location.distance_km(asker))
        };
        let least = among.iter().map(|place| distance(*place)).fold(f64::INFINITY, f64::min);
        let near: Vec<usize> =
            among.iter().copied().filter(|place| distance(*place) <= least + SAME_PLACE_KM).collect();
        self.equals.choose(endpoints.len(), &near)
    }

    pub(crate) fn carry_over(&mut self, old: &[Endpoint], new: &[Endpoint]) {
        self.equals.carry_over(old, new);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::endpoints;
    use super::*;

    fn at(latitude: f64, longitude: f64) -> Location {
        Location::new(latitude, longitude).unwrap()
    }

    /// `a` in Rome, `b` and `c` in Berlin, `d` nowhere.
    fn placed() -> Vec<Endpoint> {
        let mut all = endpoints(4);
        all[0].location = Some(at(41.9, 12.5));
        all[1].location = Some(at(52.52, 13.40));
        all[2].location = Some(at(52.50, 13.45));
        all
    }

    fn turns(among: &[usize], asker: Option<Location>) -> String {
        let (mut policy, all) = (Nearest::new(0), placed());
        (0..4).map(|_| all[policy.choose(&all, among, asker).unwrap()].name.to_string()).collect()
    }

    #[test]
    fn the_nearest_is_named_and_equally_near_ones_take_turns() {
        assert_eq!(turns(&[0, 1, 2, 3], Some(at(43.8, 11.2))), "aaaa");
        assert_eq!(turns(&[0, 1, 2, 3], Some(at(50.1, 14.4))), "bcbc");
        assert_eq!(turns(&[0, 1, 3], Some(at(50.1, 14.4))), "bbbb");
    }

    #[test]
    fn an_endpoint_without_a_place_is_the_last_choice() {
        assert_eq!(turns(&[0, 3], Some(at(-33.9, 151.2))), "aaaa");
        assert_eq!(turns(&[3], Some(at(-33.9, 151.2))), "dddd");
        assert_eq!(turns(&[0, 1, 2, 3], None), "abcd");
    }
}
