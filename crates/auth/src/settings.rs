//! The settings of a chain.

use std::path::PathBuf;
use std::time::Duration;

use crate::fleet_asker::FleetAsker;
use crate::request::Secret;

/// A chain of providers, and the bounds of its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSettings {
    /// The providers, in the order in which they are asked. Without any, everybody is refused.
    pub providers: Vec<ProviderSettings>,
    /// Threads that decide, at least 1. A thread that waits for another server is blocked.
    pub threads: usize,
    /// Passwords that are hashed at once, at least 1. It bounds processor time.
    pub hashing: usize,
    /// Memory of all passwords that are hashed at once, bytes. A file with a hash that needs more is refused; beyond it
    /// a request waits.
    pub hash_memory: u64,
    /// Requests that may wait at once, including duplicates that wait for the same answer. A request beyond the limit
    /// is refused as unavailable.
    pub queue: usize,
    /// Bytes of all requests that wait; beyond it a request is refused as unavailable.
    pub queue_bytes: usize,
    /// Time within which a request is decided; later it is refused as unavailable.
    pub deadline: Duration,
    /// The cache of decisions.
    pub cache: CacheSettings,
}

impl Default for ChainSettings {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            providers: Vec::new(),
            threads: 8,
            hashing: cores.div_ceil(2),
            hash_memory: 256 * 1024 * 1024,
            queue: 16_384,
            queue_bytes: 16 * 1024 * 1024,
            deadline: Duration::from_secs(8),
            cache: CacheSettings::default(),
        }
    }
}

/// The cache of decisions. It contains no password, only keyed hashes of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// Accepted clients in the cache; 0 disables it for them.
    pub entries: usize,
    /// How long, unless a provider or a token says less.
    pub ttl: Duration,
    /// Refusals that are remembered, apart from the others, so that guessing does not displace who belongs here.
    pub refused_entries: usize,
    /// How long.
    pub refused_ttl: Duration,
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self {
            entries: 100_000,
            ttl: Duration::from_secs(300),
            refused_entries: 10_000,
            refused_ttl: Duration::from_secs(5),
        }
    }
}

/// One provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Its name in logs and metrics, unique in the chain.
    pub name: String,
    /// The listeners that it is asked for; empty for all.
    pub listeners: Vec<String>,
    /// The kind, with its settings.
    pub kind: ProviderKind,
}

/// The kinds of providers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProviderKind {
    /// User names and hashes of passwords in a file.
    PasswordFile(UserFileSettings),
    /// API keys of a file.
    ApiKeys(UserFileSettings),
    /// Signed tokens.
    Jwt(Box<JwtSettings>),
    /// Another server that is asked.
    Http(Box<HttpSettings>),
    /// The client's certificate.
    Certificate(CertificateSettings),
    /// The brokers of an orchestrator's fleet.
    Fleet(FleetSettings),
    /// SCRAM-SHA-256 as enhanced authentication of MQTT 5.
    Scram(ScramSettings),
}

/// A file of users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFileSettings {
    /// The file.
    pub file: PathBuf,
}

/// SCRAM-SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScramSettings {
    /// A file of users; lines with other hashes than SCRAM's are passed over, so one file may serve both.
    pub file: PathBuf,
}

/// Signed tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtSettings {
    /// The source of the keys.
    pub keys: JwtKeys,
    /// Algorithms that are taken; empty for all that fit the keys.
    pub algorithms: Vec<String>,
    /// The field of CONNECT that holds the token.
    pub token: TokenPlace,
    /// The required `iss`.
    pub issuer: Option<String>,
    /// The required value in `aud`.
    pub audience: Option<String>,
    /// Whether a token without `exp` is refused.
    pub require_expiry: bool,
    /// How far clocks may be apart.
    pub leeway: Duration,
    /// The claim that becomes the user name; a token without it is refused. `None` keeps the user name.
    pub user_claim: Option<String>,
    /// The claim that must equal the client id; a token without it is refused. In the claim's text `%u` is replaced by
    /// the user name.
    pub client_id_claim: Option<String>,
    /// The claim with the rights of the client. A token without it leaves them to the rules.
    pub acl_claim: Option<String>,
    /// The claim that names the tenant.
    pub tenant_claim: Option<String>,
    /// The claim that says, with `true`, that rules do not apply.
    pub superuser_claim: Option<String>,
}

