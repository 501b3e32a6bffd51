//! Two and three nodes in one process, linked over loopback.

mod dying;
mod proxy;
mod routing;
mod strangers;
mod world;
