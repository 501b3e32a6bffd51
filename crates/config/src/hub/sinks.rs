//! The settings of sinks.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_hub::{
    AmqpSettings, Batching, FileSettings, HistorySettings, HttpSettings, InfluxSettings, KafkaSettings, MqttSettings,
    NatsSettings, PostgresSettings, QoS, RedisSettings, S3Settings, SinkKind, SinkSettings, SqliteSettings,
};

use super::PipelineError;
use super::client_ids::of_lanes;
use super::settings::first_line;
use super::way::{Way, socket_of};
use crate::orchestrator::BrokerAddress;
use crate::sections::hub::{Sink, SinkType};

/// Least time that records gather for an object.
const LEAST_OBJECT_TIME: Duration = Duration::from_secs(1);

impl Sink {
    pub(super) fn settings(&self, client_id: &str) -> Result<SinkSettings, PipelineError> {
        let kind = self
            .kind_with_files(client_id)
            .map_err(|error| PipelineError::Sink { name: self.name.clone(), source: Box::new(error) })?;
        Ok(self.with_kind(kind))
    }

    pub(super) fn with_kind(&self, kind: SinkKind) -> SinkSettings {
        let millis = |length: Duration| u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        // Each batch of this sink is an object.
        let gathers = self.kind == SinkType::S3;
        let batching = Batching {
            messages: usize::try_from(self.batch_messages).unwrap_or(usize::MAX),
            bytes: usize::try_from(self.batch_bytes.0).unwrap_or(usize::MAX),
            time: millis(self.batch_time.max(if gathers { LEAST_OBJECT_TIME } else { Duration::ZERO })),
            gathers,
            retry_min: millis(self.retry_min),
            retry_max: millis(self.retry_max),
        };
        SinkSettings { name: self.name.clone(), kind, batching, parallel: usize::from(self.parallel) }
    }

    /// Topics of the broker that `way` leads to.
    pub(super) fn topics(&self, client_ids: Vec<String>, way: &Way) -> MqttSettings {
        MqttSettings {
            address: way.address.clone(),
            socket: way.socket.clone(),
            client_ids,
            user_name: way.user_name.clone(),
            password: way.password.clone(),
            topic: Some(self.topic.clone()).filter(|topic| !topic.is_empty()),
            qos: if self.qos == 2 { QoS::ExactlyOnce } else { QoS::AtLeastOnce },
            retain: self.retain,
            timeout: self.timeout,
        }
    }

    /// The settings of the kind, with the content of the files that it reads.
    pub(super) fn kind_with_files(&self, client_id: &str) -> Result<SinkKind, PipelineError> {
        let (url, timeout) = (self.url.clone().unwrap_or_default(), self.timeout);
        let ca_file = self.ca.as_ref().map(PathBuf::from);
        let secret = || self.secret_file.as_deref().map(first_line).transpose();
        Ok(match self.kind {
            SinkType::Http => {
                SinkKind::Http(HttpSettings { url, headers: self.all_headers()?, secret: secret()?, timeout, ca_file })
            }
            SinkType::Influxdb => SinkKind::Influx(InfluxSettings {
                url,
                headers: self.all_headers()?,
                measurement: self.measurement.clone(),
                tags: self.tags.0.clone(),
                timeout,
                ca_file,
            }),
            SinkType::Mqtt => SinkKind::Mqtt(self.mqtt(&url, client_id)?),
            SinkType::Topic => return Err(PipelineError::UnknownBroker),
            SinkType::S3 => self.s3(secret()?.unwrap_or_default()),
            _ => self.kind_without_files().ok_or(PipelineError::NoKind)?,
        })
    }

    /// The key whose value is of no use, and why, as far as that is known without files and servers.
    pub(super) fn unusable(&self) -> Option<(&'static str, String)> {
        let kind = match self.kind {
            // The secret is in a file.
            SinkType::S3 => self.s3(vec![0]),
            _ => self.kind_without_files()?,
        };
        kind.unusable()
    }

