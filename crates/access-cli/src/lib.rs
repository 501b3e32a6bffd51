//! The commands around access: users and passwords, questions to the access rules, and certificates for a try.

pub mod acl;
pub mod cert;
pub mod passwd;
