//! Load for middleware without MQTT: messages from some publishers to some subscribers, with the same accounts. Each
//! protocol is a file here, behind the trait `Driver`.

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
