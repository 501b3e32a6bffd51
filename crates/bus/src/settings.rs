//! Settings of a bus when it is opened.

use std::path::PathBuf;
use std::time::Duration;

use crate::BusError;
use crate::address::USUAL_LEASE;
use crate::error::in_range;
use crate::name::is_name;

/// Longest file of certificates or of a key, bytes.
const MAX_PEM_FILE: u64 = 64 << 20;

/// Limits and habits of a bus. The defaults suit a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The beginning of all names on the server (topics, streams, subjects, groups), so that several deployments can
    /// share one: ASCII letters, digits, `-` and `_`, at most 64.
    pub prefix: String,
    /// Appends and other requests that may wait at once; one more is refused with `BusError::Waiting`.
    pub max_waiting: usize,
    /// Bytes of keys, headers and payloads that may wait at once; refused as above.
    pub max_waiting_bytes: usize,
    /// Longest time that a request waits for a bus that is away; then it fails with `BusError::Away` or
    /// `BusError::Unconfirmed`.
    pub max_waiting_time: Duration,
    /// Largest record: key, headers and payload, bytes. NATS and Kafka take 1 MiB unless their server is set otherwise.
    pub max_record_bytes: usize,
    /// Records that are read ahead for a reading, and messages that wait in a subscription.
    pub max_ahead: usize,
    /// Bytes that are read ahead for a reading or wait in a subscription, and on NATS as many more as the largest record
    /// may have; a single larger record still passes.
    pub max_ahead_bytes: usize,
    /// How long a member of a group may be silent before its partitions are given to others; `Address::usual_lease` has
    /// what suits a bus.
    pub lease: Duration,
    /// How long a member may take to release a partition that it is losing; then it is taken away. Shorter than
    /// `lease`.
    pub max_release_time: Duration,
    /// Copies of each log and lease on the servers, 1 to 5; 0 is three where the bus has at least three servers, and
    /// one elsewhere.
    pub replicas: u8,
    /// All bytes of records that the embedded bus keeps; an append beyond is refused with `BusError::Full`. On the bus of a
    /// directory that of the process which serves it counts.
    pub max_embedded_bytes: u64,
    /// Certificates of authorities that sign the servers' certificates (PEM): for NATS beside the system's, for Kafka
    /// instead of them.
    pub tls_ca: Option<PathBuf>,
    /// Whether the servers have to be spoken to over TLS. For Kafka that needs a build with the feature `kafka-tls`.
    pub tls: bool,
    /// Certificate and key (PEM) that this process shows to the servers.
    pub tls_identity: Option<TlsIdentity>,
    /// How user and password are proved to Kafka.
    pub sasl: Sasl,
}

/// Copies that a bus keeps where several servers are there and nothing else was asked for.
#[cfg(any(feature = "nats", feature = "kafka"))]
const USUAL_REPLICAS: u8 = 3;

impl Settings {
    /// The copies of a log on a bus with this number of servers.
    #[cfg(any(feature = "nats", feature = "kafka"))]
    pub(crate) fn copies(&self, servers: usize) -> u8 {
        match self.replicas {
            0 if servers >= usize::from(USUAL_REPLICAS) => USUAL_REPLICAS,
            0 => 1,
            asked => asked,
        }
    }
}

/// The identity of a process over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsIdentity {
    /// The file with the certificate, and with those between it and an authority.
    pub certificate: PathBuf,
    /// The file with its key, not encrypted.
    pub key: PathBuf,
}

/// How a password is proved to a broker of Kafka (RFC 4616, RFC 7677). All but `Plain` need a build with the feature
/// `kafka-tls`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sasl {
    /// It is sent as it is: use TLS, too.
    #[default]
    Plain,
    /// The broker learns only that it is known.
    ScramSha256,
    /// The same with a longer hash.
    ScramSha512,
}

