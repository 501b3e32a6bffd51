//! The context in which the outcome of a message is counted, logged and reported to its sender.

use std::collections::VecDeque;

use crate::addresses::{Receipts, Tallies};
use crate::connection::table::Connections;
use crate::desk::{Desk, Timer};
use crate::event::Event;
use crate::ids::ShardId;
use crate::now::Millis;
use crate::publish::dead_letter::DeadLetters;
use crate::session::table::Sessions;
use crate::settings::Settings;
use crate::telling::Telling;
use crate::telling::counters::Counters;
use crate::timers::Schedule;

/// The parts of a shard that count and report what happens to messages: dropped, denied, delayed or delivered. No
/// queue changes by it.
pub(crate) struct Reporting<'d> {
    pub settings: &'d Settings,
    pub shard: ShardId,
    /// The time of the packet or timer at hand.
    pub now: Millis,
    pub has_addresses: bool,
    pub sessions: &'d Sessions,
    pub connections: &'d Connections,
    pub counters: &'d mut Counters,
    pub dead_letters: &'d mut Option<DeadLetters>,
    pub events: &'d mut VecDeque<Event>,
    pub telling: &'d mut Telling,
    pub receipts: &'d mut Receipts,
    pub tallies: &'d mut Tallies,
    pub timers: &'d mut Schedule<Timer>,
}

impl Desk {
    /// The parts that count and report what happens to messages.
    #[inline]
    pub(crate) fn reports(&mut self) -> Reporting<'_> {
        Reporting {
            settings: &self.settings,
            shard: self.shard,
            now: self.journal.now.monotonic,
            has_addresses: self.has_addresses,
            sessions: &self.sessions,
            connections: &self.connections,
            counters: &mut self.counters,
            dead_letters: &mut self.dead_letters,
            events: &mut self.events,
            telling: &mut self.telling,
            receipts: &mut self.receipts,
            tallies: &mut self.tallies,
            timers: &mut self.timers,
        }
    }
}
