//! Tidegate: an MQTT broker for 3.1, 3.1.1 and 5.0, and the clients to talk to it, in one binary.
//!
//! Here are the command line and the configuration and nothing else; what a broker does lives in the crates below.
//!
//! - A command: `cli` (what is written), `commands` (a file each), `mqtt_commands` (`pub`, `sub`, `rr`).
//! - The configuration: `config`, `reload` (a running broker).
//! - What a broker is put together from: `access`, `authentication`, `durable`, `mirror`, `orchestrator`, `homes`,
//!   `cluster`, `context`, `fleet`, `bridges`, `hub`. Each stands between a crate and the configuration; `bus_access` is how
//!   they reach a bus.
//! - What is told and asked: `logging`, `observer`, `status`, `operations`, `control`, `drain`, `signals`,
//!   `service_manager`; of the machine `physical_memory`, `control_groups`.

mod admin;
mod bridges;
mod cli;
mod cluster;
mod commands;
mod context;
mod control;
mod drain;
mod durable;
mod hub;
mod meter;
mod mirror;
mod observer;
mod operations;
mod reload;
mod status;
mod store_status;

use std::process::ExitCode;

fn main() -> ExitCode {
    if tidegate_process::physical_memory::is_address_space_limited() {
        tidegate_node::share_allocator_arena();
    }
    commands::dispatch(cli::parse())
}
