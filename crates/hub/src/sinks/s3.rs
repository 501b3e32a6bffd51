//! Objects in a bucket of S3, or of a server that speaks its protocol. A batch is an object of lines of JSON, or of Parquet. The name
//! of an object comes from the ids of its records, so a batch that comes again replaces its own object.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ring::{digest, hmac};
use tidegate_units::percent::escape_except;

use super::file::lines;
use super::place::{Ids, SinkLane};
use super::web::{HttpAnswer, Server, ServerSettings};
use super::{Sink, SinkError, parquet};
use crate::FileFormat;
use crate::open_error::OpenError;
use crate::record::Record;
use crate::time::{rfc3339, wall_clock};

/// Longest name of an object, bytes.
const MAX_NAME: usize = 1024;
/// Bytes of the digest of ids that are in the name of an object.
const DIGEST: usize = 12;

/// Which bucket, and who writes to it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct S3Settings {
    /// The server, such as `https://s3.eu-central-1.amazonaws.com`, without the bucket.
    pub url: String,
    /// The bucket, which has to be there.
    pub bucket: String,
    /// The region that requests are signed for.
    pub region: String,
    /// The prefix of names of objects.
    pub prefix: String,
    /// The format of objects.
    pub format: FileFormat,
    /// The id of the access key.
    pub access_key: String,
    /// The secret of the access key.
    pub secret: Vec<u8>,
    /// Time for an object.
    pub timeout: Duration,
    /// Authorities that are trusted; without a file, the system's.
    pub ca_file: Option<PathBuf>,
}

impl S3Settings {
    /// Host and port of the server; or the key whose value is of no use, and why.
    pub(super) fn check(&self) -> Result<&str, (&'static str, String)> {
        let (scheme, host) = self.url.trim_end_matches('/').split_once("://").unwrap_or_default();
        if !matches!(scheme, "http" | "https") || host.is_empty() || host.contains(['/', '?', '@', '#']) {
            let why = "`url` is http://HOST[:PORT] or https://HOST[:PORT], without the bucket".to_owned();
            return Err(("url", why));
        }
        let fits = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || ".-_".contains(one);
        if !(3..=63).contains(&self.bucket.len()) || !self.bucket.chars().all(fits) {
            return Err(("bucket", format!("`{}` is no name of a bucket", self.bucket)));
        }
        if self.access_key.is_empty() {
            return Err(("access_key", "it has no `access_key`".to_owned()));
        }
        if self.secret.is_empty() {
            return Err(("secret_file", "it has no `secret_file`".to_owned()));
        }
        Ok(host)
    }
}

impl std::fmt::Debug for S3Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("S3Settings").field("url", &self.url).field("bucket", &self.bucket).finish_non_exhaustive()
    }
}

pub(super) struct S3Sink {
    server: Server,
    settings: S3Settings,
    /// Host and port, as requests name them.
    host: String,
    /// The folder of the objects, below the prefix.
    folder: String,
    ids: Ids,
}

impl S3Sink {
    pub(super) fn new(settings: &S3Settings, place: &SinkLane<'_>, ids: Ids) -> Result<Self, OpenError> {
        let settings = S3Settings { url: settings.url.trim_end_matches('/').to_owned(), ..settings.clone() };
        let host = settings.check()?.to_owned();
        let folder = format!("{}{}", place.pipeline, if place.dead_letters { "-dead" } else { "" });
        // The longest name: the folder, the day, the time and the digest.
        if settings.prefix.len() + 3 * folder.len() + 64 > MAX_NAME {
            let why = format!("`prefix` is too long: names of objects have at most {MAX_NAME} bytes");
            return Err(OpenError::setting("prefix", why));
        }
        let (timeout, ca_file) = (settings.timeout, settings.ca_file.clone());
        let server = Server::new(ServerSettings { url: settings.url.clone(), headers: Vec::new(), timeout, ca_file })?;
        // Requests leave the usual port out.
        let usual = if settings.url.starts_with("https://") { ":443" } else { ":80" };
        let host = host.strip_suffix(usual).unwrap_or(&host).to_lowercase();
        Ok(Self { server, settings, host, folder, ids })
    }

    /// The name of the object of a batch: by day and time of its first message, and by the ids of all.
    fn name(&self, batch: &[Arc<Record>]) -> String {
        let mut ids = digest::Context::new(&digest::SHA256);
        for record in batch {
            ids.update(self.ids.of(record.id()).as_bytes());
            ids.update(b"\n");
        }
        let stamp = rfc3339(batch.first().map_or(0, |record| record.timestamp()));
        let (day, time) = stamp.split_once('T').unwrap_or((&stamp, ""));
        let (day, time) = (day.replace('-', "/"), time.replace(':', ""));
        let digest = hex(&ids.finish().as_ref()[..DIGEST]);
        let extension = match self.settings.format {
            FileFormat::Lines => "ndjson",
            FileFormat::Parquet => "parquet",
        };
        format!("{}{}/{day}/{time}-{digest}.{extension}", self.settings.prefix, self.folder)
    }

