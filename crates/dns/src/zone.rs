//! The zone: which endpoints there are, and which one is named next.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::endpoint::{Endpoint, EndpointName};
use crate::location::Location;
use crate::policy::Chooser;
use crate::settings::{NoneHealthy, Settings};

/// Endpoints at most.
const MAX_ENDPOINTS: usize = 4096;
/// Addresses of one endpoint or name server at most.
pub(crate) const MAX_ADDRESSES: usize = 16;

/// Why endpoints were refused. The former endpoints stay.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// There are too many.
    #[error("{number} endpoints are more than {MAX_ENDPOINTS}: use another zone for some of them")]
    TooMany {
        /// How many were given.
        number: usize,
    },
    /// Two have the same name.
    #[error("two endpoints are named `{0}`: give each a name of its own")]
    SameName(EndpointName),
    /// A server of the zone has the name.
    #[error("`{0}` is the name of a server of the zone: name the endpoint otherwise")]
    NameOfServer(EndpointName),
    /// One has no address, or too many.
    #[error("endpoint `{name}` has {number} addresses: give it 1 to {MAX_ADDRESSES}")]
    Addresses {
        /// The endpoint.
        name: EndpointName,
        /// How many it has.
        number: usize,
    },
    /// An endpoint has an address that no client can connect to.
    #[error(
        "endpoint `{name}` has the address {address}, which clients cannot connect to: give it the address of one machine"
    )]
    NotAMachine {
        /// The endpoint.
        name: EndpointName,
        /// The address.
        address: IpAddr,
    },
    /// One has port 0.
    #[error("endpoint `{0}` has port 0: give it the port that it listens on")]
    Port(EndpointName),
}

/// The records that an answer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// An address of IPv4.
    V4 = 0,
    /// An address of IPv6.
    V6 = 1,
    /// Host and port of MQTT.
    Mqtt = 2,
    /// Host and port of MQTT over TLS.
    SecureMqtt = 3,
}

impl Wanted {
    const ALL: [Self; 4] = [Self::V4, Self::V6, Self::Mqtt, Self::SecureMqtt];

    fn offered_by(self, endpoint: &Endpoint) -> bool {
        match self {
            Self::V4 => endpoint.addresses.iter().any(IpAddr::is_ipv4),
            Self::V6 => endpoint.addresses.iter().any(IpAddr::is_ipv6),
            Self::Mqtt => true,
            Self::SecureMqtt => endpoint.secure_port.is_some(),
        }
    }
}

/// An endpoint among all, and how often it was chosen before.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    endpoints: Arc<[Endpoint]>,
    place: usize,
    turns: Turns,
}

/// How often an endpoint was chosen for an address of IPv4 and of IPv6.
///
/// Each endpoint and family has a count of its own: with one for all, an endpoint that is chosen every second time
/// would only ever show every second of its addresses.
type Turns = [usize; 2];

impl Chosen {
    pub(crate) fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoints.get(self.place)
    }

    /// One of its addresses, the next with each turn.
    pub(crate) fn address(&self, v6: bool) -> Option<IpAddr> {
        let of_family = || self.endpoint().into_iter().flat_map(|one| &one.addresses).filter(|one| one.is_ipv6() == v6);
        of_family().nth(self.turns[usize::from(v6)] % of_family().count().max(1)).copied()
    }
}

/// The result of a choice.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// A healthy one.
    Healthy(Chosen),
    /// None is healthy; this is an unhealthy one.
    LeastBad(Chosen),
    /// Eligible endpoints exist, but none offers the wanted service or family.
    NotOffered,
    /// No endpoint can be named.
    Unavailable,
}

/// The indices of endpoints that offer the wanted service or family.
#[derive(Debug, Default)]
struct Candidates {
    healthy: Vec<usize>,
    unhealthy: Vec<usize>,
}

#[derive(Debug)]
struct State {
    /// Ordered by name.
    endpoints: Arc<[Endpoint]>,
    candidates: [Candidates; 4],
    choosers: [Chooser; 4],
    serial: u32,
    /// By place.
    turns: Vec<Turns>,
}

impl State {
    /// The records of an endpoint; the turn of each named address family advances.
    fn chosen(&mut self, place: usize, v4: bool, v6: bool) -> Chosen {
        let turns = self.turns.get_mut(place).map_or([0; 2], |turns| {
            let before = *turns;
            *turns = [before[0].wrapping_add(v4.into()), before[1].wrapping_add(v6.into())];
            before
        });
        Chosen { endpoints: Arc::clone(&self.endpoints), place, turns }
    }

    /// The turns of new endpoints. Endpoints that stay keep their turns.
    fn turns_of(&self, endpoints: &[Endpoint]) -> Vec<Turns> {
        let before = |endpoint: &Endpoint| {
            let place = self.endpoints.binary_search_by(|old| old.name.cmp(&endpoint.name)).ok()?;
            self.turns.get(place).copied()
        };
        endpoints.iter().map(|endpoint| before(endpoint).unwrap_or_default()).collect()
    }
}

#[derive(Debug)]
struct Shared {
    none_healthy: NoneHealthy,
    /// Labels below the zone that name its servers.
    servers: BTreeSet<String>,
    /// Held for one choice or one change, never across a wait.
    state: Mutex<State>,
}

