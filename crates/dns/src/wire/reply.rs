//! An answer as a packet.

use hickory_proto::op::{Edns, Message, ResponseCode};
use hickory_proto::rr::Record;
use hickory_proto::rr::rdata::opt::EdnsOption;
use hickory_proto::serialize::binary::{BinEncodable, BinEncoder};

use super::query::Query;

/// Bytes that we accept and send over UDP at most: a size that passes any path without fragmentation (DNS flag day
/// 2020).
const UDP_BYTES: u16 = 1232;
/// Bytes over UDP for who does not say more (RFC 1035, section 4.2.1).
const PLAIN_UDP_BYTES: u16 = 512;

/// An answer, before it is a packet.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) code: ResponseCode,
    pub(crate) authoritative: bool,
    pub(crate) answers: Vec<Record>,
    pub(crate) authorities: Vec<Record>,
    /// Records that may be left out.
    pub(crate) additionals: Vec<Record>,
    /// Bits of the asker's subnet for which the answer holds.
    pub(crate) scope: u8,
    /// Whether it only says to ask over TCP.
    pub(crate) truncated: bool,
}

impl Reply {
    /// A code alone.
    pub(crate) fn of(code: ResponseCode) -> Self {
        Self {
            code,
            authoritative: false,
            answers: Vec::new(),
            authorities: Vec::new(),
            additionals: Vec::new(),
            scope: 0,
            truncated: false,
        }
    }

    /// Records of the zone.
    pub(crate) fn with(answers: Vec<Record>) -> Self {
        Self { answers, authoritative: true, ..Self::of(ResponseCode::NoError) }
    }

    /// The invitation to ask over TCP.
    pub(crate) fn over_tcp() -> Self {
        Self { truncated: true, ..Self::of(ResponseCode::NoError) }
    }

    /// Encodes a packet of at most `limit` bytes. If it is too long, the additional records are left out, then all but
    /// the TC bit. `None` when not even that fits; any limit of 512 or more has space for it.
    pub(crate) fn encode(mut self, query: &Query, limit: u16) -> Option<Encoded> {
        let fits = |reply: &Self| reply.packet(query).filter(|packet| packet.len() <= usize::from(limit));
        if let Some(packet) = fits(&self) {
            return Some(Encoded { packet, truncated: self.truncated });
        }
        self.additionals.clear();
        if let Some(packet) = fits(&self) {
            return Some(Encoded { packet, truncated: self.truncated });
        }
        let short = Self { code: self.code, authoritative: self.authoritative, scope: self.scope, ..Self::over_tcp() };
        fits(&short).map(|packet| Encoded { packet, truncated: true })
    }

    fn packet(&self, query: &Query) -> Option<Vec<u8>> {
        let asked = &query.message;
        let mut message = Message::response(asked.metadata.id, asked.metadata.op_code);
        message.metadata.recursion_desired = asked.metadata.recursion_desired;
        message.metadata.authoritative = self.authoritative;
        message.metadata.truncation = self.truncated;
        message.metadata.response_code = self.code;
        message.queries.clone_from(&asked.queries);
        message.answers.clone_from(&self.answers);
        message.authorities.clone_from(&self.authorities);
        message.additionals.clone_from(&self.additionals);
        if let Some(edns) = &asked.edns {
            message.set_edns(self.edns(query, edns));
        }
        let mut packet = Vec::with_capacity(usize::from(PLAIN_UDP_BYTES));
        message.emit(&mut BinEncoder::new(&mut packet)).ok()?;
        Some(packet)
    }

    fn edns(&self, query: &Query, asked: &Edns) -> Edns {
        let mut edns = Edns::new();
        edns.set_max_payload(UDP_BYTES).set_version(0).set_dnssec_ok(asked.flags().dnssec_ok);
        if let Some(mut subnet) = query.subnet {
            subnet.set_scope_prefix(self.scope);
            edns.options_mut().insert(EdnsOption::Subnet(subnet));
        }
        edns
    }
}

/// A packet that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) packet: Vec<u8>,
    /// Whether the answer is incomplete.
    pub(crate) truncated: bool,
}

/// Bytes that the asker accepts over UDP.
pub(crate) fn udp_limit(query: &Query) -> u16 {
    query.message.edns.as_ref().map_or(PLAIN_UDP_BYTES, |edns| edns.max_payload().clamp(PLAIN_UDP_BYTES, UDP_BYTES))
}
