//! Connections and their sessions.

pub(crate) mod check;
pub(crate) mod close;
pub(crate) mod conn_ack;
pub(crate) mod connect;
pub(crate) mod ending;
pub(crate) mod enhanced;
pub(crate) mod grant;
pub(crate) mod input;
pub(crate) mod parking;
pub(crate) mod suspension;
pub(crate) mod wills;
