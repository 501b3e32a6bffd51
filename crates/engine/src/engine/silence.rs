//! Deadlines that count the silence of a peer.
//!
//! A shell that was late, because its process was stopped or a turn took long, has not read the bytes that its peers
//! have sent meanwhile. Such deadlines so have effect only after the input that had arrived by then was taken.

use crate::engine::TIMERS_PER_TURN;
use crate::engine::facets::{ShardQuestions, TimerCalls};
use crate::ids::ConnectionKey;
use crate::now::{Millis, Now};
use crate::timers::Timer;

impl ShardQuestions<'_> {
    /// When the next deadline comes that counts the silence of a peer, for [`TimerCalls::handle_silence`](crate::TimerCalls::handle_silence).
    pub fn next_silence(&self) -> Millis {
        // During a replay other shards' subscribers are not known yet; see `next_deadline`.
        if self.engine.recovery.replay.is_some() { Millis::NEVER } else { self.engine.state.timers.next_silence() }
    }
}

impl TimerCalls<'_> {
    /// Handles deadlines that count the silence of a peer (keep-alive, CONNECT timeout, the end of a session, a delayed
    /// will, a publisher that waits for others, a broker link), a bounded part of them at a time.
    ///
    /// `heard` is the time by which all input that had arrived was taken, except from connections that are `unread`.
    /// Deadlines behind `heard` stay, and deadlines of unread connections are looked at again soon: the peer may have
    /// spoken in time, and only this shard is late.
    pub fn handle_silence(&mut self, now: Now, heard: Millis, unread: impl Fn(ConnectionKey) -> bool) {
        self.engine.state.journal.now = now;
        for _ in 0..TIMERS_PER_TURN {
            if self.engine.questions().next_silence() > heard {
                break;
            }
            let Some((_, timer)) = self.engine.state.timers.pop_silence(heard) else { break };
            if self.engine.questions().connection_of(timer).is_some_and(&unread) {
                self.postpone(now.monotonic.plus(UNREAD_LOOK_MS), timer);
            } else {
                self.handle_timer(now, timer);
            }
        }
        self.engine.after_frame(now);
    }
}

impl ShardQuestions<'_> {
    /// The connection whose silence a timer counts.
    fn connection_of(self, timer: Timer) -> Option<ConnectionKey> {
        match timer {
            Timer::Connection(key) => Some(key),
            Timer::BrokerLink(key) => self.engine.broker_links.brokers.connection_of(key),
            _ => None,
        }
    }
}

impl TimerCalls<'_> {
    /// Sets a timer of a connection again that has been taken out of the schedule.
    fn postpone(&mut self, until: Millis, timer: Timer) {
        match timer {
            Timer::Connection(key) => {
                if let Some(connection) = self.engine.state.connections.get_mut(key) {
                    connection.timer = until;
                    self.engine.state.timers.set(until, timer);
                }
            }
            Timer::BrokerLink(key) => {
                if self.engine.broker_links.brokers.note_timer(key, until) {
                    self.engine.state.timers.set(until, timer);
                }
            }
            _ => self.engine.state.timers.set(until, timer),
        }
    }
}

/// When the deadline of a connection with unread input is looked at again, milliseconds.
const UNREAD_LOOK_MS: u64 = 100;
