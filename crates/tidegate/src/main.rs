//! Tidegate: an MQTT broker for 3.1, 3.1.1 and 5.0, and the clients to talk to it, in one binary.
//!
//! The composition root: the command line, and the start and the end of a broker out of its parts. The parts are in
//! crates of their own.

mod cli;
#[cfg_attr(not(feature = "cluster"), path = "cluster_absent.rs")]
mod cluster;
mod commands;
mod durable;
#[cfg_attr(not(feature = "cluster"), path = "mirror_absent.rs")]
mod mirror;
mod observer;

use std::process::ExitCode;

fn main() -> ExitCode {
    if tidegate_process::physical_memory::is_address_space_limited() {
        tidegate_node::share_allocator_arena();
    }
    if let Err(error) = tidegate_process::signals::survive_file_size_limit() {
        tidegate_terminal::report(&format_args!("cannot catch SIGXFSZ: {error}"));
    }
    cli::dispatch(cli::parse())
}
