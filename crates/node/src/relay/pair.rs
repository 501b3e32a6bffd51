//! Both ends of a relay.

use std::net::SocketAddr;

use tidegate_engine::{EDGE_STOPS, ListenerId, Output};
use tidegate_mqtt::ReasonCode;

use super::end::{self, End};
use super::follower::Follower;
use super::frame::{Parcel, RelayFrame};
use super::goodbye::Goodbye;
use super::introduction::Introduction;
use super::search::Search;
use super::sieve::Sieve;
use super::{CLIENT, HOME};
use crate::admission::Seat;
use crate::proxy_protocol::RelayedTenant;
use crate::transport::Transport;

/// Both ends of an open relay.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) ends: [End; 2],
    pub(crate) seat: Seat,
    /// True if its last bytes have a deadline already.
    pub(crate) ending: bool,
    /// The state of the DISCONNECT that asks the client to use another server.
    pub(crate) goodbye: Goodbye,
    /// Separates packets and frames of the home.
    pub(crate) sieve: Sieve,
    /// Follows the packets of the client, which the home gets.
    pub(crate) sent: Follower,
    pub(crate) stage: MoveStage,
    pub(crate) origin: ClientOrigin,
}

/// The way by which a client has come to this node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientOrigin {
    /// The listener.
    pub(crate) listener: ListenerId,
    /// The tenant for its home.
    pub(crate) tenant: Option<RelayedTenant>,
}

/// The stage of a move of the client's home.
#[derive(Debug)]
pub(crate) enum MoveStage {
    /// The home stays.
    Open,
    /// The old home gets no more bytes of the client.
    Leaving,
    /// The new home was sent the image of the connection, and has not answered.
    Continuing { parcel: Parcel, search: Search },
    /// This node stops: last bytes are written, and further input is dropped.
    Stopping,
    /// The client belongs to a relay of another node, which has asked to carry its bytes to this home.
    Carried { home: SocketAddr, introduction: Introduction },
}

/// The result of moving bytes.
#[derive(Debug)]
pub(crate) enum Pumped {
    /// The relay continues. Is there more to do at once?
    Bytes { more: bool },
    /// The connection has left its home. `search` is set if it had left another home before.
    Left { parcel: Parcel, search: Option<Search> },
    /// The new home does not continue the connection; the client may get a DISCONNECT with this code.
    Refused(Option<ReasonCode>),
}

impl Pair {
    /// Moves bytes, at most one read for each direction.
    pub(crate) fn pump(&mut self, buffer: &mut [u8]) -> Pumped {
        if matches!(self.stage, MoveStage::Carried { .. }) {
            return Pumped::Bytes { more: self.pump_carried(buffer) };
        }
        let [client, home] = &mut self.ends;
        if self.sieve.is_between_packets()
            && let Some(last) = self.goodbye.take_due()
        {
            client.append(&last);
            home.fail();
        }
        let mut more = false;
        match self.stage {
            MoveStage::Open => {
                let sent = &mut self.sent;
                more |= end::carry(client, home, buffer, |bytes, out: &mut Output| {
                    sent.follow(bytes);
                    out.append(bytes);
                    false
                });
                if client.has_ended() {
                    home.finish(buffer);
                }
            }
            MoveStage::Leaving => home.finish(buffer),
            MoveStage::Continuing { .. } => home.flush(buffer),
            MoveStage::Stopping => return Pumped::Bytes { more: self.pump_last(buffer) },
            MoveStage::Carried { .. } => {}
        }
        let (sieve, goodbye) = (&mut self.sieve, &mut self.goodbye);
        more |= end::carry(home, client, buffer, |bytes, out| sieve.sift(bytes, out, goodbye));
        while let Some(frame) = self.sieve.take_frame() {
            match frame {
                RelayFrame::Leave => {
                    self.stage = MoveStage::Leaving;
                    self.ends[HOME].finish(buffer);
                }
                RelayFrame::Left(parcel) => return Pumped::Left { parcel, search: None },
                RelayFrame::Continued => {
                    self.stage = MoveStage::Open;
                    more = true;
                }
                RelayFrame::Refused(code) => return Pumped::Refused(code),
            }
        }
        if !self.ends[HOME].has_ended() {
            return Pumped::Bytes { more };
        }
        if self.goodbye.was_said() {
            // The client got a DISCONNECT to use another server, and continues nowhere.
            self.stage = MoveStage::Open;
        }
        if let Some((parcel, search)) = self.take_parcel() {
            return Pumped::Left { parcel, search: Some(search) };
        }
        self.ends[CLIENT].finish(buffer);
        Pumped::Bytes { more }
    }