    /// The headers that sign a request for an object [AWS Signature Version 4]. `now` is Unix milliseconds.
    fn sign(&self, path: &str, body: &[u8], now: u64) -> [(&'static str, String); 3] {
        let stamp = rfc3339(now / 1000 * 1000).replace(['-', ':'], "").replace(".000", "");
        let day = &stamp[..8.min(stamp.len())];
        let hash = hex(digest::digest(&digest::SHA256, body).as_ref());
        let names = "host;x-amz-content-sha256;x-amz-date";
        let headers = format!("host:{}\nx-amz-content-sha256:{hash}\nx-amz-date:{stamp}\n", self.host);
        let request = format!("PUT\n{path}\n\n{headers}\n{names}\n{hash}");
        let S3Settings { region, access_key, secret, .. } = &self.settings;
        let scope = format!("{day}/{region}/s3/aws4_request");
        let request = hex(digest::digest(&digest::SHA256, request.as_bytes()).as_ref());
        let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{request}");
        let step = |key: &[u8], text: &str| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
        let mut key = step(&[b"AWS4", secret.as_slice()].concat(), day);
        for part in [region.as_str(), "s3", "aws4_request"] {
            key = step(key.as_ref(), part);
        }
        let signature = hex(step(key.as_ref(), &text).as_ref());
        let authorization =
            format!("AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names}, Signature={signature}");
        [("authorization", authorization), ("x-amz-content-sha256", hash), ("x-amz-date", stamp)]
    }
}

/// The path of a request: letters, digits and `-._~/` as they are, other bytes as in URLs.
fn path(bucket: &str, name: &str) -> String {
    format!("/{bucket}/{}", escape_except(name, b"-._~/"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to text does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Whether a record is to blame. Most errors with the status 400 are about the key, the clock or the connection.
fn judge(answer: &HttpAnswer) -> Result<(), SinkError> {
    let said = || answer.said();
    match answer.status {
        200..300 => Ok(()),
        413 => Err(SinkError::Refused(said())),
        400 if answer.text.contains("EntityTooLarge") => Err(SinkError::Refused(said())),
        _ => Err(SinkError::Away(said())),
    }
}

impl Sink for S3Sink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let (content_type, body) = match self.settings.format {
            FileFormat::Lines => ("application/x-ndjson", lines(batch)),
            FileFormat::Parquet => {
                let rows: Vec<parquet::Row> = batch.iter().map(|record| record.object()).collect();
                ("application/vnd.apache.parquet", parquet::encode(&rows).map_err(SinkError::away)?)
            }
        };
        let path = path(&self.settings.bucket, &self.name(batch));
        let headers = self.sign(&path, &body, wall_clock());
        let mut headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("content-type", content_type));
        judge(&self.server.put(&path, &headers, &body)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;
    use crate::record::Content;

    fn settings() -> S3Settings {
        S3Settings {
            url: "https://examplebucket.s3.amazonaws.com/".into(),
            bucket: "readings".into(),
            region: "us-east-1".into(),
            prefix: "plant/".into(),
            access_key: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_vec(),
            ..S3Settings::default()
        }
    }

    fn sink(settings: &S3Settings) -> Result<S3Sink, OpenError> {
        let place = SinkLane { pipeline: "hot", ..SinkLane::default() };
        S3Sink::new(settings, &place, Ids::new(&place, "lake"))
    }

    fn record(id: &str) -> Arc<Record> {
        let message = Message { id: id.into(), timestamp: 1_767_323_045_678, ..Message::default() };
        Arc::new(Record::new(Arc::new(message), Content::default()))
    }

    #[test]
    fn a_batch_that_comes_again_has_the_same_name() {
        let sink = sink(&settings()).unwrap();
        let name = sink.name(&[record("1"), record("2")]);
        assert!(name.starts_with("plant/hot/2026/01/02/030405.678Z-") && name.ends_with(".ndjson"), "{name}");
        assert_eq!(name, sink.name(&[record("1"), record("2")]));
        assert_ne!(name, sink.name(&[record("1")]));
        assert_ne!(name, sink.name(&[record("12"), record("")]));
        assert_eq!(path("b", "a b/\u{f6}+~.x"), "/b/a%20b/%C3%B6%2B~.x");
    }

    #[test]
    fn only_an_object_that_is_too_large_blames_a_record() {
        let judge = |status, text: &str| judge(&HttpAnswer { status, text: text.to_owned() });
        assert_eq!(judge(200, ""), Ok(()));
        assert!(matches!(judge(400, "<Code>EntityTooLarge</Code>"), Err(SinkError::Refused(_))));
        for (status, text) in
            [(400, "<Code>RequestTimeout</Code>"), (403, "SignatureDoesNotMatch"), (404, ""), (503, "")]
        {
            assert!(matches!(judge(status, text), Err(SinkError::Away(_))), "{status}");
        }
    }

    #[test]
    fn settings_that_are_of_no_use_are_refused() {
        let with = |change: fn(&mut S3Settings)| {
            let mut settings = settings();
            change(&mut settings);
            sink(&settings).map(|_| ())
        };
        assert!(with(|_| ()).is_ok());
        assert!(with(|settings| settings.url = "https://h/bucket".into()).is_err());
        assert!(with(|settings| settings.url = "ftp://h".into()).is_err());
        assert!(with(|settings| settings.bucket = "No".into()).is_err());
        assert!(with(|settings| settings.secret.clear()).is_err());
        assert!(with(|settings| settings.prefix = "x".repeat(1000)).is_err());
        let text = format!("{:?}", settings());
        assert!(!text.contains("wJalr"), "{text}");
    }
}
