//! A [`Client`](crate::Client) over a socket, for programs that may block.

mod address;
mod announce;
mod connect_error;
mod driver;
mod link;
mod pipes;
#[cfg(feature = "quic")]
mod quic;
#[cfg(not(feature = "quic"))]
#[path = "net/quic_absent.rs"]
mod quic;
mod stream;
mod tls;
mod websocket;

pub use address::{Address, SocketOptions};
pub use announce::{Announce, Announced, SocketName};
pub use connect_error::{ConnectError, TransportError};
pub use driver::{Driver, Step, Waker};
pub use pipes::Pipes;
#[cfg(feature = "quic")]
pub use quic::{QuicSettings, QuicStream};
pub use tls::{TlsConnector, TlsFileError, TlsOptions, TlsVersion};
pub use websocket::{WebSocket, WebSocketError};
