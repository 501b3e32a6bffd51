//! The section [dns]: the entry point.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_document::Keys;

const SECOND: Duration = Duration::from_secs(1);
/// Longest name of a zone, bytes: names below it must fit into 255 with a label of 63 (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 255 - 64 - 2;
/// Longest label, bytes (RFC 1035, section 2.3.4).
const MAX_LABEL: usize = 63;

/// The entry point of a fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct Dns {
    /// The name that clients ask for, such as `mqtt.example.com`.
    pub name: String,
    /// The addresses it listens on, UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// How long an answer may be kept, 5 to 30 s.
    pub ttl: Duration,
    /// How it chooses.
    pub policy: DnsPolicy,
    /// Whether SERVFAIL is answered when no orchestrator is healthy.
    pub strict: bool,
    /// Queries per second of one network; 0 for no limit, `None` for the usual one.
    pub rate: Option<u32>,
    /// A file of locations of askers: lines of NETWORK LATITUDE LONGITUDE; absolute or relative to the file.
    pub places: Option<PathBuf>,
    /// A city database of locations of askers, in the format of MaxMind; absolute or relative to the file.
    pub maxmind: Option<PathBuf>,
    /// Settings of orchestrators, by their name or that of their template.
    pub endpoints: BTreeMap<String, DnsEndpoint>,
    /// Another DNS server that gets the same names.
    pub update: Option<DnsUpdate>,
}

/// A DNS server whose zone is updated (RFC 2136).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsUpdate {
    /// The primary server of the zone.
    pub server: SocketAddr,
    /// The zone at that server; the name of the fleet is in it.
    pub zone: String,
    /// The file of the key, as `tsig-keygen` writes it; absolute or relative to the file.
    pub key_file: PathBuf,
}

/// How an entry point chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DnsPolicy {
    /// Each in turn.
    #[default]
    RoundRobin,
    /// Each in turn, more often by its weight.
    Weighted,
    /// The one with the fewest clients.
    LeastLoaded,
    /// The one nearest to the asker.
    Nearest,
}

/// The settings of an orchestrator for the entry point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DnsEndpoint {
    /// Its weight with `weighted`, 0 to 65535; default 1.
    pub weight: Option<u16>,
    /// Its port for MQTT over TLS.
    pub secure_port: Option<u16>,
    /// Its location: latitude and longitude, degrees.
    pub at: Option<(f64, f64)>,
}

impl Dns {
    /// The settings of an orchestrator: its own, else its template's.
    pub fn endpoint(&self, name: &str, template: &str) -> DnsEndpoint {
        let own = self.endpoints.get(name).copied().unwrap_or_default();
        let of_template = self.endpoints.get(template).copied().unwrap_or_default();
        DnsEndpoint {
            weight: own.weight.or(of_template.weight),
            secure_port: own.secure_port.or(of_template.secure_port),
            at: own.at.or(of_template.at),
        }
    }

    /// The same with its files below a directory.
    pub(super) fn below(self, parent: &Path) -> Self {
        let below = |path: Option<PathBuf>| path.map(|path| parent.join(path));
        let update = self.update.map(|update| DnsUpdate { key_file: parent.join(&update.key_file), ..update });
        Self { places: below(self.places), maxmind: below(self.maxmind), update, ..self }
    }
}

/// Reads the section. `is_known` says whether there can be an orchestrator or template of a name.
pub(super) fn read(keys: &mut Keys<'_>, is_known: impl Fn(&str) -> bool) -> Dns {
    let name = keys.need("name", "\"mqtt.fleet.example\"", Keys::text);
    if let Some(problem) = name.as_deref().and_then(wrong_name) {
        keys.refuse("name", &problem, "write, for example, name = \"mqtt.fleet.example\"");
    }
    let update = keys.table("update", |keys| update(name.as_deref().unwrap_or_default(), keys));
    let listen = if update.is_some() && !keys.has("listen") {
        None
    } else {
        keys.need("listen", "\"127.0.0.1:5353\"", |keys, _| Some(listen(keys)))
    };
    let ttl = keys.duration("ttl", SECOND * 5..=SECOND * 30).unwrap_or(SECOND * 10);
    let policies = [
        ("round-robin", DnsPolicy::RoundRobin),
        ("weighted", DnsPolicy::Weighted),
        ("least-loaded", DnsPolicy::LeastLoaded),
        ("nearest", DnsPolicy::Nearest),
    ];
    let dns = Dns {
        name: name.unwrap_or_default(),
        listen: listen.unwrap_or_default(),
        ttl,
        policy: keys.word("policy", &policies).unwrap_or_default(),
        strict: keys.truth("strict").unwrap_or(false),
        rate: keys.number("rate", 0..=u64::from(u32::MAX)).and_then(|rate| u32::try_from(rate).ok()),
        places: keys.text("places").map(PathBuf::from),
        maxmind: keys.text("maxmind").map(PathBuf::from),
        endpoints: keys.table("endpoints", |keys| Some(endpoints(keys, is_known))).unwrap_or_default(),
        update,
    };
    refuse_without_effect(&dns, keys);
    dns
}

/// The section [dns.update].
fn update(name: &str, keys: &mut Keys<'_>) -> Option<DnsUpdate> {
    let server = keys.need("server", "\"192.0.2.53:53\"", Keys::text).and_then(|text| {
        let found = text.to_socket_addrs().map(|mut found| found.next());
        if let Err(error) = &found {
            let hint = "write HOST:PORT, such as server = \"192.0.2.53:53\"; an address needs no lookup";
            keys.refuse("server", &format!("names {text:?}, which cannot be found: {error}"), hint);
        }
        found.ok().flatten()
    });
    let zone = keys.need("zone", "\"example.com\"", Keys::text);
    if let Some(zone) = &zone
        && !is_within(name, zone)
    {
        keys.refuse(
            "zone",
            &format!("does not contain the name `{name}`"),
            "name the zone that the server is primary for",
        );
    }
    let key_file = keys.need("key_file", "\"fleet.key\"", Keys::text).map(PathBuf::from);
    Some(DnsUpdate { server: server?, zone: zone?, key_file: key_file? })
}

