//! Datagrams of clients: acknowledgements, and requests, which become jobs.

use super::observing::{Named, Wish};
use super::peer::Progress;
use super::uploads::Put;
use super::{Aim, Endpoint, Job, JobId, PeerId, Reading, Reply, Timer};
use crate::answer::Answer;
use crate::format::{self, LINKS};
use crate::limits::{ACKNOWLEDGE_AFTER, MAX_JOBS, Millis};
use crate::message::{Code, FormatError, Kind, Message, option, shortest};
use crate::request::{Request, Target};

/// The links to the resources of a listener [RFC 6690].
const TOPICS: &str = "</topics>;rt=\"mqtt\";obs";

impl Endpoint {
    /// A client has sent a datagram.
    pub fn handle_datagram(&mut self, now: Millis, peer: PeerId, datagram: &[u8]) {
        self.wire.now = now;
        self.wire.counters.datagrams_in += 1;
        self.wire.counters.bytes_in += datagram.len() as u64;
        let decoded = match Message::decode(datagram) {
            Err(FormatError::Foreign) => {
                self.wire.counters.malformed += 1;
                return;
            }
            decoded => decoded,
        };
        if !self.wire.hear(peer, datagram.len()) {
            return;
        }
        match decoded {
            Ok(message) => match message.kind {
                Kind::Acknowledgement => self.acknowledged(peer, message.id),
                Kind::Reset => {
                    self.stop_observing(peer, Named::Notification(message.id));
                    self.acknowledged(peer, message.id);
                }
                Kind::Confirmable | Kind::NonConfirmable if message.code.is_request() => {
                    self.handle_request(peer, &message);
                }
                // An empty message is a question whether the listener lives [RFC 7252, 4.3]; answers are not expected.
                Kind::Confirmable => self.wire.reset(peer, message.id),
                Kind::NonConfirmable => {}
            },
            Err(error) => {
                self.wire.counters.malformed += 1;
                if let FormatError::Malformed(Kind::Confirmable, id) = error {
                    self.wire.reset(peer, id);
                }
            }
        }
    }

    fn handle_request(&mut self, peer: PeerId, message: &Message) {
        let Some(known) = self.wire.peers.get_mut(&peer) else { return };
        let reply = Reply {
            kind: message.kind,
            method: message.code,
            id: message.id,
            token: message.token,
            acknowledged: false,
        };
        match known.exchange(self.wire.now, message.id).map(|exchange| exchange.state.clone()) {
            None | Some(Progress::Repeatable) => {}
            Some(Progress::Answered(datagram)) => return self.wire.send(peer, datagram),
            Some(Progress::Acknowledged) => {
                return self.wire.send(peer, Message::empty(Kind::Acknowledgement, message.id).encode());
            }
            Some(Progress::Working(_) | Progress::Silent) => return,
        }
        if known.jobs >= MAX_JOBS {
            return self.wire.reply(peer, reply, &Answer::refusal(Code::TOO_MANY, "too many requests are under way"));
        }
        let request = match Request::read(message) {
            Ok(request) => request,
            // Nothing is answered to an unknown critical option of a message that is not confirmable
            // [RFC 7252, 5.4.1].
            Err(answer) if answer.code == Code::BAD_OPTION && message.kind == Kind::NonConfirmable => return,
            Err(answer) => return self.wire.reply(peer, reply, &answer),
        };
        if request.options.echo.as_ref().is_some_and(|echo| self.wire.proves(peer, echo))
            && let Some(known) = self.wire.peers.get_mut(&peer)
        {
            known.proven = true;
        }
        if let Err(answer) = self.begin(peer, reply, request, &message.payload) {
            self.wire.reply(peer, reply, &answer);
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
        let aim = match reply.method {
            Code::GET => {
                let reading = Reading {
                    topic,
                    event: parameters.event,
                    etags: options.etags,
                    accept: options.accept,
                    block: options.block2,
                };
                match options.observe {
                    Some(0) => Aim::Observe(Box::new(Wish::new(reading, &parameters)?)),
                    Some(1) => {
                        self.stop_observing(peer, Named::Token(reply.token));
                        Aim::Read(reading)
                    }
                    _ => Aim::Read(reading),
                }
            }
            Code::PUT | Code::POST => {
                if options.format.is_some_and(|number| format::content_type(number).is_none()) {
                    return refuse(Code::UNSUPPORTED_FORMAT, "the content format is not known: use `content_type`");
                }
                Aim::Put(Box::new(Put::new(topic, parameters, &options, payload.to_vec())))
            }
            _ => return refuse(Code::NOT_ALLOWED, "GET, PUT and POST are known"),
        };
        if matches!(aim, Aim::Observe(_)) && !self.wire.is_proven(peer) {
            return Err(Box::new(self.wire.challenge(peer)));
        }
        let session = self.session_for(peer, credentials)?;
        if let Aim::Read(reading) = &aim
            && let Some(answer) = self.wire.block_of_transfer(peer, session, reading)
        {
            self.wire.reply(peer, reply, &answer);
            return Ok(());
        }
        let job = JobId(self.wire.number());
        self.jobs.insert(job, Job { peer, session, reply, begun: self.wire.now, aim });
        if let Some(known) = self.wire.peers.get_mut(&peer) {
            known.jobs += 1;
            known.remember(self.wire.now, reply.id, Progress::Working(job));
        }
        if reply.kind == Kind::Confirmable {
            self.wire.timers.insert((self.wire.now + ACKNOWLEDGE_AFTER, Timer::Acknowledge(job)));
        }
        self.enter(session, job);
        Ok(())
    }
}

fn refuse<T>(code: Code, why: &str) -> Result<T, Box<Answer>> {
    Err(Box::new(Answer::refusal(code, why)))
}

/// The links to all resources that match a query: links of one type, or of one target.
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
