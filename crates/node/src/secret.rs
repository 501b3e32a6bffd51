//! The secret that the nodes of a cluster share.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use ring::hmac;
use tidegate_engine::{Accepted, Proof};
use zeroize::Zeroizing;

use crate::proxy_protocol::{Header, HeaderProof, RelayedTenant};

/// Length of a proof, bytes.
pub const PROOF_BYTES: usize = 32;

/// Minimum length of a secret, bytes. An eavesdropper of a handshake can try secrets offline, so the secret must be too
/// long to guess.
pub const MIN_SECRET_BYTES: usize = 16;

/// The secret that all nodes of a cluster share. It is never sent: each side proves that it knows it.
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<Vec<u8>>>);

/// A secret that could be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the secret of a cluster has {0} bytes: use at least {MIN_SECRET_BYTES}, made at random")]
pub struct SecretTooShort(pub usize);

impl Secret {
    /// Takes the bytes of a secret as they are.
    ///
    /// # Errors
    /// When there are fewer than [`MIN_SECRET_BYTES`].
    pub fn new(bytes: &[u8]) -> Result<Self, SecretTooShort> {
        if bytes.len() < MIN_SECRET_BYTES {
            return Err(SecretTooShort(bytes.len()));
        }
        Ok(Self(Arc::new(Zeroizing::new(bytes.to_vec()))))
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.0)
    }

    /// The proof of `side` that it knows the secret: over the frames of both sides (HMAC-SHA-256).
    pub(crate) fn prove(&self, side: &[u8], said: [&[u8]; 2]) -> [u8; PROOF_BYTES] {
        let mut proof = [0; PROOF_BYTES];
        proof.copy_from_slice(hmac::sign(&self.key(), &statement(side, said)).as_ref());
        proof
    }

    /// Whether a proof is valid for `side`; takes as long for a wrong one as for a right one.
    pub(crate) fn is_proof(&self, proof: &[u8], side: &[u8], said: [&[u8]; 2]) -> bool {
        hmac::verify(&self.key(), &statement(side, said), proof).is_ok()
    }
}

/// The node that speaks for the relayed client.
const RELAY: &[u8] = b"a node that relays a client of a tenant";
/// The side that asks to carry a client.
const CARRY: &[u8] = b"a node that asks to carry a client";

impl Secret {
    /// The proof that a node of the cluster has found this tenant for a client with this address.
    pub(crate) fn prove_tenant(&self, client: Option<SocketAddr>, tenant: RelayedTenant) -> HeaderProof {
        let (client, tenant) = said_of_relayed(client, tenant);
        self.prove(RELAY, [&client, &tenant])
    }

    /// The proof that a node of the cluster asks to carry a client with this address to a home.
    pub(crate) fn prove_carrying(&self, client: Option<SocketAddr>, home: SocketAddr) -> HeaderProof {
        self.prove(CARRY, [&text_of(client), home.to_string().as_bytes()])
    }

    /// Whether a header names only a tenant, or a home to carry its client to, that a node of the cluster has named.
    pub(crate) fn proves(&self, header: &Header) -> bool {
        let is_proof =
            |side, said: [&[u8]; 2]| header.fields.proof.is_some_and(|proof| self.is_proof(&proof, side, said));
        match (header.fields.tenant, header.fields.carry_to) {
            (None, None) => true,
            (Some(tenant), None) => {
                let (client, tenant) = said_of_relayed(header.source, tenant);
                is_proof(RELAY, [&client, &tenant])
            }
            (None, Some(home)) => is_proof(CARRY, [&text_of(header.source), home.to_string().as_bytes()]),
            (Some(_), Some(_)) => false,
        }
    }
}

/// The label from which the key of marks of credentials is derived.
const MARK: &[u8] = b"the mark of a credential";

impl Secret {
    /// The mark of a credential for the image of a connection: it tells nothing to those without the secret.
    pub fn seal_mark(&self, provider: &str, mark: [u8; Proof::MARK_BYTES]) -> [u8; Proof::MARK_BYTES] {
        let whole = self.prove(MARK, [provider.as_bytes(), &mark]);
        std::array::from_fn(|at| whole.get(at).copied().unwrap_or_default())
    }

    /// Seals the mark of an accepted client, before its connection can have an image.
    pub(crate) fn seal_proof(&self, accepted: &mut Accepted) {
        let Some(identity) = &mut accepted.identity else { return };
        if identity.proof.is_some()
            && let Some(proof) = &mut Arc::make_mut(identity).proof
        {
            proof.mark = self.seal_mark(&proof.provider, proof.mark);
        }
    }
}

/// The node that has made the image of a connection.
const CONNECTION: &[u8] = b"a node that a connection has left";

/// Length of the proof of an image.
pub(crate) const CONNECTION_PROOF_BYTES: usize = PROOF_BYTES;

impl Secret {
    /// The proof that a node of the cluster has made the image of a connection.
    pub(crate) fn prove_connection(&self, image: &[u8]) -> [u8; PROOF_BYTES] {
        self.prove(CONNECTION, [image, &[]])
    }

    /// Whether a node of the cluster has made an image.
    pub(crate) fn proves_connection(&self, image: &[u8], proof: &[u8]) -> bool {
        self.is_proof(proof, CONNECTION, [image, &[]])
    }
}

fn said_of_relayed(client: Option<SocketAddr>, tenant: RelayedTenant) -> (Vec<u8>, Vec<u8>) {
    let RelayedTenant { tenant, settled, mark } = tenant;
    let said = [&[u8::from(settled)][..], &tenant.0.to_be_bytes(), &mark.to_be_bytes()].concat();
    (text_of(client), said)
}

