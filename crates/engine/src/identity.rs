//! The identity of a client, from authentication.

use crate::wire::{WireError, WireReader, WireWrite};
use std::sync::Arc;

/// The identity of a client. Rules are asked with it, and it stays with a session while its client is away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user name that was proven, or assigned by a certificate or token.
    pub user_name: Option<String>,
    /// The common name of the client's certificate, if it showed a valid one.
    pub certificate: Option<String>,
    /// Whether no rules hold for it.
    pub superuser: bool,
    /// Further attributes that rules may refer to: claims of a token, attributes from a service.
    pub attributes: Vec<(String, String)>,
    /// Rules from authentication; without any, the configured rules decide.
    pub grants: Option<Vec<Grant>>,
    /// When the proof ends, in milliseconds since the Unix epoch, and with it the connection.
    pub expires_at: Option<u64>,
    /// Its proof, if a provider of authentication has accepted one. It belongs to the connection.
    pub proof: Option<Proof>,
}

/// A credential that a provider of authentication has accepted, without its secret: another node decides by this whether
/// it would accept the credential, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The name of the provider.
    pub provider: Arc<str>,
    /// The provider's mark of it.
    pub mark: [u8; Proof::MARK_BYTES],
}

impl Proof {
    /// Length of a mark, bytes.
    pub const MARK_BYTES: usize = 16;

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.put_bytes(self.provider.as_bytes());
        out.extend_from_slice(&self.mark);
    }

    pub(crate) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        Ok(Self { provider: reader.text("a provider")?.into(), mark: reader.array("a mark")? })
    }
}

/// A rule that a token or a service brings along for its bearer. The first that applies decides; without one, a
/// request is denied.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent facts, stated by a token")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Whether it allows or forbids.
    pub allow: bool,
    /// Whether it is about publishing.
    pub publish: bool,
    /// Whether it is about subscribing and receiving.
    pub subscribe: bool,
    /// The topic filter, with placeholders.
    pub filter: String,
    /// Whether a subscription to exactly this filter is meant.
    pub literal: bool,
    /// For which of QoS 0, 1 and 2 it holds.
    pub qos: [bool; 3],
    /// For retained messages only, for others only, or for both.
    pub retain: Option<bool>,
}

impl Grant {
    fn write(&self, out: &mut Vec<u8>) {
        let flags = [self.allow, self.publish, self.subscribe, self.literal, self.qos[0], self.qos[1], self.qos[2]];
        out.put_u8(flags.iter().rev().fold(0, |bits, flag| bits << 1 | u8::from(*flag)));
        out.put_u8(match self.retain {
            None => 0,
            Some(false) => 1,
            Some(true) => 2,
        });
        out.put_bytes(self.filter.as_bytes());
    }

    fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let bits = reader.u8("a grant")?;
        let flag = |at: u8| bits >> at & 1 != 0;
        let retain = match reader.u8("a grant's RETAIN")? {
            0 => None,
            1 => Some(false),
            2 => Some(true),
            _ => return Err(WireError { reading: "a grant's RETAIN" }),
        };
        let filter = reader.text("a grant's filter")?.to_owned();
        Ok(Self {
            allow: flag(0),
            publish: flag(1),
            subscribe: flag(2),
            literal: flag(3),
            qos: [flag(4), flag(5), flag(6)],
            filter,
            retain,
        })
    }
}

impl Identity {
    /// Whether both are the same client with the same rights. A proof and its end belong to the connection.
    pub(crate) fn is_same_client(&self, other: &Self) -> bool {
        let names = |it: &Self| (it.user_name.clone(), it.certificate.clone(), it.superuser);
        names(self) == names(other) && self.attributes == other.attributes && self.grants == other.grants
    }

    /// Appends all but the proof and its end, which belong to the connection.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put_optional(out, self.user_name.as_deref());
        put_optional(out, self.certificate.as_deref());
        out.put_u8(u8::from(self.superuser));
        out.put_u32(self.attributes.len() as u32);
        for (name, value) in &self.attributes {
            out.put_bytes(name.as_bytes());
            out.put_bytes(value.as_bytes());
        }
        out.put_u8(u8::from(self.grants.is_some()));
        if let Some(grants) = &self.grants {
            out.put_u32(grants.len() as u32);
            for grant in grants {
                grant.write(out);
            }
        }
    }

    /// Reads the output of [`Identity::write`].
    pub(crate) fn read(reader: &mut WireReader<'_>) -> Result<Self, WireError> {
        let user_name = read_optional(reader, "a user name")?;
        let certificate = read_optional(reader, "a certificate's name")?;
        let superuser = reader.flag("whether rules hold")?;
        let mut attributes = Vec::new();
        for _ in 0..reader.u32("a number of attributes")? {
            let name = reader.text("an attribute's name")?.to_owned();
            attributes.push((name, reader.text("an attribute's value")?.to_owned()));
        }
        let mut grants = None;
        if reader.flag("whether there are grants")? {
            let list = grants.insert(Vec::new());
            for _ in 0..reader.u32("a number of grants")? {
                list.push(Grant::read(reader)?);
            }
        }
        Ok(Self { user_name, certificate, superuser, attributes, grants, expires_at: None, proof: None })
    }
}

fn put_optional(out: &mut Vec<u8>, text: Option<&str>) {
    out.put_u8(u8::from(text.is_some()));
    if let Some(text) = text {
        out.put_bytes(text.as_bytes());
    }
}

fn read_optional(reader: &mut WireReader<'_>, reading: &'static str) -> Result<Option<String>, WireError> {
    if reader.flag(reading)? { Ok(Some(reader.text(reading)?.to_owned())) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_written_except_its_proof() {
        let text = |text: &str| text.to_owned();
        let known = Identity {
            user_name: Some(text("ann")),
            certificate: None,
            superuser: true,
            attributes: vec![(text("role"), text("driver"))],
            grants: Some(vec![Grant {
                allow: true,
                publish: false,
                subscribe: true,
                filter: text("a/#"),
                literal: true,
                qos: [true, false, true],
                retain: Some(false),
            }]),
            expires_at: Some(7),
            proof: Some(Proof { provider: "users".into(), mark: [7; Proof::MARK_BYTES] }),
        };
        let mut bytes = Vec::new();
        known.write(&mut bytes);
        let read = Identity::read(&mut WireReader::new(&bytes));
        assert_eq!(read, Ok(Identity { expires_at: None, proof: None, ..known }));
        for cut in 0..bytes.len() {
            assert!(Identity::read(&mut WireReader::new(&bytes[..cut])).is_err(), "cut at {cut}");
        }
    }
}
