//! An authority for development, and its certificates.

use jiff::Zoned;
use jiff::civil::Date;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, Error, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// Years for which the authority is valid.
const AUTHORITY_YEARS: i16 = 10;
/// Validity of its certificates, years. Some clients refuse servers' certificates that are valid for much longer.
const CERTIFICATE_YEARS: i16 = 2;

/// A certificate and its key, PEM.
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key.
    pub key: String,
}

/// The holder of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A server.
    Server,
    /// A client.
    Client,
}

/// An authority for development. Its key signs with ECDSA on P-256, which every client of TLS knows.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new() -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named("Tidegate development authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        set_validity(&mut params, AUTHORITY_YEARS);
        CertifiedIssuer::self_signed(params, KeyPair::generate()?).map(Self)
    }

    /// Its own certificate and key.
    pub fn pair(&self) -> Pair {
        Pair { certificate: self.0.pem(), key: self.0.key().serialize_pem() }
    }

    /// Issues a certificate with this common name, for these names and addresses.
    ///
    /// # Errors
    /// When a name cannot stand in a certificate.
    pub fn issue(&self, holder: Holder, common_name: &str, names: &[String]) -> Result<Pair, Error> {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = named(common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match holder {
            Holder::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Holder::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, CERTIFICATE_YEARS);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.0)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut full = DistinguishedName::new();
    full.push(DnType::CommonName, name);
    full
}

/// From yesterday on, since clocks differ, for some years.
fn set_validity(params: &mut CertificateParams, years: i16) {
    let today = Zoned::now().date();
    let yesterday = today.yesterday().unwrap_or(today);
    let (start, last) = (moment(yesterday, 0), moment(today, years));
    params.not_before = date_time_ymd(start.0, start.1, start.2);
    params.not_after = date_time_ymd(last.0, last.1, last.2);
}

/// Year, month and day, some years later. No later month is shorter than 28 days, which is enough here.
fn moment(date: Date, years: i16) -> (i32, u8, u8) {
    let number = |part: i8| u8::try_from(part).unwrap_or(1);
    (i32::from(date.year() + years), number(date.month()), number(date.day()).min(28))
}