/// The endpoints of a running server. A clone is the same zone.
#[derive(Clone, Debug)]
pub struct Zone(Arc<Shared>);

impl Zone {
    /// A zone without endpoints.
    pub(crate) fn new(settings: &Settings, servers: BTreeSet<String>, seed: u64, serial: u32) -> Self {
        let state = State {
            endpoints: Arc::new([]),
            candidates: <[Candidates; 4]>::default(),
            choosers: Wanted::ALL.map(|_| Chooser::new(settings.policy, seed)),
            serial,
            turns: Vec::new(),
        };
        Self(Arc::new(Shared { none_healthy: settings.none_healthy, servers, state: Mutex::new(state) }))
    }

    /// Replaces all endpoints; the next query is answered by the new ones. Turns continue for names that stay. At most
    /// 4,096.
    ///
    /// # Errors
    /// When one of them cannot be named; then the former endpoints stay.
    pub fn set_endpoints(&self, mut endpoints: Vec<Endpoint>) -> Result<(), ZoneError> {
        if endpoints.len() > MAX_ENDPOINTS {
            return Err(ZoneError::TooMany { number: endpoints.len() });
        }
        endpoints.iter().try_for_each(|endpoint| self.check(endpoint))?;
        endpoints.sort_by(|one, other| one.name.cmp(&other.name));
        if let Some([one, ..]) =
            endpoints.windows(2).find(|pair| matches!(pair, [one, other] if one.name == other.name))
        {
            return Err(ZoneError::SameName(one.name.clone()));
        }
        let mut state = self.lock();
        if *state.endpoints != *endpoints {
            state.serial = state.serial.wrapping_add(1);
        }
        state.turns = state.turns_of(&endpoints);
        state.candidates = Wanted::ALL.map(|wanted| candidates(&endpoints, wanted));
        let State { endpoints: old, choosers, .. } = &mut *state;
        for chooser in choosers {
            chooser.carry_over(old, &endpoints);
        }
        state.endpoints = endpoints.into();
        Ok(())
    }

    /// The endpoints as they were set, ordered by name.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.lock().endpoints.to_vec()
    }

    /// The serial number of the zone's SOA; it grows with each change.
    pub fn serial(&self) -> u32 {
        self.lock().serial
    }

    fn check(&self, endpoint: &Endpoint) -> Result<(), ZoneError> {
        let name = || endpoint.name.clone();
        if self.0.servers.contains(endpoint.name.as_str()) {
            return Err(ZoneError::NameOfServer(name()));
        }
        if !(1..=MAX_ADDRESSES).contains(&endpoint.addresses.len()) {
            return Err(ZoneError::Addresses { name: name(), number: endpoint.addresses.len() });
        }
        if let Some(&address) = endpoint.addresses.iter().find(|one| one.is_unspecified() || one.is_multicast()) {
            return Err(ZoneError::NotAMachine { name: name(), address });
        }
        if endpoint.port == 0 || endpoint.secure_port == Some(0) {
            return Err(ZoneError::Port(name()));
        }
        Ok(())
    }

    /// The endpoint that the policy names next.
    pub(crate) fn choose(&self, wanted: Wanted, asker: Option<Location>) -> Choice {
        let mut state = self.lock();
        let State { endpoints, candidates, choosers, .. } = &mut *state;
        let healthy_at_all = candidates.iter().any(|candidates| !candidates.healthy.is_empty());
        let others_at_all = candidates.iter().any(|candidates| !candidates.unhealthy.is_empty());
        let least_bad = !healthy_at_all && self.0.none_healthy == NoneHealthy::LeastBad;
        let can_be_named = healthy_at_all || (least_bad && others_at_all);
        if !can_be_named {
            return Choice::Unavailable;
        }
        let (Some(candidates), Some(chooser)) = (candidates.get(wanted as usize), choosers.get_mut(wanted as usize))
        else {
            return Choice::NotOffered;
        };
        let among = if least_bad { &candidates.unhealthy } else { &candidates.healthy };
        let Some(place) = chooser.choose(endpoints, among, asker) else { return Choice::NotOffered };
        let chosen = state.chosen(place, wanted != Wanted::V6, wanted != Wanted::V4);
        if least_bad { Choice::LeastBad(chosen) } else { Choice::Healthy(chosen) }
    }

    /// The endpoint of a name in lower case, for an address of one family, unless it drains.
    pub(crate) fn named(&self, label: &str, v6: bool) -> Option<Chosen> {
        let mut state = self.lock();
        let place = state.endpoints.binary_search_by(|endpoint| endpoint.name.as_str().cmp(label)).ok()?;
        state.endpoints.get(place).filter(|endpoint| !endpoint.draining)?;
        Some(state.chosen(place, !v6, v6))
    }

    /// The state is whole between any two statements that could panic, so a panic elsewhere does not end the zone.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Endpoints that offer the wanted service or family and do not drain.
fn candidates(endpoints: &[Endpoint], wanted: Wanted) -> Candidates {
    let mut found = Candidates::default();
    for (place, endpoint) in endpoints.iter().enumerate() {
        if !endpoint.draining && wanted.offered_by(endpoint) {
            if endpoint.healthy { found.healthy.push(place) } else { found.unhealthy.push(place) }
        }
    }
    found
}

#[cfg(test)]
mod tests;
