//! Reads a session without importing it.

use crate::identity::Identity;
use crate::ids::{ListenerId, TenantId};
use crate::journal::Numbers;
use crate::link::record::GroupName;
use crate::now::{Millis, Now};
use crate::records::image::read_delivery;
use crate::records::image::read_message;
use crate::records::image::read_subscription_id;
use crate::session::exchange::Exchange;
use crate::session::packet_ids::{Inflight, State};
use crate::session::refused::RefusedMessage;
use crate::session::{CONFIRMED, Delivery, FilterList, InFlight, Membership, Session, Standing, Will};
use crate::topics::address_name::is_group_name;
use crate::topics::{SubscriberOptions, is_own_topic};
use crate::wire::{WireError, WireReader};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use tidegate_mqtt::{PacketId, QoS, TopicFilter};

/// In an image, behind a packet id of a QoS 2 message that the client has sent: the message was taken and not released.
pub(crate) const RECEIVED: u8 = 0;
/// The same, with the name under which the message has crossed to other nodes.
const RECEIVED_NAMED: u8 = 1;
/// The same, and a node may not have got the message.
pub(crate) const RECEIVED_DOUBTFUL: u8 = 2;
/// The message was refused after others had got it. Images of earlier programs do not have it.
pub(crate) const REFUSED: u8 = 3;

/// A session that was read and not yet taken in.
pub(crate) struct SessionImage {
    pub session: Session,
    /// Ordinary subscriptions.
    pub subscriptions: Vec<SubscriptionImage>,
    pub memberships: Vec<Rc<Membership>>,
    /// Groups of the mobile node whose session it is.
    pub node_groups: Vec<String>,
}

/// An ordinary subscription that was read.
pub(crate) struct SubscriptionImage {
    pub filter: String,
    pub options: SubscriberOptions,
    pub subscription_id: u32,
    /// Whether retained messages are still to be brought to it.
    pub fetching: bool,
}

impl SessionImage {
    pub(crate) fn read(reader: &mut WireReader<'_>, now: Now) -> Result<Self, WireError> {
        let (mut session, node_groups) = read_head(reader, now)?;
        read_will(reader, now, &mut session)?;
        let mut subscriptions = Vec::new();
        let mut known = BTreeSet::new();
        for _ in 0..reader.u32("a number of subscriptions")? {
            let subscription = read_subscription(reader)?;
            if !known.insert(subscription.filter.clone()) {
                return Err(WireError { reading: "a subscription" });
            }
            subscriptions.push(subscription);
        }
        let mut memberships = Vec::new();
        let mut known = BTreeSet::new();
        for _ in 0..reader.u32("a number of memberships")? {
            let membership = read_membership(reader, session.tenant)?;
            if !known.insert((membership.share.clone(), membership.filter.clone())) {
                return Err(WireError { reading: "a membership" });
            }
            memberships.push(Rc::new(membership));
        }
        read_flow(reader, now, &mut session, &memberships)?;
        session.settle();
        Ok(Self { session, subscriptions, memberships, node_groups })
    }
}

fn read_head(reader: &mut WireReader<'_>, now: Now) -> Result<(Session, Vec<String>), WireError> {
    let tenant = TenantId(reader.u16("a tenant")?);
    let client_id = reader.text("a client id")?;
    if client_id.is_empty() {
        return Err(WireError { reading: "a client id" });
    }
    let mut session = Session {
        client_id: client_id.into(),
        connection: None,
        filters: FilterList::default(),
        flow: None,
        rare: None,
        expiry_seconds: reader.u32("a session expiry")?,
        tenant,
        receive_maximum: reader.u16("a receive maximum")?,
        listener: ListenerId(reader.u16("a listener")?),
        rights_epoch: 0,
        standing: Standing::Client,
        stored: None,
        identity: if reader.flag("whether there is an identity")? {
            Some(Arc::new(Identity::read(reader)?))
        } else {
            None
        },
    };
    let node_groups = read_standing(reader, &mut session)?;
    let ends_at = now.from_unix(reader.u64("a session's end")?);
    let ends = ends_at != Millis::NEVER;
    // How long a mailbox lasts is not said by its client.
    let agrees = session.standing == Standing::Mailbox || ends == (session.expiry_seconds != u32::MAX);
    if !session.lasts() || !agrees {
        return Err(WireError { reading: "a session that lasts" });
    }
    if ends {
        session.rare_mut().ends_at = Some(ends_at);
    }
    let sent_on_until = now.from_unix(reader.u64("until when a client is expected")?);
    if sent_on_until > now.monotonic {
        session.rare_mut().sent_on_until = Some(sent_on_until);
    }
    Ok((session, node_groups))
}

/// Whether it is a mobile node's, and the groups that the node is in.
fn read_standing(reader: &mut WireReader<'_>, session: &mut Session) -> Result<Vec<String>, WireError> {
    session.standing = match reader.u8("a standing")? {
        0 => Standing::Client,
        1 => Standing::Node,
        2 => Standing::Mailbox,
        _ => return Err(WireError { reading: "a standing" }),
    };
    let wrong = WireError { reading: "a group of a node" };
    let mut groups = BTreeSet::new();
    for _ in 0..reader.u32("a number of groups of a node")? {
        let name = reader.text(wrong.reading)?;
        if !session.standing.is_node() || !is_group_name(name) || !groups.insert(name.to_owned()) {
            return Err(wrong);
        }
    }
    Ok(groups.into_iter().collect())
}

