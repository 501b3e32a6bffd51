//! TLS between nodes, by the configuration.

use std::net::SocketAddr;
use std::path::Path;

use super::error::NodeError;
use rcgen::CertifiedKey;
use tidegate_node::LinkTls;

use tidegate_config::Config;
use tidegate_config::sections::cluster::LinkEncryption;

/// How the links of this node are encrypted, if they are.
///
/// # Errors
/// When a file cannot be used.
pub(super) fn link_tls(config: &Config, listen: SocketAddr) -> Result<Option<LinkTls>, NodeError> {
    let cluster = &config.cluster;
    match cluster.tls {
        LinkEncryption::Off => {
            if !listen.ip().is_loopback() {
                tracing::warn!(
                    address = %listen,
                    "traffic between nodes is not encrypted: set cluster.tls = \"secret\" on all of them, unless the network is"
                );
            }
            Ok(None)
        }
        LinkEncryption::Secret => {
            let made = rcgen::generate_simple_self_signed(Vec::new());
            let CertifiedKey { cert, signing_key } = made?;
            let tls = LinkTls::self_signed(cert.der().to_vec(), signing_key.serialize_der());
            Ok(Some(tls?))
        }
        LinkEncryption::Files => {
            let file = |file: &Option<String>| file.clone().unwrap_or_default();
            let [ca, certificate, key] = [&cluster.tls_ca, &cluster.tls_certificate, &cluster.tls_key].map(file);
            let tls = LinkTls::of_authority(Path::new(&ca), Path::new(&certificate), Path::new(&key));
            Ok(Some(tls?))
        }
    }
}
