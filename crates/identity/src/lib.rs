//! Who clients are, what they may do, and which tenant they belong to, as the configuration of a broker says.

pub mod access;
pub mod authentication;
pub mod tenant_numbers;
