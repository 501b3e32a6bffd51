//! The sessions at the broker: one for a client with its credentials.

use std::collections::HashMap;

use tidegate_client::TopicFilterBuf;

use super::{Action, Aim, Endpoint, JobId, PeerId, SessionId};
use crate::answer::{self, Answer};
use crate::limits::{MAX_SESSIONS_OF_PEER, Millis};
use crate::message::Code;
use crate::{Credentials, Failure, Outcome};

#[derive(Debug)]
pub(super) struct Session {
    pub(super) peer: PeerId,
    credentials: Credentials,
    open: bool,
    /// Requests that wait until it is let in.
    waiting: Vec<JobId>,
    pub(super) used: Millis,
    /// Requests under way.
    pub(super) jobs: usize,
    pub(super) subscriptions: HashMap<u32, Subscription>,
    pub(super) next_subscription: u32,
    /// How many observers still have to acknowledge each message.
    pub(super) deliveries: HashMap<u64, usize>,
}

/// A subscription of a session.
#[derive(Debug)]
pub(super) struct Subscription {
    pub(super) filter: TopicFilterBuf,
    /// Observations that it serves.
    pub(super) observations: usize,
}

impl Session {
    /// One observer less has to acknowledge a message. True for the last one.
    pub(super) fn release(&mut self, delivery: u64) -> bool {
        let Some(left) = self.deliveries.get_mut(&delivery) else { return false };
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            self.deliveries.remove(&delivery);
        }
        is_last
    }

    /// Whether it may end.
    pub(super) fn is_idle(&self) -> bool {
        self.jobs == 0 && self.subscriptions.is_empty()
    }
}

impl Endpoint {
    /// The session of a client with these credentials; else a new one.
    pub(super) fn session_for(&mut self, peer: PeerId, credentials: Credentials) -> Result<SessionId, Box<Answer>> {
        let refuse = |code, why: &str| Err(Box::new(Answer::refusal(code, why)));
        let ours = self.wire.peers.get(&peer).map(|known| known.sessions.clone()).unwrap_or_default();
        let known = ours.iter().find(|id| self.sessions.get(*id).is_some_and(|it| it.credentials == credentials));
        if let Some(session) = known {
            return Ok(*session);
        }
        let half = self.sessions.len() * 2 >= self.settings.max_sessions;
        if half && !self.wire.is_proven(peer) {
            return Err(Box::new(self.wire.challenge(peer)));
        }
        if ours.len() >= MAX_SESSIONS_OF_PEER && !self.close_idle(Some(peer)) {
            return refuse(Code::TOO_MANY, "too many users ask from this address");
        }
        if self.sessions.len() >= self.settings.max_sessions && !self.close_idle(None) {
            return refuse(Code::UNAVAILABLE, "the listener has too many clients");
        }
        let session = SessionId(self.wire.number());
        let fresh = Session {
            peer,
            credentials: credentials.clone(),
            open: false,
            waiting: Vec::new(),
            used: self.wire.now,
            jobs: 0,
            subscriptions: HashMap::new(),
            next_subscription: 1,
            deliveries: HashMap::new(),
        };
        self.sessions.insert(session, fresh);
        if let Some(known) = self.wire.peers.get_mut(&peer) {
            known.sessions.push(session);
        }
        self.wire.actions.push_back(Action::Open { session, peer, credentials });
        Ok(session)
    }

    /// Ends the session that was idle for the longest time; of one client, if it is named.
    fn close_idle(&mut self, of: Option<PeerId>) -> bool {
        let idle = self.sessions.iter().filter(|(_, it)| it.is_idle() && of.is_none_or(|peer| it.peer == peer));
        let Some(session) = idle.min_by_key(|(id, it)| (it.used, **id)).map(|(id, _)| *id) else { return false };
        self.close(session, &Failure::Closed);
        true
    }

    /// Ends a session. The broker counts its messages that were not acknowledged; `failure` answers its requests and
    /// observers.
    pub(super) fn close(&mut self, session: SessionId, failure: &Failure) {
        self.wire.actions.push_back(Action::Close { session });
        self.ended(session, failure);
    }

    /// Forgets a session, and its clients' state.
    fn drop_session(&mut self, session: SessionId) {
        let Some(it) = self.sessions.remove(&session) else { return };
        let Some(known) = self.wire.peers.get_mut(&it.peer) else { return };
        known.sessions.retain(|id| *id != session);
        let (uploads, transfers) = (&mut self.wire.upload_bytes, &mut self.wire.transfer_bytes);
        known.uploads.retain(|upload| {
            let stays = upload.session() != session;
            *uploads -= if stays { 0 } else { upload.len() };
            stays
        });
        known.transfers.retain(|transfer| {
            let stays = transfer.session != session;
            *transfers -= if stays { 0 } else { transfer.body.bytes.len() };
            stays
        });
    }

    /// A request asks its session.
    pub(super) fn enter(&mut self, session: SessionId, job: JobId) {
        let Some(it) = self.sessions.get_mut(&session) else { return };
        it.jobs += 1;
        it.used = self.wire.now;
        if it.open {
            self.carry_out(job);
        } else {
            it.waiting.push(job);
        }
    }

    /// The broker has let a session in.
    pub(super) fn opened(&mut self, session: SessionId) {
        let Some(it) = self.sessions.get_mut(&session) else { return };
        it.open = true;
        for job in std::mem::take(&mut it.waiting) {
            self.carry_out(job);
        }
    }

    /// A session is over.
    pub(super) fn ended(&mut self, session: SessionId, failure: &Failure) {
        let mut lost: Vec<JobId> =
            self.jobs.iter().filter(|(_, job)| job.session == session).map(|(id, _)| *id).collect();
        lost.sort();
        for job in lost {
            self.answer(job, &answer::failure(failure));
        }
        self.end_observations(session, failure);
        self.drop_session(session);
    }

    /// Carries a request out in an open session.
    fn carry_out(&mut self, id: JobId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let session = job.session;
        match &mut job.aim {
            Aim::Put(put) => {
                let put = std::mem::take(&mut **put);
                self.put(id, put);
            }
            Aim::Read(reading) => {
                let topic = reading.topic.clone();
                self.wire.actions.push_back(Action::Read { session, job: id, topic });
            }
            Aim::Observe(wish) => {
                let wish = wish.clone();
                self.observe(id, *wish);
            }
            Aim::Publish(_) | Aim::Subscribe(..) | Aim::First(..) => {}
        }
    }

    /// The broker has answered a message or a subscription.
    pub(super) fn done(&mut self, id: JobId, outcome: &Result<Outcome, Failure>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let answer = outcome.as_ref().map_or_else(answer::failure, answer::outcome);
        match &job.aim {
            Aim::Publish(block) => {
                let block = *block;
                self.answer(id, &super::uploads::with_block(answer, block));
            }
            Aim::Subscribe(observation, _) => {
                let observation = *observation;
                self.subscribed(id, observation, &answer);
            }
            _ => {}
        }
    }
}
