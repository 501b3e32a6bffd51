//! The built binary as scripts and people meet it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at the first surprise")]

mod access;
mod applications;
mod broker;
mod clients;
mod cluster;
mod command_line;
mod composition;
mod configuration;
mod context;
mod dns;
mod drain;
mod examples;
mod fleet;
mod fleet_stop;
mod hub;
mod identity;
mod lab;
mod lab_network;
mod life;
mod listeners;
mod machines;
mod meter;
mod mirror;
mod mosquitto;
#[path = "../../../bus/tests/nats/server.rs"]
mod nats;
mod orchestrator_tls;
mod other_brokers;
mod panics;
mod ports;
mod quic;
mod reload;
mod service_manager;
mod services;
mod store;
mod tenants;
mod tenants_live;
mod up;
mod users;
mod versions;
mod web;
mod why;
