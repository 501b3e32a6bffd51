//! Reading retained messages, and observing topics [RFC 7641].

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_client::{QoS, TopicFilterBuf, TopicNameBuf};

use super::observation::{Observation, ObservationId, Waiting};
use super::peer::Sending;
use super::sessions::Subscription;
use super::{Action, Aim, Endpoint, Job, JobId, PeerId, Reading, SessionId};
use crate::answer::{self, Answer, Body};
use crate::block::Block;
use crate::fields::{Parameters, Shown};
use crate::limits::{MAX_OBSERVATIONS, UNCONFIRMED};
use crate::message::{Code, Kind, Token, option, shortest};
use crate::{Failure, Outcome, ReadError, ReasonCode};

/// How a client names an observation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Named {
    /// By the token of its request.
    Token(Token),
    /// By the id of its last notification, or of the unacknowledged one.
    Notification(u16),
}

/// A wish to observe.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    reading: Reading,
    filter: TopicFilterBuf,
    qos: QoS,
    retained: bool,
}

impl Wish {
    /// A wish, if it can be granted.
    pub(super) fn new(reading: Reading, parameters: &Parameters) -> Result<Self, Box<Answer>> {
        let refuse = |why: String| Err(Box::new(Answer::refusal(Code::BAD_REQUEST, why)));
        let filter = match TopicFilterBuf::new(reading.topic.clone()) {
            Ok(filter) => filter,
            Err(error) => return refuse(format!("the filter {error}")),
        };
        if !reading.event && TopicNameBuf::new(reading.topic.clone()).is_err() {
            return refuse("a filter is observed with `event=true`, so that answers name their topics".to_owned());
        }
        let (qos, retained) = (parameters.qos.unwrap_or(QoS::AtLeastOnce), parameters.retain.unwrap_or(true));
        Ok(Self { reading, filter, qos, retained })
    }
}

impl Endpoint {
    /// Subscribes for an observer.
    pub(super) fn observe(&mut self, id: JobId, wish: Wish) {
        let Some(Job { peer, session, reply, .. }) = self.jobs.get(&id) else { return };
        let (peer, session, token) = (*peer, *session, reply.token);
        let observation = ObservationId(self.wire.number());
        let Some(it) = self.sessions.get_mut(&session) else { return };
        let shared = it.subscriptions.iter().find(|(_, one)| one.filter == wish.filter).map(|(number, _)| *number);
        let subscription = shared.unwrap_or_else(|| {
            it.next_subscription += 1;
            it.next_subscription
        });
        let fresh = Subscription { filter: wish.filter.clone(), observations: 0 };
        it.subscriptions.entry(subscription).or_insert(fresh).observations += 1;
        // The subscription stays where the same client asks again.
        self.stop_observing(peer, Named::Token(token));
        let Some(known) = self.wire.peers.get_mut(&peer) else { return };
        if known.observations.len() >= MAX_OBSERVATIONS {
            self.release_subscription(session, subscription);
            return self.answer(id, &Answer::refusal(Code::TOO_MANY, "this client observes too many topics"));
        }
        known.observations.push(Observation {
            id: observation,
            token,
            session,
            subscription,
            event: wish.reading.event,
            block: wish.reading.block,
            active: false,
            waiting: VecDeque::new(),
            unconfirmed: UNCONFIRMED,
            last_id: None,
        });
        let is_filter = TopicNameBuf::new(wish.reading.topic.clone()).is_err();
        let retained = wish.retained && is_filter;
        if let Some(job) = self.jobs.get_mut(&id) {
            let mut reading = wish.reading;
            if is_filter || !wish.retained {
                // There is nothing to read first.
                reading.topic.clear();
            }
            job.aim = Aim::Subscribe(observation, reading);
        }
        let (filter, qos) = (wish.filter, wish.qos);
        self.wire.actions.push_back(Action::Subscribe { session, job: Some(id), subscription, filter, qos, retained });
    }

