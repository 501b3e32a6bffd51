//! Datagrams of clients: acknowledgements, and requests of which jobs are made.

use std::hash::BuildHasher;

use super::observing::Wish;
use super::peer::{Peer, Progress};
use super::uploads::Put;
use super::{Endpoint, Job, JobId, PeerId, Reading, Reply, Timer, What};
use crate::answer::Answer;
use crate::format::{self, LINKS};
use crate::limits::{ACKNOWLEDGE_AFTER, MAX_JOBS, MAX_PEERS, Millis, PLACES_LOOKED_AT, PROOF_MINUTES, SWEEP};
use crate::message::{Code, FormatError, Kind, Message, option, shortest};
use crate::request::{Request, Target};

/// Milliseconds of a minute.
const MINUTE: Millis = 60_000;
/// The links to the resources of a listener [RFC 6690].
const TOPICS: &str = "</topics>;rt=\"mqtt\";obs";

impl Endpoint {
    /// A client has sent a datagram.
    pub fn handle_datagram(&mut self, now: Millis, peer: PeerId, datagram: &[u8]) {
        self.now = now;
        let decoded = match Message::decode(datagram) {
            Err(FormatError::Foreign) => return,
            decoded => decoded,
        };
        if !self.hear(peer, datagram.len()) {
            return;
        }
        match decoded {
            Ok(message) => self.handle_message(peer, &message),
            Err(FormatError::Malformed(Kind::Confirmable, id)) => self.reset(peer, id),
            Err(_) => {}
        }
    }

    /// Makes a place for a client, if it has none. False when there is none.
    fn hear(&mut self, peer: PeerId, len: usize) -> bool {
        if !self.peers.contains_key(&peer) {
            if self.peers.len() >= MAX_PEERS && !self.free_a_place() {
                return false;
            }
            let first_id = self.draw() as u16;
            // No other machine sends from a loopback address.
            self.peers.insert(peer, Peer::new(first_id, self.now, peer.at.ip().is_loopback()));
            self.places.push_back(peer);
            if !std::mem::replace(&mut self.sweeps, true) {
                self.timers.insert((self.now + SWEEP, Timer::Sweep));
            }
        }
        let now = self.now;
        self.peers.get_mut(&peer).is_some_and(|known| {
            known.hears(now, len);
            true
        })
    }

    /// Takes the place of a client without a session; first of one whose address is not proven.
    fn free_a_place(&mut self) -> bool {
        for also_proven in [false, true] {
            for _ in 0..PLACES_LOOKED_AT.min(self.places.len()) {
                let Some(peer) = self.places.pop_front() else { return false };
                let Some(known) = self.peers.get(&peer) else { return true };
                if known.may_leave() && (also_proven || !known.proven) {
                    self.forget(peer);
                    return true;
                }
                self.places.push_back(peer);
            }
        }
        false
    }

