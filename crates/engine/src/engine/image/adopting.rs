//! Connections to brokers with the session of a dead orchestrator.
//!
//! A broker keeps messages for the session of the dead orchestrator, and the store of the dead orchestrator has messages
//! that no broker has. The orchestrator that takes over connects to the broker with that session. It sends the pending
//! messages of the session and no others, and delivers the broker's messages to the sessions that it took over.

use std::collections::BTreeSet;

use crate::cluster::transfer::error::ImageError;
use crate::engine::Engine;
use crate::engine::image::forwarding::OrchestratorMoves;
use crate::flows::broker_link::adopted::put_first_or_next;
use crate::flows::contexts::imaging;
use crate::flows::contexts::moving;
use crate::ids::{BROKER_LINK_PREFIX, Partitions, SessionKey};
use crate::image::noted::{each_noted, put_noted};
use crate::image::read_session::SessionImage;
use crate::image::{begin, open, seal};
use crate::now::Now;
use crate::orchestrator::broker_link::adopted::{Adopted, Awaiting, has_active};
use crate::orchestrator::broker_link::former::is_of_dead;
use crate::settings::broker_links::{BrokerLinkError, BrokerLinkOptions};

/// The image of a dead orchestrator's session at a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerLinkImage {
    /// The name of the broker.
    pub broker: String,
    /// The image of the session; `None` where the session is here, from an earlier life of this process.
    pub image: Option<Vec<u8>>,
    /// Whether the dead orchestrator had partitions to forward that had left it.
    pub forwards: bool,
    /// Messages for these partitions that the dead orchestrator had delivered without a broker. No broker brings them
    /// again. Empty without any, and where they are here from an earlier life of this process.
    pub last_copies: Vec<u8>,
}

/// Messages that the connection of a dead orchestrator has delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brought {
    /// For the members that have taken over its other partitions ([`OrchestratorMoves::take_piece`]).
    pub for_members: Option<Vec<u8>>,
    /// For the new homes of partitions that had left the dead orchestrator.
    pub for_left: Option<Vec<u8>>,
    /// For the other shards of this process ([`OrchestratorMoves::deliver_forwarded`]).
    pub for_shards: Option<Vec<u8>>,
    /// The partitions that this process has taken over.
    pub partitions: Partitions,
    /// Messages that the broker waits to have acknowledged.
    pub unanswered: usize,
}

/// Why an orchestrator cannot connect with the session of a dead one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdoptError {
    /// The image cannot be read.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The broker is not in the fleet of this orchestrator.
    #[error(transparent)]
    BrokerLink(#[from] BrokerLinkError),
}

/// The name in the fleet of a connection of the dead orchestrator `of`.
fn name_of(of: &str, broker_link: &BrokerLinkImage) -> String {
    format!("{}@{of}", broker_link.broker)
}

