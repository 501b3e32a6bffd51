//! Clients that one engine authenticates and another one serves (BRK-10): clients of a user whose own credentials are
//! sent to brokers.

use crate::connection::Phase;
use crate::engine::facets::HomeCalls;
use crate::ids::ConnectionKey;
use tidegate_mqtt::PacketType;

impl HomeCalls<'_> {
    /// A client may come in and is served by another engine: its connection is the shell's alone from now on. Returns
    /// all that the client has sent, from its CONNECT on; `None` when it does not wait for authentication any more.
    pub fn leave_admitted(&mut self, key: ConnectionKey) -> Option<Vec<u8>> {
        let connection = self.engine.state.connections.get_mut(key).filter(|it| it.phase == Phase::Authenticating)?;
        let packet = connection.extra.as_mut()?.pending_connect.take()?.packet;
        let (first_byte, body) = packet.split_first()?;
        let mut bytes = vec![*first_byte];
        put_length(body.len(), &mut bytes);
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(connection.tail.as_deref().map_or(&[], Vec::as_slice));
        self.engine.release_connection(key);
        // The connection and its bytes are counted at their new home.
        let counters = &mut self.engine.state.counters;
        counters.sockets_opened -= 1;
        counters.packets_in[PacketType::Connect as usize] -= 1;
        counters.bytes_in = counters.bytes_in.saturating_sub(bytes.len() as u64);
        Some(bytes)
    }
}

/// The length of a packet's body, as it was received: seven bits in each byte, the lowest ones first (section 1.5.5).
fn put_length(mut length: usize, out: &mut Vec<u8>) {
    loop {
        let digit = (length & 0x7f) as u8;
        length >>= 7;
        out.push(if length > 0 { digit | 0x80 } else { digit });
        if length == 0 {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_as_they_are_read() {
        for (length, bytes) in [(0, &[0][..]), (127, &[127]), (128, &[128, 1]), (16_384, &[128, 128, 1])] {
            let mut out = Vec::new();
            put_length(length, &mut out);
            assert_eq!(out, bytes);
        }
    }
}