    /// The broker has answered a subscription: the retained message is the first answer.
    pub(super) fn subscribed(&mut self, id: JobId, observation: ObservationId, answer: &Answer) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let (peer, session) = (job.peer, job.session);
        if answer.is_refusal() {
            self.end_observation(peer, observation);
            return self.answer(id, answer);
        }
        let Aim::Subscribe(_, reading) = &job.aim else { return };
        let reading = reading.clone();
        let topic = reading.topic.clone();
        if topic.is_empty() {
            return self.begin_notifications(id, observation, Answer::new(Code::CONTENT));
        }
        job.aim = Aim::First(observation, reading);
        self.wire.actions.push_back(Action::Read { session, job: id, topic });
    }

    /// Sends the first answer of an observation, and the messages that came meanwhile.
    fn begin_notifications(&mut self, id: JobId, observation: ObservationId, answer: Answer) {
        let Some(peer) = self.jobs.get(&id).map(|job| job.peer) else { return };
        let Some(known) = self.wire.peers.get_mut(&peer) else { return };
        let sequence = known.take_sequence();
        let found = known.observations.iter_mut().find(|it| it.id == observation);
        let is_observed = found.map(|it| it.active = true).is_some();
        let answer = if is_observed { answer.with(option::OBSERVE, shortest(sequence)) } else { answer };
        self.answer(id, &answer);
        self.advance(peer);
    }

    /// The broker has read a retained message.
    pub(super) fn read(&mut self, id: JobId, outcome: Result<Option<Box<Shown>>, ReadError>) {
        let Some(job) = self.jobs.get(&id) else { return };
        let (peer, session) = (job.peer, job.session);
        let (reading, first) = match &job.aim {
            Aim::Read(reading) => (reading.clone(), None),
            Aim::First(observation, reading) => (reading.clone(), Some(*observation)),
            _ => return,
        };
        let answer = match outcome {
            Ok(Some(message)) => self.wire.representation(peer, session, &reading, *message),
            // An observer waits for the first message.
            Ok(None) if first.is_some() => Answer::new(Code::CONTENT),
            Err(ReadError::Moving | ReadError::Silent(_) | ReadError::TooLong(_) | ReadError::Busy)
                if first.is_some() =>
            {
                self.subscribe_for_retained(session, &reading.topic);
                Answer::new(Code::CONTENT)
            }
            Ok(None) => Answer::refusal(Code::NOT_FOUND, "the topic has no retained message"),
            Err(error) => unread(&error),
        };
        match first {
            Some(observation) if answer.is_refusal() => {
                self.end_observation(peer, observation);
                self.answer(id, &answer);
            }
            Some(observation) => self.begin_notifications(id, observation, answer),
            None => self.answer(id, &answer),
        }
    }

    /// Another node has the retained message: it comes with a second subscription.
    fn subscribe_for_retained(&mut self, session: SessionId, topic: &str) {
        let Some(it) = self.sessions.get(&session) else { return };
        let Some((subscription, one)) = it.subscriptions.iter().find(|(_, one)| one.filter.as_str() == topic) else {
            return;
        };
        let (subscription, filter) = (*subscription, one.filter.clone());
        let (job, qos, retained) = (None, QoS::AtLeastOnce, true);
        self.wire.actions.push_back(Action::Subscribe { session, job, subscription, filter, qos, retained });
    }

    /// A message for the observers of some subscriptions.
    pub(super) fn notify(&mut self, session: SessionId, delivery: Option<u64>, subscriptions: &[u32], message: Shown) {
        let Some(peer) = self.sessions.get(&session).map(|it| it.peer) else { return };
        let message = Arc::new(message);
        let mut count = 0;
        for it in self.wire.peers.get_mut(&peer).into_iter().flat_map(|known| &mut known.observations) {
            if it.session != session || !subscriptions.contains(&it.subscription) {
                continue;
            }
            count += 1;
            it.waiting.push_back(Waiting { message: Arc::clone(&message), delivery });
        }
        if count > 0 {
            self.wire.hold(peer, &message);
        }
        // From here on only the observers share it.
        drop(message);
        if let Some(number) = delivery {
            if count == 0 {
                self.wire.actions.push_back(Action::Acknowledge { session, delivery: number });
            } else if let Some(it) = self.sessions.get_mut(&session) {
                it.deliveries.insert(number, count);
            }
        }
        self.advance(peer);
        self.bound_waiting(peer);
    }

    /// Sends the notifications of a client that may leave: confirmable ones one at a time.
    pub(super) fn advance(&mut self, peer: PeerId) {
        loop {
            let Some(known) = self.wire.peers.get_mut(&peer) else { return };
            let (count, is_free) = (known.observations.len(), known.confirming.is_none());
            let may_leave = |it: &Observation| {
                let confirms = it.waiting.front().map(|one| confirms(one, it.unconfirmed));
                it.active && confirms.is_some_and(|confirms| is_free || !confirms)
            };
            let order = (0..count).map(|step| (known.turn + step) % count);
            let Some(at) = order.into_iter().find(|at| known.observations.get(*at).is_some_and(may_leave)) else {
                return;
            };
            known.turn = at + 1;
            self.send_notification(peer, at);
        }
    }

    /// Sends the next notification of an observation.
    fn send_notification(&mut self, peer: PeerId, at: usize) {
        let Some(known) = self.wire.peers.get_mut(&peer) else { return };
        let (id, sequence) = (known.take_id(), known.take_sequence());
        let Some(it) = known.observations.get_mut(at) else { return };
        let Some(waiting) = it.waiting.pop_front() else { return };
        let confirms = confirms(&waiting, it.unconfirmed);
        it.unconfirmed = if confirms { 0 } else { it.unconfirmed + 1 };
        it.last_id = Some(id);
        let (token, session, observation, subscription) = (it.token, it.session, it.id, it.subscription);
        let (event, block) = (it.event, it.block.map(Block::first));
        let body = Arc::new(Body::of(self.wire.let_go(peer, waiting.message), event));
        let answer = body.answer(block, &[]).with(option::OBSERVE, shortest(sequence));
        if answer.has_more() {
            let filter = self.sessions.get(&session).and_then(|it| it.subscriptions.get(&subscription));
            let topic = filter.map(|one| one.filter.as_str().to_owned()).unwrap_or_default();
            self.wire.keep_for_blocks(peer, session, &topic, event, &body);
        }
        self.wire.counters.notifications += 1;
        let kind = if confirms { Kind::Confirmable } else { Kind::NonConfirmable };
        let datagram = answer.message(kind, id, token).encode();
        if confirms {
            if let Some(known) = self.wire.peers.get_mut(&peer) {
                known.confirming = Some(id);
            }
            self.wire.send_confirmable(peer, id, datagram, Some((observation, waiting.delivery)));
        } else {
            self.wire.send(peer, datagram);
        }
    }

    /// The client has acknowledged a notification.
    pub(super) fn notified(&mut self, peer: PeerId, sent: &Sending) {
        let Some((observation, delivery)) = sent.notifies else { return };
        let Some(known) = self.wire.peers.get_mut(&peer) else { return };
        known.confirming = None;
        let session = known.observations.iter().find(|it| it.id == observation).map(|it| it.session);
        if let (Some(session), Some(delivery)) = (session, delivery) {
            self.release_delivery(session, delivery);
        }
        self.advance(peer);
    }

    /// One observer less has to acknowledge a message.
    fn release_delivery(&mut self, session: SessionId, delivery: u64) {
        if self.sessions.get_mut(&session).is_some_and(|it| it.release(delivery)) {
            self.wire.actions.push_back(Action::Acknowledge { session, delivery });
        }
    }

    /// The client no longer observes: it has said so, or has refused a notification [RFC 7641, 3.6].
    pub(super) fn stop_observing(&mut self, peer: PeerId, named: Named) {
        let Some(known) = self.wire.peers.get(&peer) else { return };
        let notified = |id| known.sending.get(&id).and_then(|sent| sent.notifies).map(|(observation, _)| observation);
        let is_named = |it: &&Observation| match named {
            Named::Token(token) => it.token == token,
            Named::Notification(id) => it.last_id == Some(id) || notified(id) == Some(it.id),
        };
        if let Some(id) = known.observations.iter().find(is_named).map(|it| it.id) {
            self.end_observation(peer, id);
        }
    }

    /// Ends an observation. Its messages count as acknowledged: no client wants them.
    fn end_observation(&mut self, peer: PeerId, id: ObservationId) {
        let Some(known) = self.wire.peers.get_mut(&peer) else { return };
        let Some(at) = known.observations.iter().position(|it| it.id == id) else { return };
        let ended = known.observations.remove(at);
        let notifies = |sent: &Sending| sent.notifies.filter(|(observation, _)| *observation == id);
        let sent = known.confirming.and_then(|id| known.sending.get(&id)).and_then(notifies);
        if sent.is_some()
            && let Some(sent_id) = known.confirming.take()
        {
            known.sending.remove(&sent_id);
        }
        let mut deliveries: Vec<u64> = sent.and_then(|(_, delivery)| delivery).into_iter().collect();
        for one in ended.waiting {
            deliveries.extend(one.delivery);
            self.wire.let_go(peer, one.message);
        }
        for delivery in deliveries {
            self.release_delivery(ended.session, delivery);
        }
        self.release_subscription(ended.session, ended.subscription);
        self.advance(peer);
    }

    fn release_subscription(&mut self, session: SessionId, subscription: u32) {
        let (now, Some(it)) = (self.wire.now, self.sessions.get_mut(&session)) else { return };
        it.used = now;
        let Some(one) = it.subscriptions.get_mut(&subscription) else { return };
        one.observations -= 1;
        if one.observations == 0
            && let Some(one) = it.subscriptions.remove(&subscription)
        {
            self.wire.actions.push_back(Action::Unsubscribe { session, filter: one.filter });
        }
    }

    /// A client does not answer: its observations end [RFC 7641, 4.5], and so do their sessions, also where requests
    /// wait. None of the messages, sent or waiting, is acknowledged to the broker, which counts them.
    pub(super) fn lose_observer(&mut self, peer: PeerId) {
        let Some(known) = self.wire.peers.get_mut(&peer) else { return };
        known.confirming = None;
        let observations = std::mem::take(&mut known.observations);
        let mut sessions: Vec<SessionId> = observations.iter().map(|it| it.session).collect();
        sessions.sort();
        sessions.dedup();
        for waiting in observations.into_iter().flat_map(|it| it.waiting) {
            self.wire.let_go(peer, waiting.message);
        }
        let why = Some("the client has not acknowledged a notification".to_owned());
        let failure = Failure::Refused(Outcome { code: ReasonCode::ServerUnavailable, why });
        for session in sessions {
            self.close(session, &failure);
        }
    }

    /// A session is over: its observers get an error, which ends their observations [RFC 7641, 4.2].
    pub(super) fn end_observations(&mut self, session: SessionId, failure: &Failure) {
        let Some(peer) = self.sessions.get(&session).map(|it| it.peer) else { return };
        let Some(known) = self.wire.peers.get_mut(&peer) else { return };
        let of_session = |it: &mut Observation| it.session == session;
        let ended: Vec<Observation> = known.observations.extract_if(.., of_session).collect();
        let notified = known.confirming.and_then(|id| known.sending.get(&id)).and_then(|sent| sent.notifies);
        if notified.is_some_and(|(observation, _)| ended.iter().any(|it| it.id == observation))
            && let Some(id) = known.confirming.take()
        {
            known.sending.remove(&id);
        }
        for it in ended {
            for waiting in it.waiting {
                self.wire.let_go(peer, waiting.message);
            }
            let Some(known) = self.wire.peers.get_mut(&peer) else { return };
            let id = known.take_id();
            let datagram = answer::failure(failure).message(Kind::Confirmable, id, it.token).encode();
            self.wire.send_confirmable(peer, id, datagram, None);
        }
        self.advance(peer);
    }
}

/// Whether a notification has to be confirmed: of QoS 1 and 2 always, else now and then, to see that the client is there.
const fn confirms(waiting: &Waiting, unconfirmed: u8) -> bool {
    waiting.delivery.is_some() || unconfirmed >= UNCONFIRMED
}

fn unread(error: &ReadError) -> Answer {
    let code = match error {
        ReadError::NotAuthorized => Code::FORBIDDEN,
        ReadError::InvalidTopic => Code::BAD_REQUEST,
        ReadError::TooLong(_) => Code::BAD_GATEWAY,
        ReadError::Moving
        | ReadError::Silent(_)
        | ReadError::Busy
        | ReadError::SessionElsewhere
        | ReadError::Unavailable => Code::UNAVAILABLE,
    };
    Answer::refusal(code, error.to_string())
}
