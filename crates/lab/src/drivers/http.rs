//! HTTP as RabbitMQ's management API has it: messages are posted to an exchange, and fetched from a queue of each
//! subscriber's own. There is no long poll, so that a subscriber asks again as soon as it is answered. One request is
//! under way at a time.

mod answer;

use answer::{Answer, read};
use data_encoding::BASE64;
use serde_json::{Value, json};
use tidegate_units::percent::escape_except;

use super::{Driver, Problem, Role, Sink};
use crate::load::plan::Credentials;

/// Messages that a fetch brings at most.
const FETCHED: u32 = 500;
/// How long the broker keeps an unused queue, in milliseconds: the API has no connection whose end would delete it.
const QUEUE_LIVES_MS: u32 = 60_000;

/// The last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Overview,
    Exchange,
    Queue,
    Binding,
    Publish,
    Fetch,
}

/// A connection.
pub(super) struct Http {
    exchange: String,
    queue: String,
    /// The virtual host, encoded for a path.
    host: String,
    /// The head of every request, without its first line and its length.
    head: String,
    acknowledged: bool,
    role: Role,
    is_ready: bool,
    product: Option<String>,
    asked: Option<Asked>,
}

/// The address of the broker, and the credentials.
pub(super) struct QueueTarget<'a> {
    /// Host and port.
    pub(super) authority: String,
    /// The virtual host; the usual one when it is empty.
    pub(super) host: &'a str,
    pub(super) credentials: Option<&'a Credentials>,
}

impl Http {
    pub(super) fn new(exchange: &str, queue: &str, place: &QueueTarget<'_>, acknowledged: bool, role: Role) -> Self {
        let (user, password) =
            place.credentials.map_or(("guest", "guest"), |known| (&*known.username, &*known.password));
        let login = BASE64.encode(format!("{user}:{password}").as_bytes());
        let authority = &place.authority;
        Self {
            exchange: exchange.to_owned(),
            queue: queue.to_owned(),
            host: escaped(if place.host.is_empty() { "/" } else { place.host }),
            head: format!("Host: {authority}\r\nAuthorization: Basic {login}\r\nContent-Type: application/json\r\n"),
            acknowledged,
            role,
            is_ready: false,
            product: None,
            asked: None,
        }
    }