impl Sasl {
    /// The name of the mechanism.
    #[cfg(feature = "kafka")]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prefix: "tidegate".to_owned(),
            max_waiting: 65_536,
            max_waiting_bytes: 64 * 1024 * 1024,
            max_waiting_time: Duration::from_secs(30),
            max_record_bytes: 1_000_000,
            max_ahead: 4_096,
            max_ahead_bytes: 8 * 1024 * 1024,
            lease: USUAL_LEASE,
            max_release_time: Duration::from_secs(5),
            replicas: 0,
            max_embedded_bytes: 1024 * 1024 * 1024,
            tls_ca: None,
            tls: false,
            tls_identity: None,
            sasl: Sasl::Plain,
        }
    }
}

impl Settings {
    /// Checks that the files for TLS exist and look right: clients report faults in them late, or never.
    pub(crate) fn check_files(&self) -> Result<(), BusError> {
        let identity = self.tls_identity.iter().flat_map(|it| [(&it.certificate, "CERTIFICATE"), (&it.key, "KEY")]);
        for (file, kind) in self.tls_ca.iter().map(|file| (file, "CERTIFICATE")).chain(identity) {
            let wrong = |reason: String| BusError::TlsFile { file: file.display().to_string(), reason };
            let text = tidegate_setting_file::read(file, MAX_PEM_FILE).map_err(|error| wrong(error.to_string()))?;
            let is_kind = |line: &str| line.starts_with("-----BEGIN ") && line.contains(kind);
            if !String::from_utf8_lossy(&text).lines().any(is_kind) {
                return Err(wrong(format!("it has no `-----BEGIN ... {kind}-----`; give it as PEM")));
            }
        }
        Ok(())
    }

    /// Checks that all numbers are in their ranges.
    pub(crate) fn check(&self) -> Result<(), BusError> {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let day = 86_400_000;
        in_range("max_waiting", self.max_waiting as u64, 1..=u64::MAX, "at least 1")?;
        in_range("max_waiting_bytes", self.max_waiting_bytes as u64, 1..=1 << 30, "1 to 1073741824")?;
        in_range("max_waiting_time", millis(self.max_waiting_time), 100..=day, "100 ms to a day")?;
        in_range("max_record_bytes", self.max_record_bytes as u64, 1_024..=64 << 20, "1 KiB to 64 MiB")?;
        in_range("max_ahead", self.max_ahead as u64, 1..=1 << 24, "1 to 16777216")?;
        in_range("max_ahead_bytes", self.max_ahead_bytes as u64, 1..=u64::MAX, "at least 1")?;
        in_range("lease", millis(self.lease), 200..=day, "200 ms to a day")?;
        let release = "1 ms to the lease";
        in_range("max_release_time", millis(self.max_release_time), 1..=millis(self.lease), release)?;
        in_range(
            "replicas",
            u64::from(self.replicas),
            0..=5,
            "1 to 5, or 0 for as many as the servers allow, at most 3",
        )?;
        if is_name(&self.prefix) {
            Ok(())
        } else {
            Err(BusError::Malformed("the prefix of the names is not 1 to 64 ASCII letters, digits, - and _"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_for_tls_are_looked_at_before_anything_is_begun() {
        let directory = std::env::temp_dir().join(format!("tidegate-bus-files-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (certificate, key) = (directory.join("node.pem"), directory.join("node.key"));
        std::fs::write(&certificate, "-----BEGIN CERTIFICATE-----\n").unwrap();
        let settings = Settings {
            tls_ca: Some(certificate.clone()),
            tls_identity: Some(TlsIdentity { certificate: certificate.clone(), key: key.clone() }),
            ..Settings::default()
        };
        let said = || settings.check_files().unwrap_err().to_string();
        assert!(said().contains("node.key cannot be used") && said().contains("No such file"), "{}", said());
        std::fs::copy(&certificate, &key).unwrap();
        assert!(said().contains("has no `-----BEGIN ... KEY-----`"), "{}", said());
        std::fs::write(&key, "-----BEGIN PRIVATE KEY-----\n").unwrap();
        assert_eq!(settings.check_files(), Ok(()));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
