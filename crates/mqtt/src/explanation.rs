//! The Reason String and the User Properties, which only explain a Reason Code.

use crate::property::{Property, PropertyReader};
use crate::writer::Sink;
use crate::{DecodeError, EncodeError, PacketType, PropertyOwner, UserProperties};

/// The two properties by which many packets explain themselves. A sender leaves them out when the packet
/// would exceed the receiver's Maximum Packet Size with them (for example [MQTT-3.4.2-2],
/// [MQTT-3.4.2-3]).
#[derive(Clone, Copy, Default)]
pub(crate) struct Explanation<'a> {
    pub(crate) reason_string: Option<&'a str>,
    pub(crate) user_properties: UserProperties<'a>,
}

impl<'a> Explanation<'a> {
    /// Decodes a block of properties, without its length, that may hold these two only.
    pub(crate) fn decode(block: &'a [u8], packet: PacketType) -> Result<Self, DecodeError> {
        let mut explanation = Self::default();
        if block.is_empty() {
            return Ok(explanation);
        }
        explanation.user_properties = UserProperties::from_block(block);
        let mut reader = PropertyReader::new(block, PropertyOwner::Packet(packet));
        while let Some(property) = reader.next()? {
            if let Property::ReasonString(text) = property {
                explanation.reason_string = Some(text);
            }
        }
        Ok(explanation)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.reason_string.is_none() && self.user_properties.is_empty()
    }

    pub(crate) fn write(&self, sink: &mut dyn Sink) {
        sink.optional(self.reason_string, Property::ReasonString);
        sink.user_properties(&self.user_properties);
    }

    /// Calls `encode` with less and less of the explanation until the packet fits. The Reason String is
    /// worth more than User Properties.
    pub(crate) fn fit(self, mut encode: impl FnMut(&Self) -> Result<(), EncodeError>) -> Result<(), EncodeError> {
        let nothing = Self::default();
        let levels = [
            self,
            Self { reason_string: self.reason_string, ..nothing },
            Self { user_properties: self.user_properties, ..nothing },
        ];
        for explanation in levels {
            let result = encode(&explanation);
            if !matches!(result, Err(EncodeError::TooLarge { .. } | EncodeError::FieldTooLong { .. })) {
                return result;
            }
        }
        encode(&nothing)
    }
}
