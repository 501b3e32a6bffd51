//! Messages that clients publish, and their bodies in blocks [RFC 7959, 2.5].

use tidegate_client::QoS;

use super::{Action, Aim, Endpoint, JobId, SessionId};
use crate::answer::Answer;
use crate::block::Block;
use crate::fields::Parameters;
use crate::limits::Millis;
use crate::message::{Code, Kind, option, shortest};
use crate::request::Options;

/// A request that publishes.
#[derive(Clone, Debug, Default)]
pub(super) struct Put {
    topic: String,
    parameters: Parameters,
    format: Option<u16>,
    block: Option<Block>,
    /// Size of the whole body, if the client tells it.
    size: Option<u32>,
    tag: Option<Vec<u8>>,
    payload: Vec<u8>,
}

/// A body that has not come in full.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) key: Key,
    pub(super) body: Vec<u8>,
    pub(super) used: Millis,
}

/// The body of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    session: SessionId,
    method: Code,
    topic: String,
    parameters: Parameters,
    tag: Option<Vec<u8>>,
}

impl Upload {
    pub(super) const fn session(&self) -> SessionId {
        self.key.session
    }

    pub(super) const fn len(&self) -> usize {
        self.body.len()
    }
}

impl Put {
    pub(super) fn new(topic: String, parameters: Parameters, options: &Options, payload: Vec<u8>) -> Self {
        let Options { format, block1, size1, tag, .. } = options;
        Self { topic, parameters, format: *format, block: *block1, size: *size1, tag: tag.clone(), payload }
    }
}

/// An answer with the block that it is about. With 4.13 the block would be a wish for smaller ones [RFC 7959, 2.9.3].
pub(super) fn with_block(answer: Answer, block: Option<Block>) -> Answer {
    match block {
        Some(block) if answer.code != Code::TOO_LARGE => answer.with(option::BLOCK1, block.value()),
        _ => answer,
    }
}

/// The refusal of a longer body.
pub(super) fn too_large(longest: usize) -> Answer {
    let longest = u32::try_from(longest).unwrap_or(u32::MAX);
    let why = format!("a body has {longest} bytes at most");
    Answer::refusal(Code::TOO_LARGE, why).with(option::SIZE1, shortest(longest))
}

impl Endpoint {
    /// Publishes, or waits for further blocks.
    pub(super) fn put(&mut self, id: JobId, mut put: Put) {
        let Some(job) = self.jobs.get(&id) else { return };
        let (peer, session, kind) = (job.peer, job.session, job.reply.kind);
        let longest = self.settings.max_body;
        if put.payload.len() > longest || put.size.is_some_and(|size| size as usize > longest) {
            return self.answer(id, &with_block(too_large(longest), put.block));
        }
        if let Some(block) = put.block {
            let key = Key {
                session,
                method: job.reply.method,
                topic: put.topic.clone(),
                parameters: put.parameters.clone(),
                tag: put.tag.take(),
            };
            match self.wire.add_block(peer, key, (block, &put.payload), longest) {
                Ok(Some(body)) => put.payload = body,
                Ok(None) => return self.answer(id, &with_block(Answer::new(Code::CONTINUE), put.block)),
                Err(answer) => return self.answer(id, &with_block(*answer, put.block)),
            }
        }
        let qos = if kind == Kind::Confirmable { QoS::AtLeastOnce } else { QoS::AtMostOnce };
        match put.parameters.message(&put.topic, put.payload, put.format, qos) {
            Ok(message) => {
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.aim = Aim::Publish(put.block);
                }
                self.wire.actions.push_back(Action::Publish { session, job: id, message: Box::new(message) });
            }
            Err(why) => self.answer(id, &Answer::refusal(Code::BAD_REQUEST, why.to_string())),
        }
    }
}
