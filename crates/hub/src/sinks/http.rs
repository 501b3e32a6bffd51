//! A server that takes batches: one POST with an array of JSON for each, signed where there is a secret.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ring::hmac;

use super::place::Ids;
use super::web::{Server, ServerSettings};
use super::{Sink, SinkError};
use crate::message::HOPS_PROPERTY;
use crate::open_error::OpenError;
use crate::record::Record;

/// The header of the signature: `sha256=` and the HMAC-SHA256 of the body in hexadecimal digits.
const SIGNATURE_HEADER: &str = "x-tidegate-signature";
/// The header that is the same whenever a batch comes again.
const IDEMPOTENCY_HEADER: &str = "idempotency-key";

/// Which server, and how it is spoken to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpSettings {
    /// Where batches are posted.
    pub url: String,
    /// Headers that are sent along.
    pub headers: Vec<(String, String)>,
    /// The key that signs the body.
    pub secret: Option<Vec<u8>>,
    /// Time for an answer.
    pub timeout: Duration,
    /// Authorities that are trusted; without a file, the system's.
    pub ca_file: Option<PathBuf>,
}

pub(super) struct HttpSink {
    server: Server,
    key: Option<hmac::Key>,
    ids: Ids,
}

impl HttpSink {
    pub(super) fn new(settings: &HttpSettings, ids: Ids) -> Result<Self, OpenError> {
        let HttpSettings { url, headers, timeout, ca_file, .. } = settings.clone();
        let server = Server::new(ServerSettings { url, headers, timeout, ca_file })?;
        let key = settings.secret.as_ref().map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret));
        Ok(Self { server, key, ids })
    }
}

impl Sink for HttpSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let lines: Vec<String> = batch.iter().map(|record| record.json()).collect();
        let body = format!("[{}]", lines.join(","));
        let ends = (batch.first(), batch.last());
        let name = |record: Option<&Arc<Record>>| record.map(|record| record.id().to_owned()).unwrap_or_default();
        let idempotency = self.ids.of(&format!("{}-{}-{}", name(ends.0), name(ends.1), batch.len()));
        let signature = self.key.as_ref().map(|key| {
            let mut text = String::from("sha256=");
            for byte in hmac::sign(key, body.as_bytes()).as_ref() {
                // Writing to text does not fail.
                let _ = write!(text, "{byte:02x}");
            }
            text
        });
        let hops = batch.iter().map(|record| record.hops()).max().unwrap_or_default().to_string();
        let mut headers = vec![(IDEMPOTENCY_HEADER, idempotency.as_str()), (HOPS_PROPERTY, hops.as_str())];
        headers.extend(signature.as_deref().map(|signature| (SIGNATURE_HEADER, signature)));
        self.server.post("application/json", &headers, body.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use serde_json::json;

    use super::*;
    use crate::message::Message;
    use crate::record::Content;
    use crate::sinks::SinkLane;

    /// A server that answers with these statuses, one after the other, and gives heads and bodies of the requests.
    fn serve(statuses: Vec<u16>) -> (String, JoinHandle<Vec<(String, String)>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/in", listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            let answer = |status: u16| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    reader.read_line(&mut head).unwrap();
                }
                let head = head.to_lowercase();
                let len = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap().parse().unwrap();
                let mut body = vec![0; len];
                reader.read_exact(&mut body).unwrap();
                let text = "HTTP/1.1 STATUS x\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno";
                stream.write_all(text.replace("STATUS", &status.to_string()).as_bytes()).unwrap();
                (head, String::from_utf8(body).unwrap())
            };
            statuses.into_iter().map(answer).collect()
        });
        (url, thread)
    }

    fn ids() -> Ids {
        Ids::new(&SinkLane { pipeline: "hot", ..SinkLane::default() }, "hook")
    }

    fn record(number: u64) -> Arc<Record> {
        let content = Content::Row(vec![("n".into(), json!(number))]);
        let message = Message { id: format!("id{number}"), ..Message::default() };
        Arc::new(Record::new(Arc::new(message), content))
    }

    #[test]
    fn a_batch_is_one_signed_request() {
        let (url, server) = serve(vec![204]);
        let secret = Some(b"key".to_vec());
        let headers = vec![("authorization".to_owned(), "Bearer t".to_owned())];
        let timeout = Duration::from_secs(30);
        let settings = HttpSettings { url, headers, secret, timeout, ca_file: None };
        HttpSink::new(&settings, ids()).unwrap().write(&[record(1), record(2)]).unwrap();
        let (head, body) = server.join().unwrap().pop().unwrap();
        assert_eq!(body, r#"[{"n":1},{"n":2}]"#);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"key"), body.as_bytes());
        let hex = tag.as_ref().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        for part in [
            &format!("x-tidegate-signature: sha256={hex}\r\n"),
            "authorization: bearer t\r\n",
            "idempotency-key: id1-id2-2/hot/hook\r\n",
            "tidegate-hub-hops: 1\r\n",
            "content-type: application/json\r\n",
        ] {
            assert!(head.contains(part), "{head}");
        }
    }

    #[test]
    fn the_status_says_whether_a_batch_comes_again() {
        let (url, server) = serve(vec![500, 429, 401, 302, 409, 400, 413, 200]);
        let settings = HttpSettings { url, timeout: Duration::from_secs(30), ..HttpSettings::default() };
        let mut sink = HttpSink::new(&settings, ids()).unwrap();
        for _ in 0..4 {
            assert!(matches!(sink.write(&[record(1)]), Err(SinkError::Away(_))));
        }
        assert!(matches!(sink.write(&[record(1)]), Err(SinkError::Limited(_))));
        for _ in 0..2 {
            assert!(matches!(sink.write(&[record(1)]), Err(SinkError::Refused(why)) if why.contains("no")));
        }
        assert_eq!(sink.write(&[record(1)]), Ok(()));
        server.join().unwrap();
        assert!(matches!(sink.write(&[record(1)]), Err(SinkError::Away(_))), "no server listens");
    }

    #[test]
    fn what_cannot_be_sent_is_refused_at_the_start() {
        let new = |url: &str, header: &str| {
            let headers = vec![(header.to_owned(), "x".to_owned())];
            let settings = HttpSettings { url: url.to_owned(), headers, ..HttpSettings::default() };
            HttpSink::new(&settings, ids()).map(|_| ()).unwrap_err().to_string()
        };
        assert!(new("ftp://h/", "a").contains("http://"));
        assert!(new("http://h/?token=t", "a b").contains("`a b`"));
    }
}
