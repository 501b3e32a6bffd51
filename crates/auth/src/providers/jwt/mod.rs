//! Signed tokens (RFC 7519) as passwords.
//!
//! `ring` verifies signatures. A library for tokens would add little: key sets that change, limits of sizes and the rules
//! of claims are this provider's.

mod algorithm;
mod claims;
mod jwk;
mod key;
mod material;
mod pem;
mod source;
mod token;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use zeroize::Zeroizing;

use super::{ProviderError, Workshop};
use crate::clock::Clock;
use crate::decision::{Decision, Identity, Refusal, RefusalKind};
use crate::mark::Mark;
use crate::provider::{Context, Provider};
use crate::request::Request;
use crate::settings::{JwtKeys, JwtSettings, TokenPlace};

use algorithm::Algorithm;
use key::Key;
use source::Source;
use token::Token;

/// Whether tokens may be signed with an algorithm of that name.
pub fn is_algorithm(name: &str) -> bool {
    Algorithm::parse(name).is_some()
}

pub use key::{KeyProblem, KeysError};

/// Verifies tokens. A password that is not a token is left to the next provider; an invalid token is refused.
#[derive(Debug)]
pub(super) struct Jwt {
    name: String,
    settings: JwtSettings,
    /// Algorithms that are taken; empty for all.
    algorithms: Vec<Algorithm>,
    source: Source,
    clock: Arc<dyn Clock>,
}

impl Jwt {
    pub(super) fn make(name: &str, settings: &JwtSettings, workshop: &Workshop) -> Result<Self, ProviderError> {
        let parse = |name: &String| Algorithm::parse(name).ok_or_else(|| ProviderError::Algorithm(name.clone()));
        Ok(Self {
            name: name.to_owned(),
            settings: settings.clone(),
            algorithms: settings.algorithms.iter().map(parse).collect::<Result<_, _>>()?,
            source: Source::make(&settings.keys, &workshop.clock)?,
            clock: Arc::clone(&workshop.clock),
        })
    }

    fn text<'a>(&self, request: &'a Request) -> Option<&'a str> {
        match self.settings.token {
            TokenPlace::Password => std::str::from_utf8(request.password.as_ref()?.expose()).ok(),
            TokenPlace::UserName => request.user_name.as_deref(),
        }
    }

    fn verify(&self, token: &Token<'_>, request: &Request, context: Context) -> Result<Decision, Refusal> {
        let bad = |why: &str| Refusal::new(RefusalKind::BadCredentials, &self.name, why);
        let algorithm = token.algorithm().map_err(bad)?;
        if !self.algorithms.is_empty() && !self.algorithms.contains(&algorithm) {
            return Err(bad("the token's algorithm is not accepted"));
        }
        let mark = self.check_signature(token, algorithm, context)?;
        let claims = token.claims().ok_or_else(|| bad("the token holds no claims"))?;
        let identity = claims::identity(&claims, &self.settings, &request.client_id, self.clock.unix_ms())
            .map_err(|(kind, why)| Refusal::new(kind, &self.name, why))?;
        let user_name = match self.settings.token {
            // Otherwise the whole token would be the user name.
            TokenPlace::UserName => identity.user_name.clone(),
            TokenPlace::Password => identity.user_name.clone().or_else(|| request.user_name.clone()),
        };
        Ok(Decision::Allow(Identity { user_name, mark: Some(mark), ..identity }))
    }

    /// The mark of the key that has signed the token. The keys of a server may have changed, so if none matches they are
    /// fetched once more.
    fn check_signature(&self, token: &Token<'_>, algorithm: Algorithm, context: Context) -> Result<Mark, Refusal> {
        for unknown in [false, true] {
            let keys = self.source.keys(&self.name, unknown, context.left).ok_or_else(|| {
                Refusal::new(RefusalKind::Unavailable, &self.name, "the keys of tokens could not be fetched")
            })?;
            let mut fitting = keys.iter().filter(|key| key.may_verify(algorithm, token.key_id())).peekable();
            if fitting.peek().is_some() {
                let signed = fitting.find(|key| token.is_signed_by(key, algorithm));
                let wrong = || Refusal::new(RefusalKind::BadCredentials, &self.name, "the token's signature is wrong");
                return signed.map(|key| self.mark_of(self.source.fixed().map(|_| key))).ok_or_else(wrong);
            }
        }
        Err(Refusal::new(RefusalKind::BadCredentials, &self.name, "no key fits the token's algorithm and key id"))
    }

    /// The mark of tokens that a key of a file has signed: of the key and the settings that decide, not of limits or of
    /// paths. A server may replace its keys while their tokens hold, so its tokens have the mark of its address.
    fn mark_of(&self, key: Option<&Key>) -> Mark {
        let JwtSettings { issuer, audience, user_claim, client_id_claim, .. } = &self.settings;
        let JwtSettings { acl_claim, tenant_claim, superuser_claim, require_expiry, .. } = &self.settings;
        let claims = (user_claim, client_id_claim, acl_claim, tenant_claim, superuser_claim, require_expiry);
        let text = format!("{:?}", (issuer, audience, claims, &self.algorithms));
        let mut bytes = Zeroizing::new(text.into_bytes());
        match (key, &self.settings.keys) {
            (Some(key), _) => key.append_to(&mut bytes),
            (None, JwtKeys::JwksUrl { url, .. }) => bytes.extend_from_slice(url.as_bytes()),
            (None, JwtKeys::SecretFile(_) | JwtKeys::PemFile(_) | JwtKeys::JwksFile(_)) => {}
        }
        Mark::of(&bytes)
    }
}

impl Provider for Jwt {
    fn decide(&self, request: &Request, context: Context) -> Decision {
        let Some(token) = self.text(request).and_then(Token::parse) else {
            return Decision::Ignore;
        };
        self.verify(&token, request, context).unwrap_or_else(Decision::Deny)
    }

    /// The key was found with the signature.
    fn mark(&self, identity: &Identity) -> Option<Mark> {
        identity.mark
    }

    fn accepts(&self, _: &Identity, is_mark: &dyn Fn(Mark) -> bool) -> bool {
        match self.source.fixed() {
            Some(keys) => keys.iter().any(|key| is_mark(self.mark_of(Some(key)))),
            None => is_mark(self.mark_of(None)),
        }
    }
}
