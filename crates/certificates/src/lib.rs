//! Certificates for development: an authority that signs for this machine, and the place where a broker and clients of
//! the same user find its files.

pub mod authority;
pub mod development;