    /// Carries bytes between another node and the home of its client, as they are.
    fn pump_carried(&mut self, buffer: &mut [u8]) -> bool {
        let Self { ends: [node, home], sent, stage: MoveStage::Carried { introduction, .. }, .. } = self else {
            return false;
        };
        let mut more = end::carry(node, home, buffer, |bytes, out: &mut Output| {
            let Some(packets) = introduction.pass(bytes) else { return true };
            sent.follow(packets);
            out.append(bytes);
            false
        });
        more |= end::carry(home, node, buffer, |bytes, out| {
            out.append(bytes);
            false
        });
        for (from, to) in [(CLIENT, HOME), (HOME, CLIENT)] {
            if self.ends[from].has_ended() {
                self.ends[to].finish(buffer);
            }
        }
        more
    }

    /// The image sent to a new home that has not answered.
    pub(crate) fn take_parcel(&mut self) -> Option<(Parcel, Search)> {
        match std::mem::replace(&mut self.stage, MoveStage::Open) {
            MoveStage::Continuing { parcel, search } => Some((parcel, search)),
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    /// This node stops. Its clients get a DISCONNECT to use another server, and their homes a notice that the clients
    /// are not lost, each if no packet is in progress. The DISCONNECT names no server: a stopping node knows no better
    /// one than the client.
    pub(crate) fn begin_to_stop(&mut self) {
        let [client, home] = &mut self.ends;
        let is_heard = match &self.stage {
            MoveStage::Open | MoveStage::Continuing { .. } => true,
            MoveStage::Carried { introduction, .. } => introduction.is_complete(),
            MoveStage::Leaving | MoveStage::Stopping => false,
        };
        if is_heard && !client.has_ended() && self.sent.is_at_beginning() {
            home.append(&EDGE_STOPS);
        }
        if self.sieve.is_between_packets()
            && let Some(last) = self.goodbye.take_last()
        {
            client.append(&last);
        }
        self.stage = MoveStage::Stopping;
        self.ending = true;
    }

    /// Writes the last bytes of both ends. Their input is dropped: a socket that is closed with unread input loses output.
    fn pump_last(&mut self, buffer: &mut [u8]) -> bool {
        let [client, home] = &mut self.ends;
        let more = client.finish_and_discard(buffer);
        home.finish_and_discard(buffer) || more
    }

    pub(crate) fn client_transport(&mut self) -> &mut Transport {
        self.ends[CLIENT].transport_mut()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ends.iter().all(End::is_over)
    }

    /// True if an end has ended. A relay whose home moves continues.
    pub(crate) fn is_ending(&self) -> bool {
        match self.stage {
            MoveStage::Open | MoveStage::Carried { .. } => self.ends.iter().any(End::has_ended),
            MoveStage::Leaving => self.ends[HOME].has_ended(),
            MoveStage::Continuing { .. } => false,
            MoveStage::Stopping => true,
        }
    }

    /// True if the home of a carried client is not connected yet.
    pub(crate) fn awaits_connection(&self) -> bool {
        self.ends[HOME].is_connecting()
    }

    /// True if the new home has not answered yet.
    pub(crate) fn awaits_answer(&self) -> bool {
        matches!(self.stage, MoveStage::Continuing { .. })
    }
}
