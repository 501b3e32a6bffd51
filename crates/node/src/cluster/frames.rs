//! Frames of a session: first each side introduces itself, then batches and signs of life follow.

use std::time::Duration;

use tidegate_engine::{Batch, Millis};

use super::handshake::shift;
use super::links::Links;
use super::loss::Loss;
use super::session::{Phase, Session, after};
use super::slots::SessionId;
use super::to_shards::FromLinks;
use super::wire::{Frame, MAX_FRAME_BYTES, MAX_GREETING_BYTES, split_frame};
use crate::flight::FlightKind;

/// Pings that each node gets within the limit of its silence.
const PINGS_PER_TIMEOUT: u32 = 4;

impl Links {
    /// Takes all frames that are whole; returns the rest.
    pub(super) fn take_frames<'a>(
        &mut self,
        id: SessionId,
        session: &mut Session,
        bytes: &'a [u8],
    ) -> Result<&'a [u8], Loss> {
        let mut rest = bytes;
        loop {
            let limit = match session.phase {
                Phase::Open(_) => MAX_FRAME_BYTES,
                Phase::Shaking(_) => MAX_GREETING_BYTES,
                Phase::Seating(_) | Phase::Merging(_) | Phase::Connecting(_) => return Ok(rest),
            };
            let Some((frame, length)) = split_frame(rest, limit)? else { break };
            rest = rest.get(length..).unwrap_or_default();
            self.take_frame(id, session, frame)?;
        }
        if let Phase::Open(open) = &mut session.phase {
            // A part of a large batch is a sign of life, too.
            open.heard = self.now.monotonic;
        }
        Ok(rest)
    }

    fn take_frame(&mut self, id: SessionId, session: &mut Session, frame: Frame<'_>) -> Result<(), Loss> {
        let Phase::Open(open) = &mut session.phase else { return self.shake_hands(id, session, frame) };
        match frame {
            Frame::Batch { from, to, batch } => {
                let slot = *open.seats.get(usize::from(from)).ok_or(Loss::Shard)?;
                let batch = Batch::read_from(batch, slot, open.shift).map_err(Loss::Records)?;
                session.counters.batches_in += 1;
                session.counters.messages_in += u64::from(batch.messages());
                self.shards.get(usize::from(to)).ok_or(Loss::Shard)?.send(FromLinks::Batch(batch));
            }
            Frame::Ping { sent } => {
                // For a shorter time in transit, the difference of the clocks is larger than the time.
                open.shift = open.shift.min(shift(self.clock.micros(), sent));
                session.put(&Frame::Pong { of: sent });
            }
            Frame::Pong { of } => open.rtt_us = self.clock.micros().checked_sub(of).or(open.rtt_us),
            Frame::Question { number, body } => self.take_question(id, session, number, body)?,
            Frame::Answer { number, body } => self.questions.take_answer(id, number, body),
            Frame::Carry(portion) => {
                let limit = self.limits.outbox_bytes;
                self.table.carry(session, &portion, limit)?;
            }
            Frame::Carried(portion) => {
                let deadline = after(self.now.monotonic, self.limits.handshake_timeout);
                let (own, limit) = (&self.local.name, self.limits.outbox_bytes);
                self.table.take_carried(id, session, &portion, own, limit, deadline)?;
            }
            Frame::Settled => {
                open.is_known = true;
                self.table.show_state(open, self.now.unix);
            }
            Frame::Goodbye => return Err(Loss::Goodbye),
            Frame::Hello(_) | Frame::Proof(_) | Frame::Refusal(_) => return Err(Loss::OutOfPlace),
        }
        Ok(())
    }

    fn shake_hands(&mut self, id: SessionId, session: &mut Session, frame: Frame<'_>) -> Result<(), Loss> {
        let freshness = self.freshness()?;
        let binding = session.binding()?;
        let Phase::Shaking(shaking) = &mut session.phase else { return Err(Loss::OutOfPlace) };
        let mut out = Vec::new();
        let known = shaking.bound_to(binding).take(&self.local, &self.view, frame, freshness, &mut out)?;
        session.output().extend_from_slice(&out);
        let Some(who) = known else { return Ok(()) };
        if who.continues != 0 {
            session.phase = Phase::Merging(who);
            return Ok(());
        }
        self.meet(id, &who)?;
        session.phase = Phase::Seating(who);
        self.take_seats(id, session)
    }

    /// Looks whether a session is to be ended, or asked for a sign of life.
    pub(super) fn look_after(&mut self, id: SessionId, session: &mut Session) -> Result<(), Loss> {
        let (now, limits) = (self.now.monotonic, self.limits);
        if let Phase::Seating(_) = session.phase {
            self.take_seats(id, session)?;
        }
        if let Phase::Merging(who) = &session.phase {
            let who = who.clone();
            self.table.merge(session, &who, self.poll.registry())?;
            self.tell(FlightKind::NodeLinked, session, &format!("node {}, directly again", who.name));
            return Err(Loss::Merged);
        }
        if let Some(loss) = session.overdue(self.heard, limits.peer_timeout, limits.stall_timeout) {
            return Err(loss);
        }
        let Phase::Open(open) = &mut session.phase else {
            let unread = session.readable && matches!(session.phase, Phase::Shaking(_));
            let slow = self.heard >= session.deadline && !unread;
            return if slow { Err(Loss::Slow(limits.handshake_timeout.as_millis())) } else { Ok(()) };
        };
        let knows = self.rosters.settled() >= open.roster && !open.knows;
        if knows {
            open.knows = true;
            self.table.show_state(open, self.now.unix);
        }
        let asks = now >= open.next_ping;
        if asks {
            open.next_ping = next_ping(now, limits.peer_timeout);
        }
        if knows {
            session.put(&Frame::Settled);
        }
        if asks {
            session.put(&Frame::Ping { sent: self.clock.micros() });
        }
        self.table.count(session);
        Ok(())
    }
}

/// When a node is asked for a sign of life next.
fn next_ping(now: Millis, peer_timeout: Duration) -> Millis {
    after(now, (peer_timeout / PINGS_PER_TIMEOUT).max(Duration::from_millis(1)))
}
