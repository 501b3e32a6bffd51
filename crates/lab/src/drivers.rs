//! Load for middleware that does not speak MQTT: messages from some publishers to some subscribers, counted by the same
//! books. A protocol is a file here, behind the trait `Driver`.

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

use driver::{Driver, Problem, Role, Sink};
