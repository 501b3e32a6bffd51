//! A world without sockets, clocks or threads: engines, clients that speak bytes, links that deliver on command, and a
//! clock that moves on command.
//!
//! A test reads like a story:
//!
//! ```ignore
//! let world = World::new(3);
//! let a = world.connect(v5("a"));
//! let b = world.connect(v311("b"));
//! a.subscribe("x/+", AtLeastOnce);
//! b.publish(message("x/1", "hello").qos1());
//! a.expect_publish("x/1", "hello");
//! ```
//!
//! The world has the duties of a shell and no others: it hands connections over to their home shard, ships batches
//! before it writes outputs, honours `Close`, `PauseReading` and `ResumeReading`, and releases connections. Every
//! client is a referee too: it panics when the server breaks a rule that can be seen from one connection alone.

mod arrival;
mod broker;
mod client;
mod connecting;
mod device;
pub(crate) mod fleet;
mod message;
mod net;
mod random;
mod side;
mod store;
mod world;

pub(crate) use arrival::{Arrival, Delivered};
pub(crate) use broker::{Carried, NoV5, Ways};
pub(crate) use client::{Client, id};
pub(crate) use connecting::{Connecting, v5, v31, v311};
pub(crate) use device::{Device, Received, nothing_is_owed, settle, settle_a_second};
pub(crate) use fleet::{Broker, fleet_settings, in_front_of};
pub(crate) use message::{Message, message};
pub(crate) use net::crash::{Crash, restore};
pub(crate) use random::Random;
pub(crate) use store::Pairs;
pub(crate) use world::{
    World, everywhere, everywhere_in_memory, everywhere_with, in_one_process, in_one_process_with, millis, minutes,
    principal, seconds,
};