    fn ask(&mut self, asked: Asked, body: Option<&Value>, out: &mut Vec<u8>) {
        self.asked = Some(asked);
        let (host, exchange, queue) = (&self.host, &self.exchange, &self.queue);
        let line = match asked {
            Asked::Overview => "GET /api/overview".to_owned(),
            Asked::Exchange => format!("PUT /api/exchanges/{host}/{exchange}"),
            Asked::Queue => format!("PUT /api/queues/{host}/{queue}"),
            Asked::Binding => format!("POST /api/bindings/{host}/e/{exchange}/q/{queue}"),
            Asked::Publish => format!("POST /api/exchanges/{host}/{exchange}/publish"),
            Asked::Fetch => format!("POST /api/queues/{host}/{queue}/get"),
        };
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!("{line} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        out.extend_from_slice(request.as_bytes());
    }

    fn fetch(&mut self, out: &mut Vec<u8>) {
        let body = json!({ "count": FETCHED, "ackmode": "ack_requeue_false", "encoding": "base64" });
        self.ask(Asked::Fetch, Some(&body), out);
    }

    fn on_answer(&mut self, answer: &Answer<'_>, out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<(), Problem> {
        let asked = self.asked.take().ok_or_else(|| Problem::new("an answer that nothing asked for"))?;
        if !(200..300).contains(&answer.status) {
            return Err(refusal(answer));
        }
        match asked {
            Asked::Overview => {
                self.product = product(&answer.body);
                self.ask(Asked::Exchange, Some(&json!({ "type": "fanout", "durable": false })), out);
            }
            Asked::Exchange if self.role == Role::Subscribe => {
                let queue = json!({ "durable": false, "arguments": { "x-expires": QUEUE_LIVES_MS } });
                self.ask(Asked::Queue, Some(&queue), out);
            }
            Asked::Queue => self.ask(Asked::Binding, Some(&json!({})), out),
            Asked::Exchange => self.is_ready = true,
            Asked::Binding => {
                self.is_ready = true;
                self.fetch(out);
            }
            Asked::Publish => match serde_json::from_slice::<Value>(&answer.body) {
                Ok(said) if said["routed"] == true => sink.acknowledged(u64::from(self.acknowledged)),
                _ => sink.refused(1),
            },
            Asked::Fetch => {
                messages(&answer.body, sink)?;
                self.fetch(out);
            }
        }
        Ok(())
    }
}

/// Gives the messages of a fetch.
fn messages(body: &[u8], sink: &mut dyn Sink) -> Result<(), Problem> {
    let wrong =
        || Problem::new("a fetch is answered by something else than messages; is this RabbitMQ's management API?");
    let fetched: Vec<Value> = serde_json::from_slice(body).map_err(|_| wrong())?;
    for message in fetched {
        let payload = message["payload"].as_str().ok_or_else(wrong)?;
        match message["payload_encoding"].as_str() {
            Some("base64") => sink.message(&BASE64.decode(payload.as_bytes()).map_err(|_| wrong())?),
            _ => sink.message(payload.as_bytes()),
        }
    }
    Ok(())
}

/// The reason of a refusal, with a remedy.
fn refusal(answer: &Answer<'_>) -> Problem {
    let hint = match answer.status {
        401 => "; check user and password: http://USER:PASSWORD@HOST",
        404 => "; check the virtual host, http://HOST/VIRTUAL-HOST, and that the management plugin is on",
        _ => "",
    };
    let said: String = String::from_utf8_lossy(&answer.body).chars().take(200).collect();
    Problem::new(format!("the broker answers {}: {said}{hint}", answer.status))
}

/// The broker's name and version in the overview.
fn product(body: &[u8]) -> Option<String> {
    let said: Value = serde_json::from_slice(body).ok()?;
    let version = said["product_version"].as_str().or(said["rabbitmq_version"].as_str())?;
    Some(format!("{} {version}", said["product_name"].as_str().unwrap_or("RabbitMQ")))
}

/// A part of a path, with all characters but letters and digits escaped.
pub(super) fn escaped(part: &str) -> String {
    escape_except(part, b"-._")
}

impl Driver for Http {
    fn opened(&mut self, out: &mut Vec<u8>) {
        self.ask(Asked::Overview, None, out);
    }

    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>, sink: &mut dyn Sink) -> Result<usize, Problem> {
        let mut taken = 0;
        while let Some((answer, len)) = read(&bytes[taken..])? {
            taken += len;
            self.on_answer(&answer, out, sink)?;
        }
        Ok(taken)
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn is_full(&self) -> bool {
        self.asked.is_some()
    }

    fn publish(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let payload = BASE64.encode(payload);
        let body = json!({ "properties": {}, "routing_key": "", "payload": payload, "payload_encoding": "base64" });
        self.ask(Asked::Publish, Some(&body), out);
    }

    fn product(&self) -> Option<String> {
        self.product.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::{Noted, feed};
    use super::*;

    fn driver(role: Role) -> Http {
        let place = QueueTarget { authority: "h:1".to_owned(), host: "", credentials: None };
        Http::new("lab", "q", &place, true, role)
    }

    /// The first line of a request, and the body.
    fn asked(said: &[u8]) -> (String, String) {
        let said = String::from_utf8(said.to_vec()).unwrap();
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("\r\nHost: h:1\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"), "{head}");
        assert!(head.ends_with(&format!("\r\nContent-Length: {}", body.len())), "{head}");
        (head.split_once("\r\n").unwrap().0.to_owned(), body.to_owned())
    }

    fn ok(body: &str) -> Vec<u8> {
        format!("HTTP/1.1 200 OK\r\nserver: x\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    const MADE: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";

    #[test]
    fn a_subscriber_makes_its_queue_and_fetches_again_and_again() {
        for piece in [1, 7, 10_000] {
            let (mut driver, mut noted) = (driver(Role::Subscribe), Noted::default());
            let mut out = Vec::new();
            driver.opened(&mut out);
            assert_eq!(asked(&out).0, "GET /api/overview HTTP/1.1");
            let said = feed(&mut driver, &ok(r#"{"rabbitmq_version":"3.1"}"#), piece, &mut noted);
            assert_eq!(asked(&said).0, "PUT /api/exchanges/%2F/lab HTTP/1.1");
            assert_eq!(driver.product().as_deref(), Some("RabbitMQ 3.1"));
            assert_eq!(asked(&feed(&mut driver, MADE, piece, &mut noted)).0, "PUT /api/queues/%2F/q HTTP/1.1");
            let bound = feed(&mut driver, MADE, piece, &mut noted);
            assert_eq!(asked(&bound).0, "POST /api/bindings/%2F/e/lab/q/q HTTP/1.1");
            assert!(!driver.is_ready());
            let fetch = feed(&mut driver, MADE, piece, &mut noted);
            assert!(driver.is_ready());
            assert_eq!(asked(&fetch).0, "POST /api/queues/%2F/q/get HTTP/1.1");
            let two =
                r#"[{"payload":"aGk=","payload_encoding":"base64"},{"payload":"yo","payload_encoding":"string"}]"#;
            assert_eq!(feed(&mut driver, &ok(two), piece, &mut noted), fetch);
            assert_eq!(noted.messages, [b"hi", b"yo"]);
        }
    }

    #[test]
    fn a_publisher_posts_one_message_at_a_time() {
        let (mut driver, mut noted) = (driver(Role::Publish), Noted::default());
        driver.opened(&mut Vec::new());
        feed(&mut driver, &[&ok("{}"), MADE].concat(), 3, &mut noted);
        assert!(driver.is_ready() && !driver.is_full());
        for (said, expected) in [(r#"{"routed":true}"#, (1, 0)), (r#"{"routed":false}"#, (1, 1))] {
            let mut out = Vec::new();
            driver.publish(b"hi", &mut out);
            assert!(driver.is_full());
            let (line, body) = asked(&out);
            assert_eq!(line, "POST /api/exchanges/%2F/lab/publish HTTP/1.1");
            assert!(body.contains(r#""payload":"aGk=""#), "{body}");
            feed(&mut driver, &ok(said), 3, &mut noted);
            assert_eq!((noted.acknowledged, noted.refused), expected);
        }
    }

    #[test]
    fn a_refused_login_is_reported_with_a_remedy() {
        let mut driver = driver(Role::Publish);
        driver.opened(&mut Vec::new());
        let answer = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 4\r\n\r\noops";
        let Problem(why) = driver.received(answer, &mut Vec::new(), &mut Noted::default()).unwrap_err();
        assert_eq!(why, "the broker answers 401: oops; check user and password: http://USER:PASSWORD@HOST");
    }
}