impl OrchestratorMoves<'_> {
    /// Images of the sessions at brokers, for an engine that was restored from the store of a dead orchestrator.
    pub fn broker_link_images(&self, now: Now) -> Vec<BrokerLinkImage> {
        let engine = &*self.engine;
        let broker_links = engine.state.sessions.iter().filter(|(_, session)| session.is_broker_link());
        let images = broker_links.filter_map(|(key, session)| {
            let broker = session.client_id.strip_prefix(BROKER_LINK_PREFIX)?;
            let mut image = begin();
            imaging!(engine).put_session(&mut image, now, (SessionKey(key), session), None);
            let (broker, image) = (broker.to_owned(), Some(seal(image)));
            Some(BrokerLinkImage { broker, image, forwards: false, last_copies: Vec::new() })
        });
        let mut images: Vec<BrokerLinkImage> = images.collect();
        images.sort_unstable_by(|one, other| one.broker.cmp(&other.broker));
        let mut done = BTreeSet::new();
        for broker_link in &mut images {
            // One of the connections of an orchestrator brings all its copies.
            let of = Some(&*broker_link.broker).filter(|name| is_of_dead(name)).and_then(|name| name.rsplit_once('@'));
            let of = of.map(|(_, of)| of.to_owned());
            if !done.contains(&of) {
                broker_link.last_copies = engine.handover.forwarding.put_copies(now, of.as_deref());
                done.insert(of);
            }
        }
        images
    }

    /// Keeps the session of the dead orchestrator `of` at a broker that is not in the fleet, for a later
    /// [`OrchestratorMoves::adopt_broker_link`] without an image. Returns the name of its connection.
    /// [`FleetCalls::continue_adopted`](crate::FleetCalls::continue_adopted) names the sessions that stay.
    ///
    /// # Errors
    /// When the image cannot be read.
    pub fn keep_broker_link(
        &mut self,
        now: Now,
        of: &str,
        broker_link: &BrokerLinkImage,
    ) -> Result<String, ImageError> {
        self.engine.state.journal.now = now;
        let name = name_of(of, broker_link);
        if broker_link.forwards && !broker_link.last_copies.is_empty() {
            let Engine { state, handover, .. } = &mut *self.engine;
            each_noted(now, &broker_link.last_copies, |id, message| {
                let copy = handover.forwarding.stored.put_of_dead(&mut state.journal, of, id, message);
                handover.forwarding.take_copy(now, copy);
            })?;
        }
        let Some(image) = &broker_link.image else { return Ok(name) };
        let mut reader = open(image)?;
        let mut image = SessionImage::read(&mut reader, now)?;
        let client_id = format!("{BROKER_LINK_PREFIX}{name}");
        if self.engine.state.sessions.find_session(image.session.tenant, &client_id).is_none() {
            image.session.client_id = client_id.into();
            image.subscriptions.clear();
            let engine = &mut *self.engine;
            moving!(engine).adopt_session(now, image);
            self.engine.fleet().deal_none_to_kept(now);
        }
        Ok(name)
    }

    /// Connects to a broker with the session of the dead orchestrator `of`, and returns the name of this connection in the
    /// fleet. The broker gets the pending messages of that session and no others. Its messages are delivered to the
    /// sessions that the transfer `id` brought ([`OrchestratorMoves::begin_awaiting`]), and to all other receivers
    /// that have not got them. A connection that is worked off already continues, for the sessions of this transfer as well.
    ///
    /// # Errors
    /// When the image cannot be read, or the fleet has no other broker yet. The session is kept then for a later call
    /// without an image, as by [`OrchestratorMoves::keep_broker_link`].
    pub fn adopt_broker_link(
        &mut self,
        now: Now,
        of: &str,
        broker_link: &BrokerLinkImage,
        id: u64,
        options: BrokerLinkOptions,
    ) -> Result<String, AdoptError> {
        let name = name_of(of, broker_link);
        if let Some(adopted) = self.engine.broker_links.brokers.adopted_named(&name).and_then(Option::as_mut) {
            // Another home of partitions of the dead one has died before it had them. The messages at hand are for them, too.
            adopted.transfers.push(id);
            return Ok(name);
        }
        self.keep_broker_link(now, of, broker_link)?;
        if !has_active(&self.engine.broker_links.brokers.all) {
            return Err(BrokerLinkError::Last(name).into());
        }
        self.engine.fleet().set_broker_link(now, &name, options)?;
        let client_id = format!("{of}-{}", broker_link.broker);
        if let Some(adopted) = self.engine.broker_links.brokers.adopted_named(&name) {
            *adopted = Some(Box::new(Adopted::new(client_id, id, broker_link.forwards, broker_link.image.is_none())));
        }
        self.note_copies_of_dead(now, of, &name);
        self.engine.fleet().drain_broker_link(now, &name)?;
        Ok(name)
    }

    /// Notes the messages that a dead orchestrator had delivered without a broker as if its connection had brought them.
    fn note_copies_of_dead(&mut self, now: Now, of: &str, name: &str) {
        let engine = &mut *self.engine;
        let adopted = engine.broker_links.brokers.adopted_named(name).and_then(Option::as_mut);
        let Some((for_left, unanswered)) = adopted.and_then(|it| Some((it.for_left.as_mut()?, &mut it.unanswered)))
        else {
            return;
        };
        for copy in engine.handover.forwarding.take_copies_of_dead(of) {
            put_first_or_next(for_left, now, copy.id.as_ref(), &copy.message);
            unanswered.extend(copy.number.map(Awaiting::Copy));
        }
    }

    /// The messages that the connection of a dead orchestrator has delivered since the last call. They are acknowledged
    /// after [`OrchestratorMoves::confirm_brought`].
    pub fn take_brought(&mut self, name: &str) -> Brought {
        let engine = &mut *self.engine;
        let adopted = engine.broker_links.brokers.adopted_named(name).and_then(Option::as_mut);
        let Some(adopted) = adopted else { return Brought::default() };
        let take = |noted: &mut Vec<u8>| Some(std::mem::take(noted)).filter(|noted| !noted.is_empty()).map(seal);
        let (for_members, for_shards) = (take(&mut adopted.for_members), take(&mut adopted.for_shards));
        let for_left = adopted.for_left.as_mut().and_then(take);
        let of_transfers = adopted.transfers.iter().map(|id| engine.handover.partitions_of(*id));
        let partitions = of_transfers.fold(Partitions::NONE, Partitions::with);
        Brought { for_members, for_left, for_shards, partitions, unanswered: adopted.unanswered.len() }
    }

    /// Delivers messages that the connection of a dead orchestrator has brought to sessions on this shard, which has the
    /// broker links, that do not have them: sessions of partitions that have come here. Returns the messages for the other
    /// shards, and the partitions of their receivers. A message without an id went to all sessions that were here.
    ///
    /// # Errors
    /// When the bytes cannot be read.
    pub fn deliver_brought(
        &mut self,
        now: Now,
        partitions: Partitions,
        messages: &[u8],
    ) -> Result<(Partitions, Vec<u8>), ImageError> {
        let engine = &mut *self.engine;
        engine.state.journal.now = now;
        let (mut all, mut out) = (Partitions::NONE, begin());
        each_noted(now, messages, |id, message| {
            let Some(id) = id else { return };
            let is_here = engine.broker_links.settlement.has_seen(id);
            let wanted = engine.handover.wanting(&mut engine.state.journal, id, message, is_here, partitions);
            if wanted.is_empty() {
                return;
            }
            all = all.with(wanted);
            put_noted(&mut out, now, Some(id), message);
            moving!(engine).pass_on_to(now, message, wanted);
        })?;
        engine.after_frame(now);
        Ok((all, seal(out)))
    }

    /// The orchestrator of this connection is back: the broker keeps the session when the connection is removed, and the next
    /// messages for partitions that are there.
    pub fn hand_back(&mut self, name: &str) {
        if let Some(adopted) = self.engine.broker_links.brokers.adopted_named(name).and_then(Option::as_mut) {
            adopted.is_handed_back = true;
        }
    }

    /// The other members have stored this number of messages of the connection of a dead orchestrator: they are
    /// acknowledged.
    pub fn confirm_brought(&mut self, now: Now, name: &str, messages: usize) {
        let engine = &mut *self.engine;
        engine.state.journal.now = now;
        let adopted = engine.broker_links.brokers.adopted_named(name).and_then(Option::as_mut);
        let Some(adopted) = adopted else { return };
        let confirmed: Vec<_> = adopted.unanswered.drain(..messages.min(adopted.unanswered.len())).collect();
        self.end_awaiting_homes(now, confirmed);
    }
}