    /// The settings of kinds that read no file for them.
    fn kind_without_files(&self) -> Option<SinkKind> {
        let (url, timeout) = (self.url.clone().unwrap_or_default(), self.timeout);
        let ca_file = self.ca.as_ref().map(PathBuf::from);
        let path = self.path.as_ref().map(PathBuf::from).unwrap_or_default();
        Some(match self.kind {
            SinkType::File => SinkKind::File(FileSettings {
                path,
                format: self.format,
                rotate_bytes: self.rotate_size.0,
                rotate_time: self.rotate_time,
                exactly_once: self.exactly_once,
            }),
            SinkType::History => SinkKind::History(HistorySettings {
                path,
                tenant: String::new(),
                max_bytes: self.max_bytes.0,
                max_age: self.max_age,
            }),
            SinkType::Discard => SinkKind::Discard,
            SinkType::Sqlite => SinkKind::Sqlite(SqliteSettings { path, table: self.table.clone(), timeout }),
            SinkType::Postgres => {
                SinkKind::Postgres(PostgresSettings { url, ca_file, table: self.table.clone(), timeout })
            }
            SinkType::Kafka => SinkKind::Kafka(KafkaSettings {
                url,
                mechanism: self.sasl.mechanism(),
                ca_file,
                topic: self.topic.clone(),
                exactly_once: self.exactly_once,
                transactions_prefix: self.transactions_prefix.clone(),
                timeout,
            }),
            SinkType::Amqp => SinkKind::Amqp(AmqpSettings {
                url,
                ca_file,
                queue: self.queue.clone(),
                exchange: self.exchange.clone(),
                routing_key: self.routing_key.clone(),
                timeout,
            }),
            SinkType::Redis => {
                let (stream, max_entries) = (self.stream.clone(), self.max_entries);
                SinkKind::Redis(RedisSettings { url, stream, max_entries, timeout })
            }
            SinkType::Nats => {
                let (stream, subject) = (self.stream.clone(), self.subject.clone());
                SinkKind::Nats(NatsSettings { url, stream, subject, timeout })
            }
            SinkType::Http | SinkType::Influxdb | SinkType::Mqtt | SinkType::Topic | SinkType::S3 => return None,
        })
    }

    fn s3(&self, secret: Vec<u8>) -> SinkKind {
        SinkKind::S3(S3Settings {
            url: self.url.clone().unwrap_or_default(),
            bucket: self.bucket.clone(),
            region: self.region.clone(),
            prefix: self.prefix.clone(),
            format: self.format,
            access_key: self.access_key.clone(),
            secret,
            timeout: self.timeout,
            ca_file: self.ca.as_ref().map(PathBuf::from),
        })
    }

    fn mqtt(&self, url: &str, client_id: &str) -> Result<MqttSettings, PipelineError> {
        let place = BrokerAddress::of_parts(Some("sink"), url)?;
        let (address, socket) = socket_of(&place, self.ca.as_deref())?;
        let written = self.password_file.as_deref().map(first_line).transpose()?;
        Ok(MqttSettings {
            address,
            socket,
            client_ids: of_lanes(if self.client_id.is_empty() { client_id } else { &self.client_id }, self.parallel),
            user_name: self.username.clone().or(place.user_name),
            password: written.or(place.password.map(String::into_bytes)),
            topic: Some(self.topic.clone()).filter(|topic| !topic.is_empty()),
            qos: if self.qos == 2 { QoS::ExactlyOnce } else { QoS::AtLeastOnce },
            retain: self.retain,
            timeout: self.timeout,
        })
    }

    fn all_headers(&self) -> Result<Vec<(String, String)>, PipelineError> {
        let split = |header: &String| {
            let (name, value) = header.split_once(':').ok_or(PipelineError::Header)?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        };
        let mut headers: Vec<(String, String)> =
            self.headers.0.iter().map(split).collect::<Result<_, PipelineError>>()?;
        if let Some(path) = &self.authorization_file {
            let value = String::from_utf8(first_line(path)?).map_err(|_| PipelineError::NoText(path.clone()))?;
            headers.push(("authorization".to_owned(), value));
        }
        Ok(headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_gather_for_the_objects_of_s3_alone() {
        for (kind, gathers) in [(SinkType::S3, true), (SinkType::Http, false), (SinkType::Kafka, false)] {
            let sink = Sink { kind, batch_time: Duration::ZERO, ..Sink::default() };
            let batching = sink.with_kind(SinkKind::Discard).batching;
            assert_eq!((batching.gathers, batching.time), (gathers, if gathers { 1_000 } else { 0 }), "{kind:?}");
        }
    }
}
