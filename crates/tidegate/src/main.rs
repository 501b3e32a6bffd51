//! Tidegate: an MQTT broker for 3.1, 3.1.1 and 5.0, and the clients to talk to it, in one binary.
//!
//! Here are the command line and the configuration and nothing else; what a broker does lives in the crates below.

mod access;
mod admin;
mod admin_client;
mod authentication;
mod bus_access;
mod cli;
mod cluster;
mod commands;
mod config;
mod context;
mod control;
mod development;
mod drain;
mod durable;
mod exit;
mod fleet;
mod homes;
mod logging;
mod mirror;
mod mosquitto_conf;
mod mqtt_commands;
mod observer;
mod operations;
mod orchestrator;
mod physical_memory;
mod reload;
mod signals;
mod status;
mod store_status;
mod tenant_numbers;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::dispatch(cli::parse())
}
