//! Ends overdue and idle state, once in a while.

use super::{Endpoint, JobId, PeerId, SessionId};
use crate::Failure;
use crate::answer::Answer;
use crate::limits::{ANSWER_TIMEOUT, PEER_IDLE, SESSION_IDLE, TRANSFER_IDLE, UPLOAD_IDLE};
use crate::message::Code;

impl Endpoint {
    pub(super) fn sweep(&mut self) {
        let now = self.wire.now;
        let overdue = self.jobs.iter().filter(|(_, job)| job.begun + ANSWER_TIMEOUT <= now);
        let mut overdue: Vec<JobId> = overdue.map(|(id, _)| *id).collect();
        overdue.sort();
        for job in overdue {
            self.answer(job, &Answer::refusal(Code::TIMEOUT, "the broker has not answered in time"));
        }
        let idle = self.sessions.iter().filter(|(_, it)| it.is_idle() && it.used + SESSION_IDLE <= now);
        let mut idle: Vec<SessionId> = idle.map(|(id, _)| *id).collect();
        idle.sort();
        for session in idle {
            self.close(session, &Failure::Closed);
        }
        let (uploads, transfers) = (&mut self.wire.upload_bytes, &mut self.wire.transfer_bytes);
        for known in self.wire.peers.values_mut() {
            known.uploads.retain(|upload| {
                let stays = upload.used + UPLOAD_IDLE > now;
                *uploads -= if stays { 0 } else { upload.len() };
                stays
            });
            known.transfers.retain(|transfer| {
                let stays = transfer.used + TRANSFER_IDLE > now;
                *transfers -= if stays { 0 } else { transfer.body.bytes.len() };
                stays
            });
        }
        let gone = self.wire.peers.iter().filter(|(_, it)| it.may_leave() && it.heard + PEER_IDLE <= now);
        let mut gone: Vec<PeerId> = gone.map(|(id, _)| *id).collect();
        gone.sort();
        for peer in gone {
            self.wire.forget(peer);
        }
        let peers = &self.wire.peers;
        self.wire.places.retain(|peer| peers.contains_key(peer));
    }
}
