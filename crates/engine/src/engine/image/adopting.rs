//! The connections of a dead orchestrator to brokers, which another one works off.
//!
//! A broker keeps messages for the session of the dead orchestrator, and the store of that one has messages that no
//! broker has. So the orchestrator that takes over connects to the broker as the dead one, with the state of its
//! session. It gives the broker what was owed, and nothing else, and takes what the broker has for the sessions that
//! were taken over.

use crate::cluster::transfer::error::ImageError;
use crate::engine::Engine;
use crate::flows::image::imaging::imaging;
use crate::flows::image::leaving::moving;
use crate::flows::publish::answering::answering;
use crate::ids::{Partitions, SessionKey, UPLINK_PREFIX};
use crate::image::read_session::SessionImage;
use crate::image::{begin, open, seal};
use crate::now::Now;
use crate::settings::uplinks::{UplinkError, UplinkOptions};

/// The session of a dead orchestrator at a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UplinkImage {
    /// The name of the broker.
    pub broker: String,
    /// The session.
    pub image: Vec<u8>,
}

/// What the connection of a dead orchestrator has brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// For the members that have taken over its other partitions, for [`Engine::take_piece`].
    pub for_members: Option<Vec<u8>>,
    /// For the other shards of this process, for [`Engine::deliver_rest`].
    pub for_shards: Option<Vec<u8>>,
    /// The partitions that this process has taken over.
    pub partitions: Partitions,
    /// Messages that the broker waits to have acknowledged.
    pub unanswered: usize,
}

/// Why the session of a dead orchestrator at a broker is not worked off.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdoptError {
    /// The image cannot be read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The broker is not in the fleet here.
    #[error(transparent)]
    Uplink(#[from] UplinkError),
}

impl Engine {
    /// The sessions at brokers, of an engine that has taken in the store of a dead node.
    pub fn uplink_images(&self, now: Now) -> Vec<UplinkImage> {
        let uplinks = self.state.sessions.iter().filter(|(_, session)| session.is_uplink());
        let images = uplinks.filter_map(|(key, session)| {
            let broker = session.client_id.strip_prefix(UPLINK_PREFIX)?;
            let mut image = begin();
            imaging!(self).put_session(&mut image, now, SessionKey(key), session);
            Some(UplinkImage { broker: broker.to_owned(), image: seal(image) })
        });
        images.collect()
    }

    /// Connects to a broker as the dead orchestrator `of`, under another name, which is returned. What the broker has goes
    /// to the sessions that were taken over by the transfer `id` ([`Engine::begin_awaiting`]), like what an old home passes
    /// on, and to all others that have not got it. Nothing but what was owed is given to it.
    ///
    /// # Errors
    /// When the image cannot be read, or there is no other broker here.
    pub fn adopt_uplink(
        &mut self,
        now: Now,
        of: &str,
        uplink: &UplinkImage,
        id: u64,
        options: UplinkOptions,
    ) -> Result<String, AdoptError> {
        self.state.journal.now = now;
        let name = format!("{}@{of}", uplink.broker);
        let mut reader = open(&uplink.image)?;
        let mut image = SessionImage::read(&mut reader, now).map_err(ImageError::from)?;
        let client_id = format!("{UPLINK_PREFIX}{name}");
        if self.state.sessions.find_session(image.session.tenant, &client_id).is_none() {
            image.session.client_id = client_id.into();
            image.subscriptions.clear();
            moving!(self).adopt_session(now, image);
        }
        self.set_uplink(now, &name, options)?;
        let client_id = format!("{of}-{}", uplink.broker);
        self.uplinks.brokers.note_adopted(&name, client_id, id);
        self.drain_uplink(now, &name)?;
        Ok(name)
    }
}

/// The connection of a dead orchestrator to a broker, by the name that [`Engine::adopt_uplink`] has returned.
#[derive(Debug)]
pub struct AdoptedUplink<'a> {
    engine: &'a mut Engine,
    name: &'a str,
}

impl<'a> AdoptedUplink<'a> {
    /// The one with this name. If there is none, it brings nothing.
    pub fn new(engine: &'a mut Engine, name: &'a str) -> Self {
        Self { engine, name }
    }

    /// What the connection of a dead orchestrator has brought since the last call. [`AdoptedUplink::confirm_brought`] says that
    /// the other members have it: until then it is not acknowledged.
    pub fn take_brought(&mut self) -> Brought {
        let engine = &mut *self.engine;
        let adopted = engine.uplinks.brokers.adopted_named(self.name).and_then(Option::as_mut);
        let Some(adopted) = adopted else { return Brought::default() };
        let take = |noted: &mut Vec<u8>| Some(std::mem::take(noted)).filter(|noted| !noted.is_empty()).map(seal);
        let (for_members, for_shards) = (take(&mut adopted.for_members), take(&mut adopted.for_shards));
        let partitions = engine.handover.partitions_of(adopted.transfer);
        Brought { for_members, for_shards, partitions, unanswered: adopted.unanswered.len() }
    }

    /// The other members have so many messages that the connection of a dead orchestrator has brought.
    pub fn confirm_brought(&mut self, now: Now, messages: usize) {
        let engine = &mut *self.engine;
        engine.state.journal.now = now;
        let adopted = engine.uplinks.brokers.adopted_named(self.name).and_then(Option::as_mut);
        let Some(adopted) = adopted else { return };
        let confirmed: Vec<_> = adopted.unanswered.drain(..messages.min(adopted.unanswered.len())).collect();
        for ticket in confirmed {
            answering!(engine).confirm(now, ticket, None, false);
        }
        engine.after_frame(now);
    }
}