fn read_will(reader: &mut WireReader<'_>, now: Now, session: &mut Session) -> Result<(), WireError> {
    if !reader.flag("a flag")? {
        return Ok(());
    }
    let message = read_message(reader, now, session.tenant)?;
    if is_own_topic(message.topic()) {
        return Err(WireError { reading: "a will's topic" });
    }
    let delay_seconds = reader.u32("a will delay")?;
    let expires = reader.flag("a flag")?;
    let expiry = reader.u32("a will's expiry")?;
    let due = now.from_unix(reader.u64("a will's time")?);
    let rare = session.rare_mut();
    rare.will = Some(Will { message, delay_seconds, expiry_seconds: expires.then_some(expiry) });
    rare.will_due = Some(due);
    Ok(())
}

fn read_options(reader: &mut WireReader<'_>) -> Result<SubscriberOptions, WireError> {
    sound_options(reader.u8("subscription options")?)
}

fn sound_options(bits: u8) -> Result<SubscriberOptions, WireError> {
    let wrong = WireError { reading: "subscription options" };
    let options = SubscriberOptions::from_bits(bits);
    let sound = options.bits() == bits && QoS::from_bits(bits & 3).is_some();
    if sound { Ok(options) } else { Err(wrong) }
}

fn read_subscription(reader: &mut WireReader<'_>) -> Result<SubscriptionImage, WireError> {
    let wrong = WireError { reading: "a topic filter" };
    let filter = reader.text(wrong.reading)?;
    if TopicFilter::new(filter).map_err(|_| wrong)?.shared().is_some() {
        return Err(wrong);
    }
    Ok(SubscriptionImage {
        filter: filter.to_owned(),
        options: read_options(reader)?,
        subscription_id: read_subscription_id(reader, 0)?,
        fetching: reader.flag("a flag")?,
    })
}

fn read_membership(reader: &mut WireReader<'_>, tenant: TenantId) -> Result<Membership, WireError> {
    let (share, filter) = (reader.text("a share name")?, reader.text("a topic filter")?);
    let whole = format!("$share/{share}/{filter}");
    let named = TopicFilter::new(&whole).ok().and_then(|whole| whole.shared().map(|(share, _)| share.len()));
    if named != Some(share.len()) {
        return Err(WireError { reading: "a shared subscription" });
    }
    let kept = reader.u8("subscription options")?;
    sound_options(kept & !CONFIRMED)?;
    let subscription_id = read_subscription_id(reader, 0)?;
    let partition = crate::groups::group_partition(tenant, share, filter);
    Ok(Membership::from_kept(GroupName { tenant, share, filter }, partition, kept, subscription_id))
}

/// A message in flight: the awaited packet, and the packet that is sent again if it does not come.
fn read_sent(
    reader: &mut WireReader<'_>,
    now: Now,
    tenant: TenantId,
    memberships: &[Rc<Membership>],
) -> Result<(PacketId, State, Option<Delivery>), WireError> {
    let id = reader.packet_id()?;
    let (state, qos) = match reader.u8("a state")? {
        0 => (State::AwaitPubAck, QoS::AtLeastOnce),
        1 => (State::AwaitPubRec, QoS::ExactlyOnce),
        2 => return Ok((id, State::AwaitPubComp, None)),
        _ => return Err(WireError { reading: "a state" }),
    };
    let delivery = read_delivery(reader, now, tenant, memberships)?;
    if delivery.qos != qos {
        return Err(WireError { reading: "a QoS that goes with the state" });
    }
    Ok((id, state, Some(delivery)))
}

fn read_flow(
    reader: &mut WireReader<'_>,
    now: Now,
    session: &mut Session,
    memberships: &[Rc<Membership>],
) -> Result<(), WireError> {
    let tenant = session.tenant;
    let flow = session.flow_mut();
    let mut sent = Vec::new();
    for _ in 0..reader.u32("a number of messages in flight")? {
        let (id, state, delivery) = read_sent(reader, now, tenant, memberships)?;
        sent.push((id, state, InFlight { delivery, numbers: Numbers::default() }));
    }
    flow.inflight_bytes = sent.iter().filter_map(|(_, _, item)| item.delivery.as_ref()).map(Delivery::cost).sum();
    flow.inflight = Inflight::from_entries(sent).ok_or(WireError { reading: "packet ids in use once" })?;
    let mut queued = Vec::new();
    for _ in 0..reader.u32("a number of queued messages")? {
        let delivery = read_delivery(reader, now, tenant, memberships)?;
        flow.queue_bytes += delivery.cost();
        queued.push(delivery);
    }
    flow.queue = queued.into_iter().collect();
    read_received(session, reader)
}

/// The packet ids of QoS 2 messages that the client has sent.
fn read_received(session: &mut Session, reader: &mut WireReader<'_>) -> Result<(), WireError> {
    let mut known = BTreeSet::new();
    for _ in 0..reader.u32("a number of received packet ids")? {
        let id = reader.packet_id()?;
        if !known.insert(id) {
            return Err(WireError { reading: "a packet id received once" });
        }
        let kind = reader.u8("state of an exchange")?;
        if kind == REFUSED {
            session.rare_mut().refused.restore(id, RefusedMessage::read(reader)?);
            continue;
        }
        session.flow_mut().received.insert(id);
        let doubtful = match kind {
            RECEIVED => continue,
            RECEIVED_NAMED => false,
            RECEIVED_DOUBTFUL => true,
            _ => return Err(WireError { reading: "state of an exchange" }),
        };
        session.rare_mut().exchanges.push((id, Exchange { doubtful, ..Exchange::read(reader)? }));
    }
    Ok(())
}
