//! The CONNECT packet as a case describes it.

use super::bytes::Bytes;
use super::properties::{self, Property};
use crate::version::Version;

/// A Will Message with its fields.
#[derive(Clone, Debug)]
pub(crate) struct Will {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) qos: u8,
    pub(crate) retain: bool,
    pub(crate) properties: Vec<Property>,
}

impl Will {
    pub(crate) fn new(topic: &str, payload: impl AsRef<[u8]>) -> Self {
        Self {
            topic: topic.to_owned(),
            payload: payload.as_ref().to_vec(),
            qos: 0,
            retain: false,
            properties: Vec::new(),
        }
    }

    pub(crate) fn qos(mut self, qos: u8) -> Self {
        self.qos = qos;
        self
    }

    pub(crate) fn retain(mut self) -> Self {
        self.retain = true;
        self
    }

    pub(crate) fn with(mut self, property: Property) -> Self {
        self.properties.push(property);
        self
    }
}

/// A CONNECT packet. Starts with Clean Start, a keep alive of a minute and nothing optional.
#[derive(Clone, Debug)]
pub(crate) struct Connect {
    pub(crate) version: Version,
    pub(crate) client_id: String,
    pub(crate) clean: bool,
    pub(crate) keep_alive: u16,
    pub(crate) properties: Vec<Property>,
    pub(crate) will: Option<Will>,
    pub(crate) user_name: Option<String>,
    pub(crate) password: Option<Vec<u8>>,
}

/// Seconds that a persistent session of a case outlives its connection; cases clean up after themselves.
const SESSION_EXPIRY: u32 = 600;

impl Connect {
    pub(crate) fn new(version: Version, client_id: &str) -> Self {
        Self {
            version,
            client_id: client_id.to_owned(),
            clean: true,
            keep_alive: 60,
            properties: Vec::new(),
            will: None,
            user_name: None,
            password: None,
        }
    }

    /// Sets Clean Start (MQTT 3.1.1: Clean Session).
    pub(crate) fn clean(mut self, clean: bool) -> Self {
        self.clean = clean;
        self
    }

    /// Asks to resume, and for a session that outlives the connection, in the way of this version.
    pub(crate) fn persistent(self) -> Self {
        let expires = self.properties.iter().any(|property| matches!(property, Property::SessionExpiryInterval(_)));
        let connect = self.clean(false);
        if expires || connect.version != Version::V5 {
            return connect;
        }
        connect.with(Property::SessionExpiryInterval(SESSION_EXPIRY))
    }

    pub(crate) fn keep_alive(mut self, seconds: u16) -> Self {
        self.keep_alive = seconds;
        self
    }

    pub(crate) fn with(mut self, property: Property) -> Self {
        self.properties.push(property);
        self
    }

    pub(crate) fn will(mut self, will: Will) -> Self {
        self.will = Some(will);
        self
    }

    /// Whether the session may outlive the connection.
    pub(crate) fn is_persistent(&self) -> bool {
        match self.version {
            Version::V31 | Version::V311 => !self.clean,
            Version::V5 => self
                .properties
                .iter()
                .any(|property| matches!(property, Property::SessionExpiryInterval(seconds) if *seconds > 0)),
        }
    }

    /// The connect flags that fit the fields.
    pub(crate) fn flags(&self) -> u8 {
        let mut flags = u8::from(self.clean) << 1;
        if let Some(will) = &self.will {
            flags |= 0x04 | (will.qos << 3) | (u8::from(will.retain) << 5);
        }
        flags |= u8::from(self.password.is_some()) << 6;
        flags | (u8::from(self.user_name.is_some()) << 7)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        self.encode_with_flags(self.flags())
    }

    /// The packet with other connect flags than its fields ask for.
    pub(crate) fn encode_with_flags(&self, flags: u8) -> Vec<u8> {
        self.head(flags).raw(&self.payload()).packet(0x10)
    }

    /// The variable header: name, level, flags, keep alive and, in MQTT 5, properties.
    pub(crate) fn head(&self, flags: u8) -> Bytes {
        let head =
            Bytes::new().text(self.version.protocol_name()).byte(self.version.level()).byte(flags).two(self.keep_alive);
        if self.version == Version::V5 { head.raw(&properties::encode(&self.properties)) } else { head }
    }

    /// The payload: client identifier, will fields, user name and password.
    pub(crate) fn payload(&self) -> Vec<u8> {
        let mut payload = Bytes::new().text(&self.client_id);
        if let Some(will) = &self.will {
            if self.version == Version::V5 {
                payload = payload.raw(&properties::encode(&will.properties));
            }
            payload = payload.text(&will.topic).binary(&will.payload);
        }
        if let Some(user_name) = &self.user_name {
            payload = payload.text(user_name);
        }
        if let Some(password) = &self.password {
            payload = payload.binary(password);
        }
        payload.into_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_connect_is_byte_exact() {
        let connect = Connect::new(Version::V311, "id");
        let expected = [0x10, 14, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 60, 0, 2, b'i', b'd'];
        assert_eq!(connect.encode(), expected);
    }

    #[test]
    fn will_and_credentials_set_their_flags() {
        let mut connect = Connect::new(Version::V5, "id").will(Will::new("w", "x").qos(2).retain());
        connect.user_name = Some("u".to_owned());
        connect.password = Some(b"p".to_vec());
        assert_eq!(connect.flags(), 0b1111_0110);
        assert_eq!(connect.payload(), b"\0\x02id\0\0\x01w\0\x01x\0\x01u\0\x01p");
    }
}
