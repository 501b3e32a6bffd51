//! The server's side of SCRAM: two messages in, two messages out.

use std::sync::Arc;

use data_encoding::BASE64;
use ring::rand::{SecureRandom, SystemRandom};
use subtle::{Choice, ConstantTimeEq};

use super::ScramUsers;
use super::message::{ClientFinal, ClientFirst, MessageError};
use crate::decision::{Decision, Identity, Refusal, RefusalKind};
use crate::password::{ScramHash, hmac_sha256, sha256};
use crate::provider::{Mechanism, Step};

/// Random bytes of the server's part of the nonce.
const NONCE_LEN: usize = 18;

/// One client that logs in.
#[derive(Debug)]
pub(super) struct Conversation {
    provider: Arc<str>,
    users: Arc<ScramUsers>,
    /// The server's part of the nonce; made when it is needed, unless a test has said it.
    server_nonce: Option<String>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// No message was received yet. `asked`: whether the client was asked to begin.
    Start { asked: bool },
    /// The client's first message has come and was answered.
    Challenged(Box<Challenge>),
    /// It is over.
    Over,
}

/// The state between the two messages.
#[derive(Debug)]
struct Challenge {
    user: String,
    hash: ScramHash,
    known: bool,
    gs2_header: String,
    nonce: String,
    /// Both first messages, with the comma between and behind them.
    signed: String,
}

impl Conversation {
    pub(super) fn new(provider: Arc<str>, users: Arc<ScramUsers>) -> Self {
        Self { provider, users, server_nonce: None, state: State::Start { asked: false } }
    }

    #[cfg(test)]
    pub(super) fn with_nonce(self, nonce: &str) -> Self {
        Self { server_nonce: Some(nonce.to_owned()), ..self }
    }

    fn first(&mut self, data: &[u8]) -> Result<Step, Refusal> {
        let message = ClientFirst::parse(data).map_err(|error| self.malformed(error))?;
        if message.authorization.as_ref().is_some_and(|name| *name != message.user) {
            return Err(self.refuse(RefusalKind::NotAuthorized, "the client wants to act as another user"));
        }
        let server_nonce = match self.server_nonce.take() {
            Some(nonce) => nonce,
            None => fresh_nonce()
                .ok_or_else(|| self.refuse(RefusalKind::Unavailable, "the system gives no random numbers"))?,
        };
        let (hash, known) = self.users.find(&message.user);
        let nonce = format!("{}{server_nonce}", message.nonce);
        let answer = format!("r={nonce},s={},i={}", BASE64.encode(&hash.salt), hash.rounds);
        let signed = format!("{},{answer},", message.bare);
        let gs2_header = message.gs2_header.to_owned();
        self.state =
            State::Challenged(Box::new(Challenge { user: message.user, hash, known, gs2_header, nonce, signed }));
        Ok(Step::Continue(answer.into_bytes()))
    }

    fn last(&self, challenge: &Challenge, data: &[u8]) -> Result<Step, Refusal> {
        let message = ClientFinal::parse(data).map_err(|error| self.malformed(error))?;
        if message.channel_binding != challenge.gs2_header.as_bytes() {
            return Err(self.refuse(RefusalKind::BadCredentials, "what the client says of channel binding has changed"));
        }
        if message.nonce != challenge.nonce {
            return Err(self.refuse(RefusalKind::BadCredentials, "the nonce is not the one of this exchange"));
        }
        let signed = format!("{}{}", challenge.signed, message.without_proof);
        let signature = hmac_sha256(&challenge.hash.stored_key, signed.as_bytes());
        let mut client_key = message.proof;
        for (byte, mask) in client_key.iter_mut().zip(signature) {
            *byte ^= mask;
        }
        let right = sha256(&client_key).ct_eq(&challenge.hash.stored_key) & Choice::from(u8::from(challenge.known));
        if !bool::from(right) {
            return Err(self.refuse(RefusalKind::BadCredentials, "the password is wrong, or the user is not known"));
        }
        let proof = hmac_sha256(&challenge.hash.server_key, signed.as_bytes());
        let identity = Identity {
            provider: self.provider.to_string(),
            user_name: Some(challenge.user.clone()),
            ..Identity::default()
        };
        let answer = format!("v={}", BASE64.encode(&proof));
        Ok(Step::Done(Decision::Allow(identity), Some(answer.into_bytes())))
    }

    fn malformed(&self, error: MessageError) -> Refusal {
        self.refuse(RefusalKind::BadCredentials, &error.to_string())
    }

    fn refuse(&self, kind: RefusalKind, why: &str) -> Refusal {
        Refusal::new(kind, &self.provider, why)
    }
}

impl Mechanism for Conversation {
    fn step(&mut self, data: &[u8]) -> Step {
        let outcome = match std::mem::replace(&mut self.state, State::Over) {
            // CONNECT may leave the data out; the client is then asked for it.
            State::Start { asked: false } if data.is_empty() => {
                self.state = State::Start { asked: true };
                Ok(Step::Continue(Vec::new()))
            }
            State::Start { .. } => self.first(data),
            State::Challenged(challenge) => self.last(&challenge, data),
            State::Over => Err(self.refuse(RefusalKind::NotAuthorized, "the exchange is over")),
        };
        outcome.unwrap_or_else(|refusal| Step::Done(Decision::Deny(refusal), None))
    }
}

fn fresh_nonce() -> Option<String> {
    let mut bytes = [0; NONCE_LEN];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(BASE64.encode(&bytes))
}
