//! Further tasks of an engine within an orchestrator: its brokers' connections, homes of clients on other
//! orchestrators, and clients that brokers are to know by their own credentials.

pub(crate) mod broker_link;
pub(crate) mod homes;
