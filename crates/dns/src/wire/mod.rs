//! From packets to queries, and from answers to packets.

mod contents;
mod query;
mod reply;
mod responder;

pub(crate) use contents::Contents;
pub(crate) use query::MAX_QUERY_BYTES;
pub(crate) use responder::Responder;