/// True if a name is that of a zone, or below it.
fn is_within(name: &str, zone: &str) -> bool {
    let lower = |text: &str| text.trim_end_matches('.').to_ascii_lowercase();
    let (name, zone) = (lower(name), lower(zone));
    name == zone || name.strip_suffix(&zone).is_some_and(|before| before.ends_with('.'))
}

/// A setting without effect is a mistake.
fn refuse_without_effect(dns: &Dns, keys: &mut Keys<'_>) {
    if dns.listen.is_empty() && dns.update.is_some() {
        for key in ["strict", "rate", "places", "maxmind"] {
            if keys.has(key) {
                keys.refuse(key, "has no effect without `listen`", "leave it out, or add listen = \"ADDRESS:53\"");
            }
        }
        if matches!(dns.policy, DnsPolicy::LeastLoaded | DnsPolicy::Nearest) {
            let hint = "leave it out, or add listen = \"ADDRESS:53\"";
            keys.refuse("policy", "has no effect without `listen`: the other server answers with all names", hint);
            return;
        }
    }
    let places = ["places", "maxmind"];
    let located = dns.endpoints.values().any(|endpoint| endpoint.at.is_some());
    if dns.policy == DnsPolicy::Nearest {
        if !located {
            let hint = "say where orchestrators are: [dns.endpoints.NAME] with at = \"LATITUDE,LONGITUDE\"";
            keys.refuse("policy", "is `nearest`, and no place of any orchestrator is known", hint);
        }
        if dns.places.is_none() && dns.maxmind.is_none() {
            let hint = "name a file with places = \"places.txt\" or maxmind = \"city.mmdb\"";
            keys.refuse("policy", "is `nearest`, and where askers are is not known", hint);
        }
    } else if let Some(key) = places.into_iter().find(|key| keys.has(key)) {
        keys.refuse(key, "has no effect with this policy", "set policy = \"nearest\", or leave it out");
    }
    let weighted = dns.endpoints.values().any(|endpoint| endpoint.weight.is_some());
    if weighted && dns.policy != DnsPolicy::Weighted {
        let hint = "set policy = \"weighted\", or leave the weights out";
        keys.refuse("endpoints", "has weights, which have no effect with this policy", hint);
    } else if dns.policy == DnsPolicy::Weighted && !weighted {
        let hint = "write, for example, [dns.endpoints.orchestrator-1] with weight = 3";
        keys.refuse("policy", "is `weighted`, and no endpoint has a weight", hint);
    }
}

fn wrong_name(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        let plain = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        (1..=MAX_LABEL).contains(&label.len()) && plain
    };
    match name.split('.').find(|label| !is_label(label)) {
        Some(label) => Some(format!("is no name: {label:?} is not 1 to {MAX_LABEL} letters, digits, `-` and `_`")),
        None if name.len() > MAX_NAME => Some(format!("is longer than {MAX_NAME} bytes")),
        None => None,
    }
}

/// `listen = "HOST:PORT"`, or a list of them. A host may have several addresses: all are listened on.
fn listen(keys: &mut Keys<'_>) -> Vec<SocketAddr> {
    let texts = keys.texts("listen").unwrap_or_default();
    let mut all = Vec::new();
    for text in texts {
        match text.to_socket_addrs() {
            Ok(found) => all.extend(found),
            Err(error) => {
                let hint = "write ADDRESS:PORT, such as listen = \"127.0.0.1:5353\", or a list of them";
                keys.refuse("listen", &format!("names {text:?}, which cannot be listened on: {error}"), hint);
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

fn endpoints(keys: &mut Keys<'_>, is_known: impl Fn(&str) -> bool) -> BTreeMap<String, DnsEndpoint> {
    let mut endpoints = BTreeMap::new();
    for name in keys.names() {
        if !is_known(&name) {
            let hint = "name an orchestrator, such as orchestrator-1 or an attached one, or its template";
            keys.refuse(&name, "is no orchestrator and no template of one", hint);
        }
        endpoints.extend(keys.table(&name, |keys| Some(endpoint(keys))).map(|endpoint| (name, endpoint)));
    }
    endpoints
}

fn endpoint(keys: &mut Keys<'_>) -> DnsEndpoint {
    let number = |keys: &mut Keys<'_>, key, least| {
        keys.number(key, least..=65_535).and_then(|number| u16::try_from(number).ok())
    };
    let (weight, secure_port) = (number(keys, "weight", 0), number(keys, "secure_port", 1));
    let at = keys.text("at").and_then(|text| {
        let at = place(&text);
        if at.is_none() {
            let hint = "write LATITUDE,LONGITUDE in degrees, such as at = \"41.9,12.5\"";
            keys.refuse("at", "is no place on the earth", hint);
        }
        at
    });
    DnsEndpoint { weight, secure_port, at }
}

fn place(text: &str) -> Option<(f64, f64)> {
    let (latitude, longitude) = text.split_once(',')?;
    let (latitude, longitude): (f64, f64) = (latitude.trim().parse().ok()?, longitude.trim().parse().ok()?);
    ((-90.0..=90.0).contains(&latitude) && (-180.0..=180.0).contains(&longitude)).then_some((latitude, longitude))
}
