//! How the clients of Kafka are set up, and the meaning of their errors.

use std::path::Path;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};

use super::message::{index_of, position_of};
use crate::address::{Credentials, Server};
use crate::{Bounds, BusError, LogName, LogPartition, Settings};

/// How long an answer may take before the request is repeated.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The same for where a partition ends, which a leader knows at once. Commits of logs that keep the latest of each key
/// wait for it.
const BOUNDS_WITHIN: Duration = Duration::from_secs(2);

/// The settings that all clients of one bus share.
pub(super) struct Common {
    pub(super) settings: Settings,
    pub(super) up: Up,
    servers: String,
    credentials: Option<Credentials>,
    /// Asks where partitions end, transactions that are not over included.
    ends: OnceLock<BaseConsumer>,
    /// Asks up to where they can be read.
    committed_ends: OnceLock<BaseConsumer>,
}

impl Common {
    pub(super) fn new(servers: &[Server], credentials: Option<&Credentials>, settings: &Settings) -> Self {
        let servers: Vec<String> = servers.iter().map(Server::to_string).collect();
        let up = Up::default();
        let (settings, credentials) = (settings.clone(), credentials.cloned());
        let (ends, committed_ends) = (OnceLock::new(), OnceLock::new());
        Self { settings, up, servers: servers.join(","), credentials, ends, committed_ends }
    }

    /// The beginning and the end of a partition: all confirmed records are below the end, and maybe unconfirmed ones.
    pub(super) fn bounds(&self, place: &LogPartition) -> KafkaResult<Bounds> {
        self.bounds_by(&self.ends, "read_uncommitted", place)
    }

    /// The same without transactions that are not over, and without all that is behind one.
    pub(super) fn committed_bounds(&self, place: &LogPartition) -> KafkaResult<Bounds> {
        self.bounds_by(&self.committed_ends, "read_committed", place)
    }

    fn bounds_by(&self, asker: &OnceLock<BaseConsumer>, isolation: &str, place: &LogPartition) -> KafkaResult<Bounds> {
        let consumer = if let Some(consumer) = asker.get() {
            consumer
        } else {
            let consumer = self.consumer().set("isolation.level", isolation).create()?;
            asker.get_or_init(|| consumer)
        };
        let topic = self.topic(&place.log);
        let found = bounds(consumer, &topic, place);
        if found.is_err() {
            // The known leader may have died: the client asks no other broker while that one is silent. Any broker that
            // answers knows the next leader, and so does this client at the next try.
            let _ = consumer.fetch_metadata(Some(&topic), ANSWER_WITHIN);
        }
        found
    }

    /// The brokers' addresses.
    pub(super) fn servers(&self) -> &str {
        &self.servers
    }

    pub(super) fn topic(&self, log: &LogName) -> String {
        format!("{}.{log}", self.settings.prefix)
    }

    /// No log has a dot in its name.
    pub(super) fn live_topic(&self) -> String {
        format!("{}.live.messages", self.settings.prefix)
    }

    /// The settings that every client begins with.
    pub(super) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.servers);
        config.set("client.id", format!("tidegate-{}", self.settings.prefix));
        config.set("reconnect.backoff.max.ms", "2000");
        config.set("allow.auto.create.topics", "false");
        let protocol = match (self.settings.tls, &self.credentials) {
            (false, None) => "plaintext",
            (false, Some(_)) => "sasl_plaintext",
            (true, None) => "ssl",
            (true, Some(_)) => "sasl_ssl",
        };
        config.set("security.protocol", protocol);
        if let Some(credentials) = &self.credentials {
            config.set("sasl.mechanism", self.settings.sasl.name());
            config.set("sasl.username", &credentials.user).set("sasl.password", credentials.password());
        }
        if self.settings.tls {
            self.set_tls(&mut config);
        }
        config
    }

    fn set_tls(&self, config: &mut ClientConfig) {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        if let Some(authorities) = &self.settings.tls_ca {
            config.set("ssl.ca.location", text(authorities));
        }
        if let Some(identity) = &self.settings.tls_identity {
            config.set("ssl.certificate.location", text(&identity.certificate));
            config.set("ssl.key.location", text(&identity.key));
        }
    }

    /// For producers: confirmed records are on all replicas, in order and once.
    pub(super) fn producer(&self) -> ClientConfig {
        let mut config = self.config();
        let kilobytes = self.settings.max_waiting_bytes / 512 + 65_536;
        config.set("enable.idempotence", "true");
        config.set("linger.ms", "1");
        config.set("message.timeout.ms", self.settings.max_waiting_time.as_millis().to_string());
        config.set("message.max.bytes", (self.settings.max_record_bytes + 65_536).to_string());
        // The bus counts waiting records; these limits are never the first to be reached.
        config.set("queue.buffering.max.messages", (self.settings.max_waiting * 2).min(10_000_000).to_string());
        config.set("queue.buffering.max.kbytes", kilobytes.min(2_097_151).to_string());
        config
    }

    /// For consumers: only committed records, from given positions.
    pub(super) fn consumer(&self) -> ClientConfig {
        let mut config = self.config();
        config.set("group.id", &self.settings.prefix);
        config.set("enable.auto.commit", "false");
        config.set("enable.partition.eof", "true");
        config.set("auto.offset.reset", "error");
        config.set("isolation.level", "read_committed");
        config.set("fetch.error.backoff.ms", "100");
        config
            .set("queued.max.messages.kbytes", (self.settings.max_ahead_bytes / 1_024).clamp(1, 2_097_151).to_string());
        config
    }

    pub(super) fn away(&self, reason: &impl ToString) -> BusError {
        BusError::Away { waited: self.settings.max_waiting_time, reason: reason.to_string() }
    }

    /// Waits for the connection.
    pub(super) fn connected(&self, deadline: Instant) -> Result<(), BusError> {
        if self.up.wait(deadline) { Ok(()) } else { Err(self.away(&"there is no connection")) }
    }
}

/// The first and last position of a partition for a consumer.
pub(super) fn bounds(consumer: &BaseConsumer, topic: &str, place: &LogPartition) -> KafkaResult<Bounds> {
    let (first, next) = consumer.fetch_watermarks(topic, index_of(place), BOUNDS_WITHIN)?;
    Ok(Bounds { first: position_of(first), next: position_of(next) })
}

/// Whether the brokers answer, for threads that wait for it.
#[derive(Default)]
pub(super) struct Up {
    is_up: Mutex<bool>,
    changed: Condvar,
}

impl Up {
    pub(super) fn set(&self, is_up: bool) {
        *self.is_up.lock().unwrap_or_else(PoisonError::into_inner) = is_up;
        self.changed.notify_all();
    }

    pub(super) fn is_up(&self) -> bool {
        *self.is_up.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, deadline: Instant) -> bool {
        let is_up = self.is_up.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.changed.wait_timeout_while(is_up, remaining(deadline), |is_up| !*is_up);
        *wait.unwrap_or_else(PoisonError::into_inner).0
    }
}

pub(super) fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

pub(super) fn client_error(error: &KafkaError) -> BusError {
    BusError::Client(error.to_string())
}

/// Whether an error says that another producer has taken this one's place.
pub(super) fn is_fenced(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{Fenced, InvalidProducerEpoch, ProducerFenced};
    let code = match error {
        KafkaError::Transaction(error) => Some(error.code()),
        error => error.rdkafka_error_code(),
    };
    matches!(code, Some(Fenced | ProducerFenced | InvalidProducerEpoch))
}
