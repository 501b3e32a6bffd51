//! Records about the brokers of a fleet: from the shard of the broker links to the others, and between members.

use crate::wire::{WireError, WireReader, WireWrite};

/// The kind of [`Record::Fleet`](super::record::Record::Fleet).
pub(super) const FLEET_KIND: u8 = 40;

/// A word about the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FleetWord<'a> {
    /// The fleet takes messages, or no more for now.
    Room { gate: u8 },
    /// Brokers deny messages of a topic.
    Denied { topic: &'a str },
    /// Beyond which length no broker takes a message: its packet, and its payload if that has a limit, bytes.
    Limit { packet: u32, payload: Option<u32> },
    /// Asks another member whether a broker has sent it all that it had for it.
    AskPassed { round: u32, broker: &'a str },
    /// The answer: it has.
    Passed { round: u32, broker: &'a str },
}

impl<'a> FleetWord<'a> {
    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.put_u8(FLEET_KIND);
        match self {
            Self::Room { gate } => {
                out.put_u8(0);
                out.put_u8(gate);
            }
            Self::Denied { topic } => {
                out.put_u8(1);
                out.put_bytes(topic.as_bytes());
            }
            Self::Limit { packet, payload } => {
                out.put_u8(2);
                out.put_u32(packet);
                out.put_u8(u8::from(payload.is_some()));
                out.put_u32(payload.unwrap_or_default());
            }
            Self::AskPassed { round, broker } => {
                out.put_u8(3);
                out.put_u32(round);
                out.put_bytes(broker.as_bytes());
            }
            Self::Passed { round, broker } => {
                out.put_u8(4);
                out.put_u32(round);
                out.put_bytes(broker.as_bytes());
            }
        }
    }

    pub(super) fn read(reader: &mut WireReader<'a>) -> Result<Self, WireError> {
        Ok(match reader.u8("a word about the fleet")? {
            0 => Self::Room { gate: reader.u8("whether the fleet takes messages")? },
            1 => Self::Denied { topic: reader.text("a topic")? },
            2 => {
                let packet = reader.u32("a length")?;
                let has_payload = reader.u8("whether payloads have a limit")? != 0;
                let payload = reader.u32("the length of a payload")?;
                Self::Limit { packet, payload: has_payload.then_some(payload) }
            }
            3 => Self::AskPassed { round: reader.u32("a round")?, broker: reader.text("a broker")? },
            4 => Self::Passed { round: reader.u32("a round")?, broker: reader.text("a broker")? },
            _ => return Err(WireError { reading: "a word about the fleet of a known kind" }),
        })
    }
}
