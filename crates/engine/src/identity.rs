//! Who a client is, as authentication has found out.

use crate::wire::{WireError, WireReader, WireWrite};

/// Who a client is. Rules are asked with it, and it stays with a session while its client is away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The user name that was proven, or assigned by a certificate or token.
    pub user_name: Option<String>,
    /// The common name of the client's certificate, if it showed a valid one.
    pub certificate: Option<String>,
    /// Whether no rules hold for it.
    pub superuser: bool,
    /// What else is known of it and rules may refer to: claims of a token, attributes that a service told.
    pub attributes: Vec<(String, String)>,
    /// Rules that authentication brought along; without any, those of the configuration decide.
    pub grants: Option<Grants>,
    /// When the proof ends, in milliseconds since the Unix epoch, and with it the connection.
    pub expires_at: Option<u64>,
}

/// Topic filters that a token or a service allows its bearer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// What it may publish to.
    pub publish: Vec<String>,
    /// What it may subscribe to.
    pub subscribe: Vec<String>,
}

impl Identity {
    /// Appends all but the end of the proof, which belongs to the connection.
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
            put_list(out, &grants.publish);
            put_list(out, &grants.subscribe);
        }
    }

    /// Reads what [`Identity::write`] wrote.
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
            let publish = read_list(reader)?;
            grants = Some(Grants { publish, subscribe: read_list(reader)? });
        }
        Ok(Self { user_name, certificate, superuser, attributes, grants, expires_at: None })
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

fn put_list(out: &mut Vec<u8>, list: &[String]) {
    out.put_u32(list.len() as u32);
    for text in list {
        out.put_bytes(text.as_bytes());
    }
}

fn read_list(reader: &mut WireReader<'_>) -> Result<Vec<String>, WireError> {
    let mut list = Vec::new();
    for _ in 0..reader.u32("a number of filters")? {
        list.push(reader.text("a filter")?.to_owned());
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_was_written_but_for_the_end_of_its_proof() {
        let text = |text: &str| text.to_owned();
        let known = Identity {
            user_name: Some(text("ann")),
            certificate: None,
            superuser: true,
            attributes: vec![(text("role"), text("driver"))],
            grants: Some(Grants { publish: vec![text("a/#")], subscribe: vec![] }),
            expires_at: Some(7),
        };
        let mut bytes = Vec::new();
        known.write(&mut bytes);
        let read = Identity::read(&mut WireReader::new(&bytes));
        assert_eq!(read, Ok(Identity { expires_at: None, ..known }));
        for cut in 0..bytes.len() {
            assert!(Identity::read(&mut WireReader::new(&bytes[..cut])).is_err(), "cut at {cut}");
        }
    }
}
