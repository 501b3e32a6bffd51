//! The commands around access: users and passwords, API keys, questions to the access rules, and certificates for a try.

pub mod acl;
pub mod cert;
mod file_lock;
pub mod key;
pub mod passwd;