    /// A number that nobody foresees.
    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.keys.hash_one(("number", self.drawn))
    }

    fn handle_message(&mut self, peer: PeerId, message: &Message) {
        match message.kind {
            Kind::Acknowledgement => self.acknowledged(peer, message.id),
            Kind::Reset => self.refused(peer, message.id),
            Kind::Confirmable | Kind::NonConfirmable if message.code.is_request() => self.handle_request(peer, message),
            // An empty message is a question whether the listener lives [RFC 7252, 4.3]; answers are not expected.
            Kind::Confirmable => self.reset(peer, message.id),
            Kind::NonConfirmable => {}
        }
    }

    fn handle_request(&mut self, peer: PeerId, message: &Message) {
        let Some(known) = self.peers.get_mut(&peer) else { return };
        let reply = Reply {
            kind: message.kind,
            method: message.code,
            id: message.id,
            token: message.token,
            acknowledged: false,
        };
        match known.exchange(self.now, message.id).map(|exchange| exchange.state.clone()) {
            None | Some(Progress::Repeatable) => {}
            Some(Progress::Answered(datagram)) => return self.send(peer, datagram),
            Some(Progress::Acknowledged) => {
                return self.send(peer, Message::empty(Kind::Acknowledgement, message.id).encode());
            }
            Some(Progress::Working(_) | Progress::Silent) => return,
        }
        if known.jobs >= MAX_JOBS {
            return self.reply(peer, reply, &Answer::refusal(Code::TOO_MANY, "too many requests are under way"));
        }
        let request = match Request::read(message) {
            Ok(request) => request,
            // Nothing is answered to an unknown critical option of a message that is not confirmable
            // [RFC 7252, 5.4.1].
            Err(answer) if answer.code == Code::BAD_OPTION && message.kind == Kind::NonConfirmable => return,
            Err(answer) => return self.reply(peer, reply, &answer),
        };
        if request.options.echo.as_ref().is_some_and(|echo| self.proves(peer, echo))
            && let Some(known) = self.peers.get_mut(&peer)
        {
            known.proven = true;
        }
        if let Err(answer) = self.begin(peer, reply, request, &message.payload) {
            self.reply(peer, reply, &answer);
        }
    }

    /// Makes a job of a request.
    fn begin(&mut self, peer: PeerId, reply: Reply, request: Request, payload: &[u8]) -> Result<(), Box<Answer>> {
        let Request { target, parameters, options } = request;
        let topic = match (target, reply.method) {
            (Target::Links, Code::GET) => return Err(Box::new(links(&options.query))),
            (Target::Links, _) => return refuse(Code::NOT_ALLOWED, "the links are only read"),
            (Target::Nothing, _) => return refuse(Code::NOT_FOUND, "there are /topics/TOPIC and /.well-known/core"),
            (Target::Topic(topic), _) => topic,
        };
        let credentials = parameters.credentials.clone();
        let what = match reply.method {
            Code::GET => {
                let reading = Reading {
                    topic,
                    event: parameters.event,
                    etags: options.etags,
                    accept: options.accept,
                    block: options.block2,
                };
                match options.observe {
                    Some(0) => What::Observe(Box::new(Wish::new(reading, &parameters)?)),
                    Some(1) => {
                        self.stop_observing(peer, reply.token);
                        What::Read(reading)
                    }
                    _ => What::Read(reading),
                }
            }
            Code::PUT | Code::POST => {
                if options.format.is_some_and(|number| format::content_type(number).is_none()) {
                    return refuse(Code::UNSUPPORTED_FORMAT, "the content format is not known: use `content_type`");
                }
                What::Put(Box::new(Put::new(topic, parameters, &options, payload.to_vec())))
            }
            _ => return refuse(Code::NOT_ALLOWED, "GET, PUT and POST are known"),
        };
        if matches!(what, What::Observe(_)) && !self.is_proven(peer) && !self.will_prove(&credentials) {
            return Err(Box::new(self.challenge(peer)));
        }
        let session = self.session_for(peer, credentials)?;
        if let What::Read(reading) = &what
            && let Some(answer) = self.block_of_transfer(peer, session, reading)
        {
            self.reply(peer, reply, &answer);
            return Ok(());
        }
        let job = JobId(self.number());
        self.jobs.insert(job, Job { peer, session, reply, begun: self.now, what });
        if let Some(known) = self.peers.get_mut(&peer) {
            known.jobs += 1;
            known.remember(self.now, reply.id, Progress::Working(job));
        }
        if reply.kind == Kind::Confirmable {
            self.timers.insert((self.now + ACKNOWLEDGE_AFTER, Timer::Acknowledge(job)));
        }
        self.enter(session, job);
        Ok(())
    }

    /// Whether a client has proven that it receives at its address.
    pub(super) fn is_proven(&self, peer: PeerId) -> bool {
        self.peers.get(&peer).is_some_and(|known| known.proven)
    }

    /// The answer that asks a client to prove its address: its next request has the same value [RFC 9175, 2.3].
    pub(super) fn challenge(&self, peer: PeerId) -> Answer {
        Answer::new(Code::UNAUTHORIZED).with(option::ECHO, self.proof(peer, self.now / MINUTE))
    }

    fn proof(&self, peer: PeerId, minute: u64) -> Vec<u8> {
        let mut proof = (minute as u32).to_be_bytes().to_vec();
        proof.extend_from_slice(&self.keys.hash_one(("address", peer, minute)).to_be_bytes());
        proof
    }

    fn proves(&self, peer: PeerId, echo: &[u8]) -> bool {
        let minute = self.now / MINUTE;
        (minute.saturating_sub(PROOF_MINUTES)..=minute).any(|minute| self.proof(peer, minute) == echo)
    }
}

fn refuse<T>(code: Code, why: &str) -> Result<T, Box<Answer>> {
    Err(Box::new(Answer::refusal(code, why)))
}

/// The links to all resources that match a query: those of one type, or of one target.
fn links(query: &[String]) -> Answer {
    let fits = |one: &String| match one.split_once('=') {
        Some(("rt", value)) => fits(value, "mqtt"),
        Some(("href", value)) => fits(value, "/topics"),
        Some(("obs", _)) => true,
        _ => one == "obs",
    };
    let mut answer = Answer::new(Code::CONTENT).with(option::CONTENT_FORMAT, shortest(LINKS.into()));
    if query.iter().all(fits) {
        answer.payload = TOPICS.as_bytes().to_vec();
    }
    answer
}

/// Whether a value is the wanted one, or the beginning of it with `*` behind it [RFC 6690, 4.1].
fn fits(wanted: &str, value: &str) -> bool {
    wanted.strip_suffix('*').map_or(wanted == value, |beginning| value.starts_with(beginning))
}
