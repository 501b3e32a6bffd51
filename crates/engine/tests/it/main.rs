//! Promises of the engine, shown through its public interface.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test may stop at the first surprise, and tells where it was"
)]

#[path = "../harness/mod.rs"]
mod harness;

mod access;
mod addresses;
mod asked_to_wait;
mod authentication;
mod bridges;
mod broker_links;
mod clients;
mod cluster;
mod connections;
mod deaths;
mod durable;
mod dying;
mod endings;
mod enhanced;
mod events;
mod fan_out;
mod hub;
mod interrupted;
mod keep_alive;
mod links;
mod live_limits;
mod loop_lag;
mod model;
mod moves;
mod moving;
mod observers;
mod policies;
mod principals;
mod priorities;
mod properties;
mod publish;
mod queues;
mod races;
mod records;
mod refusals;
mod rejecting;
mod reserved_ids;
mod retained;
mod review;
mod round_trips;
mod service;
mod sessions;
mod shared;
mod shutdown;
mod simulation;
mod steps;
mod subscribe;
mod suspension;
mod sys;
mod takeover;
mod tenants;
mod usage;
mod versions;
mod wills;
