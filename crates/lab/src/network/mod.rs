//! A network of its own for a broker: delay, loss and a rate between it and the load, in a network namespace that goes
//! with the run (PI-34).
//!
//! The broker is alone in its namespace, so the counters of its interfaces are its own. One link leads there. If the
//! kernel has `netem`, the link is a pair of virtual Ethernet devices that the kernel delays; otherwise a process of
//! the lab carries packets between two TUN devices: real IP packets, so that TCP sees the loss and retransmits. A rate
//! alone is always kept by the kernel. The results name the method.
//!
//! [`Link`] is the lab's side. [`hold`] is the process that lives in the namespace: it ends when its standard input
//! does, and takes with it everything that runs there, so that nothing stays behind when the lab is killed.

mod carry;
mod commands;
mod error;
mod inside;
mod link;
mod model;
mod shaper;
mod tun;

pub use error::NetworkError;
pub use inside::hold;
pub use link::Link;
pub use model::Network;
