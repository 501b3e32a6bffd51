//! The surroundings of a serving process: the signals that stop it, the service manager that started it, and the memory
//! that it may use.

pub mod control_groups;
pub mod machine;
pub mod physical_memory;
pub mod service_manager;
pub mod signals;

/// Why a serving process does not start, or ends with an error: the error of the part that failed.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;
