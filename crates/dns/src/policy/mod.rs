//! Policies that choose one endpoint of the eligible ones.

mod least_loaded;
mod nearest;
mod round_robin;
mod weighted;

use std::str::FromStr;

use crate::endpoint::{Endpoint, EndpointName};
use crate::location::Location;
use least_loaded::LeastLoaded;
use nearest::Nearest;
use round_robin::RoundRobin;
use weighted::Weighted;

/// How an endpoint is chosen for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Each in turn (the study's, BRK-22).
    #[default]
    RoundRobin,
    /// Each in turn, those with more weight more often, evenly spread (smooth weighted round robin).
    Weighted,
    /// The least busy one. Each answer counts as one hundredth of load until the next report, so that a burst of
    /// clients between two reports does not all go to one endpoint.
    LeastLoaded,
    /// The one nearest to the asker, by the subnet that its resolver passes on (RFC 7871) or by the resolver itself.
    /// Endpoints in one place take turns. All take turns where the location of the asker is unknown.
    Nearest,
}

/// A policy that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no policy `{0}`: write round-robin, weighted, least-loaded or nearest")]
pub struct UnknownPolicy(String);

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::RoundRobin, Self::Weighted, Self::LeastLoaded, Self::Nearest];

    /// Its name, such as `round-robin`.
    pub fn label(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Weighted => "weighted",
            Self::LeastLoaded => "least-loaded",
            Self::Nearest => "nearest",
        }
    }
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|policy| policy.label() == text);
        found.ok_or_else(|| UnknownPolicy(text.chars().take(40).collect()))
    }
}

/// A policy with its state between answers.
///
/// Each family (A, AAAA, SRV) has a chooser of its own: a client asks for A and AAAA at once, and with one rotation for
/// both, two endpoints would get all clients of one family each.
#[derive(Debug)]
pub(crate) enum Chooser {
    RoundRobin(RoundRobin),
    Weighted(Weighted),
    LeastLoaded(LeastLoaded),
    Nearest(Nearest),
}

impl Chooser {
    /// A chooser whose turns begin at a place that depends on the seed.
    pub(crate) fn new(policy: Policy, seed: u64) -> Self {
        match policy {
            Policy::RoundRobin => Self::RoundRobin(RoundRobin::new(seed)),
            Policy::Weighted => Self::Weighted(Weighted::new(seed)),
            Policy::LeastLoaded => Self::LeastLoaded(LeastLoaded::new(seed)),
            Policy::Nearest => Self::Nearest(Nearest::new(seed)),
        }
    }

    /// Chooses one of `among`, which are places in `endpoints`, ascending; `None` when it is empty.
    pub(crate) fn choose(&mut self, endpoints: &[Endpoint], among: &[usize], asker: Option<Location>) -> Option<usize> {
        match self {
            Self::RoundRobin(policy) => policy.choose(endpoints.len(), among),
            Self::Weighted(policy) => policy.choose(endpoints, among),
            Self::LeastLoaded(policy) => policy.choose(endpoints, among),
            Self::Nearest(policy) => policy.choose(endpoints, among, asker),
        }
    }

    /// Carries the state over to new endpoints by their names, so that a change of one does not change the turn of the
    /// others. Both lists are ordered by name.
    pub(crate) fn carry_over(&mut self, old: &[Endpoint], new: &[Endpoint]) {
        match self {
            Self::RoundRobin(policy) => policy.carry_over(old, new),
            Self::Weighted(policy) => policy.carry_over(old, new),
            Self::LeastLoaded(policy) => policy.carry_over(old, new),
            Self::Nearest(policy) => policy.carry_over(old, new),
        }
    }
}

/// The place of a name, in a list that is ordered by name.
fn place_of(endpoints: &[Endpoint], name: &EndpointName) -> Option<usize> {
    endpoints.binary_search_by(|endpoint| endpoint.name.cmp(name)).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::net::IpAddr;

    use super::*;

    /// Endpoints `a`, `b`, ... ordered by name.
    pub(crate) fn endpoints(number: u8) -> Vec<Endpoint> {
        let named = |place: u8| {
            let name = EndpointName::new(&char::from(b'a' + place).to_string()).unwrap();
            Endpoint::new(name, vec![IpAddr::from([192, 0, 2, place + 1])])
        };
        (0..number).map(named).collect()
    }

    #[test]
    fn policies_are_named() {
        for policy in Policy::ALL {
            assert_eq!(policy.label().parse(), Ok(policy));
        }
        assert!("random".parse::<Policy>().is_err());
    }

    #[test]
    fn no_policy_chooses_among_none_or_outside() {
        let all = endpoints(4);
        for policy in Policy::ALL {
            let mut chooser = Chooser::new(policy, 7);
            assert_eq!(chooser.choose(&all, &[], None), None);
            assert!((0..50).all(|_| [1, 3].contains(&chooser.choose(&all, &[1, 3], None).unwrap())));
            // Fewer endpoints than before.
            chooser.carry_over(&all, &all[..1]);
            assert_eq!(chooser.choose(&all[..1], &[0], None), Some(0));
        }
    }
}
