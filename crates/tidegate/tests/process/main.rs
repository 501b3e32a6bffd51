//! The built binary as scripts and people meet it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod broker;
mod clients;
mod command_line;
mod configuration;
mod life;
mod web;
mod why;
