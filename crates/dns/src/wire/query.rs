//! A packet as a query.

use std::net::IpAddr;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::rdata::opt::{ClientSubnet, EdnsCode, EdnsOption};
use hickory_proto::rr::{Name, RecordType};

use crate::counters::DropReason;

/// Longest accepted packet, bytes. A query has one name and a few options, which are much shorter.
pub(crate) const MAX_QUERY_BYTES: usize = 4096;

/// Length of the header of a message (RFC 1035, section 4.1.1).
const HEADER_BYTES: usize = 12;
/// The bit of the third byte that marks an answer.
const RESPONSE: u8 = 0x80;
/// The bits of the third byte that a reply copies: operation and "recursion desired".
const TAKEN_OVER: u8 = 0x79;
/// The bits of the third byte that name the operation; 0 is a query.
const OPERATION: u8 = 0x78;

/// A query that can be answered.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// The decoded message; the reply copies its id, flags and question.
    pub(crate) message: Message,
    /// The name, with upper and lower case as it was asked.
    pub(crate) name: Name,
    pub(crate) record_type: RecordType,
    /// Whether it is about the class IN.
    pub(crate) internet: bool,
    /// The client's network, which a resolver passes on (RFC 7871).
    pub(crate) subnet: Option<ClientSubnet>,
}

/// Why a packet is not answered as a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unanswerable {
    /// The packet gets no answer.
    Drop(DropReason),
    /// The header of the packet is returned with this code.
    Reply(ResponseCode, [u8; HEADER_BYTES]),
}

impl Query {
    /// Looks at the header alone: whether the packet is a query at all.
    pub(crate) fn peek(packet: &[u8]) -> Result<(), Unanswerable> {
        match packet.first_chunk::<HEADER_BYTES>() {
            None => Err(Unanswerable::Drop(DropReason::Malformed)),
            Some(header) if header[2] & RESPONSE != 0 => Err(Unanswerable::Drop(DropReason::Response)),
            Some(_) => Ok(()),
        }
    }

    /// Reads a packet.
    ///
    /// The counts of the header are checked before decoding: a query has one question (RFC 9619), no answer, at most
    /// one record of a transfer (RFC 1995) and at most two additional ones (EDNS and a signature). This bounds the time
    /// that decoding takes.
    pub(crate) fn read(packet: &[u8]) -> Result<Self, Unanswerable> {
        let Some(header) = packet.first_chunk::<HEADER_BYTES>() else {
            return Err(Unanswerable::Drop(DropReason::Malformed));
        };
        Self::peek(packet)?;
        let [id_high, id_low, flags, _, counts @ ..] = *header;
        let back = |code: ResponseCode| {
            let mut back = [0; HEADER_BYTES];
            back[..4].copy_from_slice(&[id_high, id_low, flags & TAKEN_OVER | RESPONSE, code.low()]);
            Unanswerable::Reply(code, back)
        };
        if flags & OPERATION != 0 {
            return Err(back(ResponseCode::NotImp));
        }
        let [0, 1, 0, 0, 0, 0..=1, 0, 0..=2] = counts else { return Err(back(ResponseCode::FormErr)) };
        let message = Message::from_vec(packet).map_err(|_| back(ResponseCode::FormErr))?;
        let [question] = message.queries.as_slice() else { return Err(back(ResponseCode::FormErr)) };
        let subnet =
            message.edns.as_ref().and_then(|edns| edns.option(EdnsCode::Subnet)).and_then(|option| match option {
                EdnsOption::Subnet(subnet) => Some(*subnet),
                _ => None,
            });
        if subnet.is_some_and(|subnet| !is_sound(subnet)) {
            return Err(back(ResponseCode::FormErr));
        }
        Ok(Self {
            name: question.name.clone(),
            record_type: question.query_type,
            internet: u16::from(question.query_class) == 1,
            subnet,
            message,
        })
    }

    /// The version of EDNS, if it is used.
    pub(crate) fn edns_version(&self) -> Option<u8> {
        self.message.edns.as_ref().map(hickory_proto::op::Edns::version)
    }
}

/// Whether a subnet is as a query may have it: with no bits set behind its prefix, and without a scope (RFC 7871,
/// section 6).
fn is_sound(subnet: ClientSubnet) -> bool {
    let behind = |bits: u128, width: u32| {
        let prefix = u32::from(subnet.source_prefix());
        // Bits are held at the top of 128.
        prefix <= width && bits.checked_shl(prefix).unwrap_or(0) == 0
    };
    let sound = match subnet.addr() {
        IpAddr::V4(address) => behind(u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => behind(address.to_bits(), 128),
    };
    sound && subnet.scope_prefix() == 0
}
