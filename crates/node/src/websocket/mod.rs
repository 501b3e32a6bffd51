//! MQTT over WebSocket, the server's side [RFC 6455; MQTT 5.0, section 6]: a codec that sees no socket.
//!
//! Payload is not buffered: bytes of binary frames are passed on as they arrive, wherever frames are split
//! [MQTT-6.0.0-2]. Extensions are not negotiated.

mod close_code;
mod decoder;
mod endpoint;
mod frame;
mod handshake;
mod mask;
mod outgoing;
mod site;
#[cfg(test)]
mod tests;

pub use close_code::{CloseCode, Violation};
pub use decoder::{Decoder, FRAME_MAX, Item};
pub use endpoint::{Ended, Endpoint, Received};
pub use handshake::{HEAD_MAX, Handshake, Refusal, handshake};
pub use outgoing::Outgoing;
pub use site::Site;
