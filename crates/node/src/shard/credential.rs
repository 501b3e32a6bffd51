//! Whether the credential of a connection that has come from another node holds here, too.

use tidegate_engine::{
    ConnectionImage, ConnectionKey, Identity, ListenerId, NotContinued, Reason, SHOWN_MAX, ShownCertificate,
};

use crate::observer::ContinuedClient;
use crate::shard::facets::SocketCalls;
use crate::tls::{Identity as CertificateIdentity, client_facts};

/// The certificate of a client cannot go along with its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CertificateStays;

/// A ban ends a connection as an operator does: 0x8A is for CONNACK only ([MQTT-3.14.2-1]).
fn refusal_of(reason: Reason) -> NotContinued {
    NotContinued::Refused(if reason == Reason::Banned { Reason::AdministrativeAction } else { reason })
}

impl SocketCalls<'_> {
    /// The certificate that a client has shown, here or to an earlier home.
    ///
    /// # Errors
    /// When another part of the process has ended its TLS session, or the certificates are too long.
    pub(crate) fn shown_certificate(
        &mut self,
        key: ConnectionKey,
    ) -> Result<Option<ShownCertificate>, CertificateStays> {
        if let Some(shown) = self.shard.gate.shown(key) {
            return Ok(Some(shown.clone()));
        }
        let listener = usize::from(self.shard.table.listener(key).0);
        let Some((_, transport)) = self.shard.table.get(key) else { return Ok(None) };
        if transport.has_identity_inside() {
            return Err(CertificateStays);
        }
        let chain = transport.client_chain();
        if chain.is_empty() {
            return Ok(None);
        }
        if chain.iter().map(|certificate| certificate.len() + 4).sum::<usize>() > SHOWN_MAX {
            return Err(CertificateStays);
        }
        let listener = self.shard.shared.listener_names.get(listener).cloned().unwrap_or_default();
        Ok(Some(ShownCertificate { listener, chain }))
    }

    /// Checks the credential of a connection by the certificates, users and bans of this node.
    pub(super) fn check_credential(&mut self, key: ConnectionKey, image: &ConnectionImage) -> Result<(), NotContinued> {
        let identity = self.shard.engine.homes().identity_of(self.shard.now, image)?;
        let identity = identity.as_deref();
        let shown_to = match &image.shown {
            Some(shown) => Some(self.listener_that_accepts(shown).ok_or_else(|| {
                let (client_id, listener) = (&*image.client_id, &*shown.listener);
                tracing::warn!(client_id, listener, "client of another node refused: its certificate is not accepted");
                NotContinued::Refused(Reason::NotAuthorized)
            })?),
            None => None,
        };
        if identity.and_then(|identity| identity.expires_at).is_some_and(|ends| ends <= self.shard.now.unix) {
            return Err(NotContinued::Refused(Reason::ProofExpired));
        }
        if self.shard.shared.asks_outside {
            self.ask_for_continued(key, image, identity, shown_to)?;
        }
        let user = identity.and_then(|identity| identity.user_name.as_deref());
        self.shard.admission().count_continued(key, image, user).map_err(refusal_of)?;
        if let Some(shown) = &image.shown {
            self.shard.gate.keep_shown(key, shown.clone());
        }
        Ok(())
    }

    fn ask_for_continued(
        &mut self,
        key: ConnectionKey,
        image: &ConnectionImage,
        identity: Option<&Identity>,
        shown_to: Option<ListenerId>,
    ) -> Result<(), NotContinued> {
        let listener = self.shard.table.listener(key);
        let (tenant, client_id) = (image.tenant, &*image.client_id);
        let is_of_here = self.shard.engine.homes().is_of_here(self.shard.now, image);
        let secret = self.shard.shared.cluster_secret.as_ref().ok_or(NotContinued::NotExpected)?;
        let certificate = self.name_in_certificate(image, shown_to);
        let certificate = certificate.as_ref();
        let client =
            ContinuedClient { listener, shown_to, certificate, tenant, client_id, identity, is_of_here, secret };
        self.shard.shared.observer.accept_continued(&client).map_err(NotContinued::Refused)
    }

    /// The name in the certificate of a client, by the settings of the listener that accepts it.
    fn name_in_certificate(
        &self,
        image: &ConnectionImage,
        shown_to: Option<ListenerId>,
    ) -> Option<CertificateIdentity> {
        let own = image.shown.as_ref()?.chain.first()?;
        let listener = self.shard.shared.tls.get(usize::from(shown_to?.0))?;
        client_facts(own, &listener.settings()).1
    }

    /// The listener of the name to which a certificate was shown, if it accepts the certificate now.
    fn listener_that_accepts(&self, shown: &ShownCertificate) -> Option<ListenerId> {
        let position = self.shard.shared.listener_names.iter().position(|name| *name == shown.listener)?;
        let listener = self.shard.shared.tls.get(position)?;
        listener.accepts_client(&shown.chain).then_some(ListenerId(u16::try_from(position).ok()?))
    }
}
