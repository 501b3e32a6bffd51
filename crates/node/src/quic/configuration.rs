//! The configuration of QUIC: limits of connections, keys of tokens, and the certificates of a listener.

use std::sync::Arc;

use quinn_proto::crypto::HandshakeTokenKey;
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicServerConfig};
use quinn_proto::{
    ConnectionIdGenerator, EndpointConfig, RandomConnectionIdGenerator, ServerConfig, TransportConfig, VarInt,
};
use ring::hkdf;
use ring::rand::{SecureRandom, SystemRandom};

use super::limits::{
    CONNECTION_ID_BYTES, CRYPTO_BUFFER_BYTES, IDLE_TIMEOUT_MS, RECEIVE_WINDOW_BYTES, SEND_WINDOW_BYTES,
};

/// The key that validates the addresses of clients. It outlives a reload of certificates, so that a validation in
/// progress need not begin again.
pub(super) fn token_key() -> Result<Arc<dyn HandshakeTokenKey>, ring::error::Unspecified> {
    let mut secret = [0; 64];
    SystemRandom::new().fill(&mut secret)?;
    Ok(Arc::new(hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&secret)))
}

/// The settings of all endpoints: packets of unknown connections are answered by a stateless reset.
pub(super) fn endpoint() -> Arc<EndpointConfig> {
    let mut config = EndpointConfig::default();
    config.cid_generator(connection_ids);
    Arc::new(config)
}

/// Connection ids whose bytes are all random. By default only three are: with 10,000 clients that have several ids
/// each, one client in two hundred with a validated address would be given the id of another client, and never get an
/// answer.
fn connection_ids() -> Box<dyn ConnectionIdGenerator> {
    Box::new(RandomConnectionIdGenerator::new(CONNECTION_ID_BYTES))
}

/// The settings of new connections with these certificates.
///
/// # Errors
/// When the listener does not allow TLS 1.3 with its mandatory cipher suite.
pub(super) fn server(
    tls: &Arc<rustls::ServerConfig>,
    token_key: &Arc<dyn HandshakeTokenKey>,
) -> Result<Arc<ServerConfig>, NoInitialCipherSuite> {
    let crypto = QuicServerConfig::try_from(Arc::clone(tls))?;
    let mut config = ServerConfig::new(Arc::new(crypto), Arc::clone(token_key));
    config.transport_config(Arc::new(transport())).migration(true);
    Ok(Arc::new(config))
}

/// One stream that the client opens, and nothing else: no unidirectional streams, no QUIC datagrams.
fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .max_idle_timeout(Some(VarInt::from_u32(IDLE_TIMEOUT_MS).into()))
        // Both windows are the same, for there is one stream.
        .stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(RECEIVE_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        .crypto_buffer_size(CRYPTO_BUFFER_BYTES)
        // Messages of devices fit into the smallest datagram that QUIC allows; probing for more would cost each of them
        // several datagrams when it comes and again every ten minutes.
        .mtu_discovery_config(None);
    transport
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Of a space of three bytes a dozen would come twice.
    #[test]
    fn no_connection_id_comes_twice() {
        const COUNT: usize = 20_000;
        let mut generator = connection_ids();
        let ids: HashSet<Vec<u8>> = (0..COUNT).map(|_| generator.generate_cid().to_vec()).collect();
        assert_eq!(ids.len(), COUNT);
    }
}
