//! Queries as datagrams.

use std::sync::Arc;
use std::time::Instant;

use tokio::net::UdpSocket;

use super::{FAULT_PAUSE, answered};
use crate::counters::DropReason;
use crate::flood::Transport;
use crate::wire::{MAX_QUERY_BYTES, Responder};

/// Answers one datagram after the other. An answer that the system does not accept at once is dropped, as the network
/// might have done, so there is no queue.
pub(super) async fn serve(socket: UdpSocket, responder: Arc<Responder>) {
    // One more than the longest query, so that a longer one is seen to be longer.
    let mut buffer = vec![0; MAX_QUERY_BYTES + 1];
    loop {
        let (length, source) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                tracing::warn!(%error, "cannot receive DNS queries");
                tokio::time::sleep(FAULT_PAUSE).await;
                continue;
            }
        };
        let packet = buffer.get(..length).unwrap_or_default();
        if let Some(answer) = answered(|| responder.respond(packet, source, Transport::Udp, Instant::now())).await
            && let Err(error) = socket.try_send_to(&answer, source)
        {
            tracing::debug!(%source, %error, "cannot send a DNS answer");
            responder.counters().drop_packet(DropReason::SendFailed);
        }
    }
}
