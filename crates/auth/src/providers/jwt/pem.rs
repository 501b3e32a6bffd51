//! Public keys and certificates in PEM. Of DER only as much is read as leads to the key.

use rustls::pki_types::pem::{PemObject, SectionKind};

use super::key::{Key, KeyProblem, checked};
use super::material::Material;

/// Tags of DER (X.690).
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
/// The version of a certificate, which may be left out.
const EXPLICIT_0: u8 = 0xa0;

/// Object identifiers of kinds of keys, without tag and length.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// Reads all keys of a file.
pub(super) fn parse(text: &[u8]) -> Result<Vec<Key>, KeyProblem> {
    let mut keys = Vec::new();
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(text);
    for (number, section) in (1..).zip(sections) {
        let (kind, der) = section.map_err(|_| KeyProblem::Broken(number))?;
        let material = match kind {
            SectionKind::PublicKey => from_spki(&der),
            SectionKind::Certificate => from_certificate(&der),
            SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey => {
                return Err(KeyProblem::Private);
            }
            _ => return Err(KeyProblem::Unknown(number)),
        };
        keys.push(Key::of(material.map_err(|fault| match fault {
            Fault::Broken => KeyProblem::Broken(number),
            Fault::Unknown => KeyProblem::Unknown(number),
        })?));
    }
    checked(keys)
}

/// Why there is no key in some DER.
enum Fault {
    /// The content is not DER of the declared type.
    Broken,
    /// The type of the key is unknown.
    Unknown,
}

/// A DER value with this tag, and the bytes after it.
fn take(tag: u8, der: &[u8]) -> Result<(&[u8], &[u8]), Fault> {
    take_any(der).filter(|(found, ..)| *found == tag).map(|(_, value, rest)| (value, rest)).ok_or(Fault::Broken)
}

/// The next tag, its value, and the bytes after it.
fn take_any(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match *length {
        short @ 0..=0x7f => (usize::from(short), rest),
        long @ 0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (digits.iter().fold(0, |length, digit| (length << 8) | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((*tag, value, rest))
}

/// The key of a `SubjectPublicKeyInfo` (RFC 5280, section 4.1).
fn from_spki(der: &[u8]) -> Result<Material, Fault> {
    let (info, _) = take(SEQUENCE, der)?;
    let (algorithm, rest) = take(SEQUENCE, info)?;
    let (kind, parameters) = take(OBJECT, algorithm)?;
    let (bits, _) = take(BIT_STRING, rest)?;
    let Some((0, key)) = bits.split_first() else {
        return Err(Fault::Broken);
    };
    match kind {
        RSA => rsa(key),
        ED25519 if key.len() == 32 => Ok(Material::Ed25519(key.to_vec())),
        EC => match take(OBJECT, parameters)?.0 {
            P256 if key.len() == 65 => Ok(Material::P256(key.to_vec())),
            P384 if key.len() == 97 => Ok(Material::P384(key.to_vec())),
            _ => Err(Fault::Unknown),
        },
        _ => Err(Fault::Unknown),
    }
}

/// An `RSAPublicKey` (RFC 8017, A.1.1).
fn rsa(der: &[u8]) -> Result<Material, Fault> {
    let (numbers, _) = take(SEQUENCE, der)?;
    let (modulus, rest) = take(INTEGER, numbers)?;
    let (exponent, _) = take(INTEGER, rest)?;
    let bare = |number: &[u8]| -> Vec<u8> { number.iter().copied().skip_while(|byte| *byte == 0).collect() };
    let (modulus, exponent) = (bare(modulus), bare(exponent));
    if modulus.is_empty() || exponent.is_empty() {
        return Err(Fault::Broken);
    }
    Ok(Material::Rsa { modulus, exponent })
}

/// The key of a certificate (RFC 5280, section 4.1). Its own signature and dates are not looked at: who wrote its name
/// into the configuration trusts it.
fn from_certificate(der: &[u8]) -> Result<Material, Fault> {
    let (certificate, _) = take(SEQUENCE, der)?;
    let (signed, _) = take(SEQUENCE, certificate)?;
    let rest = take(EXPLICIT_0, signed).map_or(signed, |(_, rest)| rest);
    let (_, mut rest) = take(INTEGER, rest)?;
    // The algorithm, the issuer, the dates and the subject.
    for _ in 0..4 {
        rest = take(SEQUENCE, rest)?.1;
    }
    from_spki(rest)
}
