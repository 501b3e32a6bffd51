//! Load for middleware without MQTT: messages from some publishers to some subscribers, with the same accounts. Each
//! protocol is a file here, behind the trait `Driver`.
//!
//! The protocols are state machines of our own: one thread drives thousands of connections and stamps each message. The
//! libraries for them (`lapin`, `h2`, `rdkafka`, clients of AMQP 1.0) bring runtimes, threads and batches, whose waits
//! would be measured as the broker's latency.

mod amqp091;
mod amqp1;
mod books;
mod coap;
mod datagrams;
mod driver;
mod exchange;
mod http;
mod http2;
mod kafka;
mod nats;
mod party;
mod plan;
mod translate;
mod wamp;
mod zeromq;

pub use exchange::run;
pub use plan::{ExchangePlan, Protocol};
pub use translate::TranslateError;

use driver::{Driver, Problem, Role, Sink};
