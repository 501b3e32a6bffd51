//! Identities, rights and tenants of clients, by the configuration of a broker.

pub mod access;
pub mod authentication;
pub mod tenant_numbers;