/// The address of a client, in the form that all nodes see.
fn text_of(client: Option<SocketAddr>) -> Vec<u8> {
    let client = client.map(|client| SocketAddr::new(client.ip().to_canonical(), client.port()).to_string());
    client.unwrap_or_default().into_bytes()
}

/// The bytes under the proof: each part has its length in front, so that no other parts make the same bytes.
fn statement(side: &[u8], said: [&[u8]; 2]) -> Vec<u8> {
    let mut statement = Vec::new();
    for part in [side, said[0], said[1]] {
        statement.extend_from_slice(&(part.len() as u64).to_le_bytes());
        statement.extend_from_slice(part);
    }
    statement
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy_protocol::HeaderFields;

    #[test]
    fn a_secret_that_could_be_guessed_is_refused_and_none_is_shown() {
        assert_eq!(Secret::new(b"fifteen bytes..").map(drop), Err(SecretTooShort(15)));
        let secret = Secret::new(b"sixteen bytes...").unwrap();
        assert!(!format!("{secret:?}").contains("sixteen"));
    }

    #[test]
    fn a_proof_holds_for_one_side_conversation_and_secret() {
        let (secret, other) = (Secret::new(&[1; 32]).unwrap(), Secret::new(&[2; 32]).unwrap());
        let proof = secret.prove(b"dialer", [b"ab", b"c"]);
        assert!(secret.is_proof(&proof, b"dialer", [b"ab", b"c"]));
        assert!(!secret.is_proof(&proof, b"listener", [b"ab", b"c"]));
        assert!(!secret.is_proof(&proof, b"dialer", [b"a", b"bc"]));
        assert!(!other.is_proof(&proof, b"dialer", [b"ab", b"c"]));
        assert!(!secret.is_proof(&proof[..31], b"dialer", [b"ab", b"c"]));
    }

    #[test]
    fn a_sealed_mark_is_of_one_secret_provider_and_mark() {
        let (ours, theirs) = (Secret::new(&[1; 32]).unwrap(), Secret::new(&[2; 32]).unwrap());
        let sealed = ours.seal_mark("users", [3; Proof::MARK_BYTES]);
        assert_eq!(ours.seal_mark("users", [3; Proof::MARK_BYTES]), sealed);
        let others = [
            theirs.seal_mark("users", [3; Proof::MARK_BYTES]),
            ours.seal_mark("keys", [3; Proof::MARK_BYTES]),
            ours.seal_mark("users", [4; Proof::MARK_BYTES]),
            [3; Proof::MARK_BYTES],
        ];
        assert!(!others.contains(&sealed));
    }

    #[test]
    fn a_tenant_is_proven_for_one_client_by_one_secret() {
        let (ours, theirs) = (Secret::new(b"sixteen bytes...").unwrap(), Secret::new(b"sixteen others..").unwrap());
        let client: SocketAddr = "192.0.2.1:5000".parse().unwrap();
        let tenant = |number, settled| RelayedTenant { tenant: tidegate_engine::TenantId(number), settled, mark: 3 };
        let proof = Some(ours.prove_tenant(Some(client), tenant(1, false)));
        let of = |tenant, proof| HeaderFields { tenant, proof, ..HeaderFields::default() };
        let header = Header { length: 0, source: Some(client), fields: of(Some(tenant(1, false)), proof) };
        assert!(ours.proves(&header) && !theirs.proves(&header));
        assert!(ours.proves(&Header { fields: of(None, None), ..header }), "no tenant needs no proof");
        let other = Some("192.0.2.1:5001".parse().unwrap());
        let wrong = [
            Header { fields: of(Some(tenant(1, false)), None), ..header },
            Header { fields: of(Some(tenant(2, false)), proof), ..header },
            Header { fields: of(Some(tenant(1, true)), proof), ..header },
            Header { fields: of(Some(RelayedTenant { mark: 4, ..tenant(1, false) }), proof), ..header },
            Header { fields: HeaderFields { carry_to: Some(client), ..header.fields }, ..header },
            Header { source: other, ..header },
        ];
        assert!(wrong.iter().all(|header| !ours.proves(header)));
        let mapped = SocketAddr::new("::ffff:192.0.2.1".parse().unwrap(), 5000);
        let of_mapped = Some(ours.prove_tenant(Some(mapped), tenant(1, false)));
        assert!(ours.proves(&Header { fields: of(Some(tenant(1, false)), of_mapped), ..header }));
    }

    #[test]
    fn a_node_asks_to_carry_one_client_to_one_home() {
        let (ours, theirs) = (Secret::new(b"sixteen bytes...").unwrap(), Secret::new(b"sixteen others..").unwrap());
        let (client, home) = (Some("192.0.2.1:5000".parse().unwrap()), "192.0.2.9:7001".parse().unwrap());
        let to = |home, proof| HeaderFields { proof, carry_to: Some(home), ..HeaderFields::default() };
        let proof = Some(ours.prove_carrying(client, home));
        let header = Header { length: 0, source: client, fields: to(home, proof) };
        assert!(ours.proves(&header) && !theirs.proves(&header));
        let wrong = [
            Header { source: None, ..header },
            Header { fields: to(home, None), ..header },
            Header { fields: to("192.0.2.9:7002".parse().unwrap(), proof), ..header },
        ];
        assert!(wrong.iter().all(|header| !ours.proves(header)));
    }
}
