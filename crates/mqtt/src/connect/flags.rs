//! The Connect Flags.

use crate::{DecodeError, QoS, Version};

const RESERVED: u8 = 1;
const CLEAN_START: u8 = 1 << 1;
const WILL: u8 = 1 << 2;
const WILL_QOS_SHIFT: u8 = 3;
const WILL_QOS: u8 = 0b11 << WILL_QOS_SHIFT;
const WILL_RETAIN: u8 = 1 << 5;
const PASSWORD: u8 = 1 << 6;
const USERNAME: u8 = 1 << 7;

/// The decoded Connect Flags (section 3.1.2.3).
pub(super) struct ConnectFlags {
    pub(super) clean_start: bool,
    /// The will's QoS and RETAIN, when there is a will.
    pub(super) will: Option<(QoS, bool)>,
    pub(super) username: bool,
    pub(super) password: bool,
}

impl ConnectFlags {
    /// Reads and checks the flags. MQTT 3.1 does not ask for the reserved bit, nor for the will's bits
    /// without a will, to be 0.
    pub(super) fn decode(version: Version, bits: u8) -> Result<Self, DecodeError> {
        // [MQTT-3.1.2-3]
        if bits & RESERVED != 0 && version != Version::V31 {
            return Err(DecodeError::ReservedBits { field: "connect flags" });
        }
        let flags = Self {
            clean_start: bits & CLEAN_START != 0,
            will: will(version, bits)?,
            username: bits & USERNAME != 0,
            password: bits & PASSWORD != 0,
        };
        // [MQTT-3.1.2-22] of 3.1.1.
        if !version.is_v5() && flags.password && !flags.username {
            return Err(DecodeError::PasswordWithoutUserName);
        }
        Ok(flags)
    }

    pub(super) const fn bits(&self) -> u8 {
        let will = match self.will {
            Some((qos, true)) => WILL | WILL_RETAIN | qos.bits() << WILL_QOS_SHIFT,
            Some((qos, false)) => WILL | qos.bits() << WILL_QOS_SHIFT,
            None => 0,
        };
        will | if self.clean_start { CLEAN_START } else { 0 }
            | if self.username { USERNAME } else { 0 }
            | if self.password { PASSWORD } else { 0 }
    }
}

/// The will's QoS and RETAIN ([MQTT-3.1.2-11], [MQTT-3.1.2-12], [MQTT-3.1.2-13]).
fn will(version: Version, bits: u8) -> Result<Option<(QoS, bool)>, DecodeError> {
    if bits & WILL == 0 {
        if bits & (WILL_QOS | WILL_RETAIN) != 0 && version != Version::V31 {
            return Err(DecodeError::WillFlagsWithoutWill);
        }
        return Ok(None);
    }
    let qos =
        QoS::from_bits((bits & WILL_QOS) >> WILL_QOS_SHIFT).ok_or(DecodeError::InvalidQos { field: "will QoS" })?;
    Ok(Some((qos, bits & WILL_RETAIN != 0)))
}
