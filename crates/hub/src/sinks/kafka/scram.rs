//! The client's side of SCRAM [RFC 5802]: the server learns that the password is known, and not the password.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

/// Most rounds of hashing that a server may ask for.
const MAX_ITERATIONS: u32 = 1_000_000;
/// No channel binding: `n,,` in base64.
const BINDING: &str = "c=biws";

/// The hash of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

/// An exchange that has begun.
#[derive(Debug)]
pub(super) struct Scram {
    hash: Hash,
    password: String,
    nonce: String,
    first: String,
}

/// The server does not speak SCRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer of the server is not that of SCRAM")]
pub(super) struct NotScram;

impl Scram {
    /// `nonce` is chance, in visible characters without commas.
    pub(super) fn new(hash: Hash, user: &str, password: &str, nonce: String) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first = format!("n={user},r={nonce}");
        Self { hash, password: password.to_owned(), nonce, first }
    }

    /// The first message to the server.
    pub(super) fn first(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// The second message to the server, and its last answer when it knows the password, too.
    pub(super) fn finish(&self, server: &str) -> Result<(String, String), NotScram> {
        let unexpected = || NotScram;
        let value = |name: &str| server.split(',').find_map(|part| part.strip_prefix(name)).ok_or_else(unexpected);
        let (nonce, salt) = (value("r=")?, STANDARD.decode(value("s=")?).map_err(|_| unexpected())?);
        let iterations: u32 = value("i=")?.parse().map_err(|_| unexpected())?;
        let iterations =
            NonZeroU32::new(iterations).filter(|many| many.get() <= MAX_ITERATIONS).ok_or_else(unexpected)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(unexpected());
        }
        let (derivation, mac, hash) = match self.hash {
            Hash::Sha256 => (pbkdf2::PBKDF2_HMAC_SHA256, hmac::HMAC_SHA256, &digest::SHA256),
            Hash::Sha512 => (pbkdf2::PBKDF2_HMAC_SHA512, hmac::HMAC_SHA512, &digest::SHA512),
        };
        let mut salted = vec![0; hash.output_len()];
        pbkdf2::derive(derivation, iterations, &salt, self.password.as_bytes(), &mut salted);
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(mac, key), text);
        let client_key = sign(&salted, b"Client Key");
        let last = format!("{BINDING},r={nonce}");
        let all = format!("{},{server},{last}", self.first);
        let signature = sign(digest::digest(hash, client_key.as_ref()).as_ref(), all.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(key, sign)| key ^ sign).collect();
        let expected = sign(sign(&salted, b"Server Key").as_ref(), all.as_bytes());
        Ok((format!("{last},p={}", STANDARD.encode(proof)), format!("v={}", STANDARD.encode(expected))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exchange_of_the_standard_holds() {
        // RFC 7677, section 3.
        let scram = Scram::new(Hash::Sha256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO".to_owned());
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (last, expected) = scram.finish(server).unwrap();
        assert_eq!(
            last,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(expected, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        for wrong in ["", "r=other,s=,i=1", "r=rOprNGfwEbeRWgbNEkqO,s=,i=1", "r=rOprNGfwEbeRWgbNEkqOx,s=,i=99999999"] {
            assert!(scram.finish(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Scram::new(Hash::Sha512, "a,b=c", "", "r".to_owned()).first(), "n,,n=a=2Cb=3Dc,r=r");
    }
}