#[cfg(test)]
impl JwtSettings {
    /// Settings with these keys and defaults for the rest.
    pub(crate) fn with_keys(keys: JwtKeys) -> Self {
        Self {
            keys,
            algorithms: Vec::new(),
            token: TokenPlace::Password,
            issuer: None,
            audience: None,
            require_expiry: true,
            leeway: Duration::from_secs(30),
            user_claim: Some("sub".to_owned()),
            client_id_claim: None,
            acl_claim: Some("acl".to_owned()),
            tenant_claim: None,
            superuser_claim: None,
        }
    }
}

/// The source of the keys of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwtKeys {
    /// A file whose content, without a line feed at its end, is the shared secret of HS256, HS384 and HS512. At least
    /// 32 bytes (RFC 7518, 3.2).
    SecretFile(PathBuf),
    /// A file of public keys or certificates in PEM.
    PemFile(PathBuf),
    /// A file with a JWK set (RFC 7517).
    JwksFile(PathBuf),
    /// A server with a JWK set.
    JwksUrl {
        /// Its address.
        url: String,
        /// How old the set may be before it is fetched again.
        refresh: Duration,
        /// How soon it is fetched again because of a token with an unknown key.
        min_refresh: Duration,
        /// How long fetching may take.
        timeout: Duration,
        /// Authorities to trust instead of the system's, PEM.
        ca_file: Option<PathBuf>,
    },
}

/// The field of CONNECT that holds a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenPlace {
    /// The password.
    Password,
    /// The user name.
    UserName,
}

/// A server that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSettings {
    /// The URL of the POST.
    pub url: String,
    /// Headers that go along, such as a bearer token.
    pub headers: Vec<(String, Secret)>,
    /// How long an answer may take, from the connection on.
    pub timeout: Duration,
    /// Requests that are under way at once, at least 1.
    pub concurrency: usize,
    /// Failures in a row after which the server is left alone, at least 1.
    pub breaker_failures: u32,
    /// For how long; then one request tries again.
    pub breaker_pause: Duration,
    /// The decision for clients while the server is unreachable.
    pub unreachable: WhenUnreachable,
    /// How long an accepting answer is cached, at most the cache's own time.
    pub cache_ttl: Duration,
    /// Authorities to trust instead of the system's, PEM.
    pub ca_file: Option<PathBuf>,
}

#[cfg(test)]
impl HttpSettings {
    /// Settings with this URL and defaults for the rest.
    pub(crate) fn with_url(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            timeout: Duration::from_secs(5),
            concurrency: 8,
            breaker_failures: 5,
            breaker_pause: Duration::from_secs(10),
            unreachable: WhenUnreachable::Deny,
            cache_ttl: Duration::from_secs(60),
            ca_file: None,
        }
    }
}

/// The brokers of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetSettings {
    /// The party that asks them.
    pub asker: FleetAsker,
    /// How long an answer may take, from the connection on.
    pub timeout: Duration,
    /// Questions that are under way at once, at least 1.
    pub concurrency: usize,
    /// How long an accepting answer is cached, at most the cache's own time.
    pub cache_ttl: Duration,
}

/// The decision about a client when a server cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenUnreachable {
    /// It is refused as unavailable and may try again.
    Deny,
    /// The next provider is asked.
    Ignore,
}

/// Client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSettings {
    /// The source of the user name.
    pub user_name: NameSource,
    /// The source of the client id; `None` keeps that of CONNECT.
    pub client_id: Option<NameSource>,
}

/// A field of a certificate that names its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameSource {
    /// The common name of the subject.
    CommonName,
    /// The first DNS name among the alternative names.
    Dns,
    /// The first mail address among them.
    Email,
    /// The first URI among them.
    Uri,
    /// The fingerprint, SHA-256.
    Fingerprint,
}
