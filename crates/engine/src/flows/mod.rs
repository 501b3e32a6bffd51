//! Operations across components.
//!
//! A flow borrows the components that it needs as one of the [`contexts`]. Components import no flow.

pub(crate) mod access;
pub(crate) mod addresses;
pub(crate) mod broker_link;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod contexts;
pub(crate) mod durable;
pub(crate) mod groups;
pub(crate) mod image;
pub(crate) mod limits;
pub(crate) mod observers;
pub(crate) mod principals;
pub(crate) mod publish;
pub(crate) mod retained;
pub(crate) mod session;
pub(crate) mod subscribe;
pub(crate) mod sys;
