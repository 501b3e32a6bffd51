//! Turns a received packet into its answer.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::RecordType;

use super::contents::Contents;
use super::query::{MAX_QUERY_BYTES, Query, Unanswerable};
use super::reply::{Reply, udp_limit};
use crate::counters::{AnswerKind, Counters, DropReason, QueryKind};
use crate::flood::{Budgets, Network, RateDecision, Transport};
use crate::settings::Limits;

/// Answers packets within the budgets of their senders, and counts.
#[derive(Debug)]
pub(crate) struct Responder {
    contents: Contents,
    counters: Arc<Counters>,
    /// Held for one look; only the server's thread takes it.
    budgets: Mutex<Budgets>,
}

impl Responder {
    pub(crate) fn new(contents: Contents, limits: &Limits, now: Instant) -> Self {
        let budgets = Mutex::new(Budgets::new(limits, now));
        Self { contents, counters: Arc::default(), budgets }
    }

    pub(crate) fn contents(&self) -> &Contents {
        &self.contents
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// The answer to a packet, if any.
    pub(crate) fn respond(
        &self,
        packet: &[u8],
        source: SocketAddr,
        transport: Transport,
        now: Instant,
    ) -> Option<Vec<u8>> {
        if packet.len() > MAX_QUERY_BYTES {
            return self.drop(DropReason::Oversize);
        }
        if source.port() == 0 {
            return self.drop(DropReason::Malformed);
        }
        // Invalid packets are dropped before they use up the budget of a network.
        if let Err(Unanswerable::Drop(reason)) = Query::peek(packet) {
            return self.drop(reason);
        }
        let decision = self.spend(transport, source, now);
        if decision == RateDecision::Drop {
            return self.drop(DropReason::RateLimited);
        }
        let query = match Query::read(packet) {
            Ok(query) => query,
            Err(Unanswerable::Drop(reason)) => return self.drop(reason),
            // A bare header cannot carry the TC bit.
            Err(Unanswerable::Reply(..)) if decision == RateDecision::Slip => {
                return self.drop(DropReason::RateLimited);
            }
            Err(Unanswerable::Reply(code, header)) => {
                self.counters.answer(kind_of_code(code));
                return Some(header.to_vec());
            }
        };
        self.counters.query(kind_of_query(query.record_type));
        self.reply(&query, source, transport, decision)
    }

    fn reply(
        &self,
        query: &Query,
        source: SocketAddr,
        transport: Transport,
        decision: RateDecision,
    ) -> Option<Vec<u8>> {
        let reply = if decision == RateDecision::Slip {
            Reply::over_tcp()
        } else if query.edns_version().is_some_and(|version| version > 0) {
            Reply::of(ResponseCode::BADVERS)
        } else {
            self.contents.answer(query, source.ip(), &self.counters)
        };
        let kind = match decision {
            RateDecision::Slip => AnswerKind::Slipped,
            _ if reply.code == ResponseCode::NoError && reply.answers.is_empty() => AnswerKind::NoData,
            _ => kind_of_code(reply.code),
        };
        let limit = if transport == Transport::Tcp { u16::MAX } else { udp_limit(query) };
        let Some(encoded) = reply.encode(query, limit) else {
            // A name that was decoded can be encoded; if not, the asker gets no answer rather than half of one.
            return self.drop(DropReason::Malformed);
        };
        let cut = encoded.truncated && decision != RateDecision::Slip;
        self.counters.answer(if cut { AnswerKind::Truncated } else { kind });
        Some(encoded.packet)
    }

    fn spend(&self, transport: Transport, source: SocketAddr, now: Instant) -> RateDecision {
        let mut budgets = self.budgets.lock().unwrap_or_else(PoisonError::into_inner);
        let decision = budgets.spend(transport, Network::of(source.ip()), now);
        // A query over TCP cannot be referred to TCP: the connection is closed.
        if transport == Transport::Tcp && decision == RateDecision::Slip { RateDecision::Drop } else { decision }
    }

    fn drop(&self, reason: DropReason) -> Option<Vec<u8>> {
        self.counters.drop_packet(reason);
        None
    }
}

fn kind_of_query(record_type: RecordType) -> QueryKind {
    match record_type {
        RecordType::A => QueryKind::A,
        RecordType::AAAA => QueryKind::Aaaa,
        RecordType::SRV => QueryKind::Srv,
        RecordType::NS => QueryKind::Ns,
        RecordType::SOA => QueryKind::Soa,
        RecordType::ANY => QueryKind::Any,
        _ => QueryKind::Other,
    }
}

fn kind_of_code(code: ResponseCode) -> AnswerKind {
    match code {
        ResponseCode::NoError => AnswerKind::Records,
        ResponseCode::NXDomain => AnswerKind::NoName,
        ResponseCode::Refused => AnswerKind::Refused,
        ResponseCode::FormErr => AnswerKind::FormatError,
        ResponseCode::NotImp => AnswerKind::NotImplemented,
        ResponseCode::BADVERS => AnswerKind::BadVersion,
        _ => AnswerKind::ServerFailure,
    }
}

#[cfg(test)]
mod tests;
