//! Two and three nodes in one process, linked over loopback.

mod clients;
mod dying;
mod indirect;
mod keeping;
mod leaving;
mod lying;
mod proxy;
mod questions;
mod routing;
mod secured;
mod slow_disk;
mod strangers;
mod transports;
mod world;
