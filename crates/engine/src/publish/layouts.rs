//! Outgoing PUBLISH packets, encoded once per layout and copied to each receiver.
//!
//! Receivers differ in version and QoS; everything else of the packet is the same for all of them, but for the two
//! bytes of the packet identifier and a few bits of the first byte, which are patched into each copy.

use tidegate_mqtt::{PacketId, PublishHead, QoS, Version};

use crate::connection::output::Output;
use crate::message::Publication;
use crate::now::Millis;
use crate::topics::origin::without_origin;

/// How one receiver wants a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape<'a> {
    pub version: Version,
    pub qos: QoS,
    pub retain: bool,
    pub dup: bool,
    pub packet_id: Option<PacketId>,
    pub subscription_ids: &'a [u32],
    /// Topic alias, and whether it replaces the topic.
    pub alias: Option<(u16, bool)>,
    /// True if the receiver gets the publisher of the message.
    pub is_for_hub: bool,
}

/// One encoded layout.
#[derive(Debug, Default)]
struct Layout {
    /// The packet, without its payload when that is shared.
    bytes: Vec<u8>,
    /// Position of the packet identifier.
    id_at: Option<usize>,
    /// Whether it belongs to the present publication.
    ready: bool,
}

/// The layouts of the publication that is being dispatched.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    slots: [Layout; 4],
    /// True if there is a single receiver: a layout would only be one more copy.
    single: bool,
    /// Memory for the properties of a message that are passed on to its receivers.
    pub(crate) properties: Vec<u8>,
}

/// A scratch layout that grew beyond this is freed after its use.
const LAYOUT_KEEP_BYTES: usize = 64 * 1024;

const FIRST_BYTE_PUBLISH: u8 = 0x30;

fn first_byte(shape: &Shape<'_>) -> u8 {
    FIRST_BYTE_PUBLISH | u8::from(shape.dup) << 3 | (shape.qos as u8) << 1 | u8::from(shape.retain)
}

/// Seconds left of a message's life, rounded up, or `None` when it has no end ([MQTT-3.3.2-6]).
fn remaining_seconds(expires_at: Millis, now: Millis) -> Option<u32> {
    (expires_at != Millis::NEVER).then(|| expires_at.since(now).div_ceil(1000).min(u64::from(u32::MAX)) as u32)
}

#[inline]
fn head<'a>(publication: &Publication<'a>, shape: &Shape<'a>, now: Millis) -> PublishHead<'a> {
    let properties = if shape.is_for_hub { publication.properties } else { without_origin(publication.properties) };
    let topic = if shape.alias.is_some_and(|(_, replaces)| replaces) { "" } else { publication.topic };
    PublishHead {
        version: shape.version,
        dup: shape.dup,
        qos: shape.qos,
        retain: shape.retain,
        topic,
        packet_id: shape.packet_id.map_or(0, PacketId::get),
        forwarded_properties: properties,
        message_expiry: remaining_seconds(publication.expires_at, now),
        topic_alias: shape.alias.map(|(alias, _)| alias),
        subscription_identifiers: shape.subscription_ids,
    }
}

/// Length of the packet for one receiver.
pub(crate) fn packet_len(publication: &Publication<'_>, shape: &Shape<'_>, now: Millis) -> usize {
    head(publication, shape, now).encoded_len(publication.payload.len())
}

/// Bytes of a PUBLISH packet without topic, forwarded properties, subscription identifiers and payload, at most: the first
/// byte, two lengths of four bytes, the length of the topic, the packet identifier, the expiry with its identifier, and
/// the same of a topic alias.
const OTHER_BYTES_MAX: usize = 1 + 4 + 4 + 2 + 2 + 5 + 3;
/// Bytes of a subscription identifier with its property identifier, at most.
const SUBSCRIPTION_ID_BYTES_MAX: usize = 1 + 4;

/// Whether the packet for a receiver is certainly no longer than `max` bytes. It spares the exact length, which few
/// messages need.
#[inline]
pub(crate) fn fits_surely(publication: &Publication<'_>, subscription_ids: &[u32], max: u32) -> bool {
    let parts = publication.topic.len() + publication.properties.len() + publication.payload.len();
    parts + subscription_ids.len() * SUBSCRIPTION_ID_BYTES_MAX + OTHER_BYTES_MAX <= max as usize
}

impl Layouts {
    /// Prepares for the next publication, with `receivers` of it here.
    #[inline]
    pub(crate) fn begin(&mut self, receivers: usize) {
        for layout in &mut self.slots {
            layout.ready = false;
        }
        self.single = receivers == 1;
    }

    /// Frees the buffers of large messages.
    pub(crate) fn trim(&mut self) {
        for layout in &mut self.slots {
            if layout.bytes.capacity() > LAYOUT_KEEP_BYTES {
                *layout = Layout::default();
            }
        }
    }

    #[inline]
    fn shareable(&self, shape: &Shape<'_>) -> bool {
        !self.single && shape.subscription_ids.is_empty() && shape.alias.is_none() && !shape.is_for_hub
    }

    /// Length of the packet for a receiver. A shape's packet id need not be known yet.
    #[inline]
    pub(crate) fn packet_len(&mut self, publication: &mut Publication<'_>, shape: &Shape<'_>, now: Millis) -> usize {
        if !self.shareable(shape) {
            return packet_len(publication, shape, now);
        }
        let layout = self.layout(publication, shape, now);
        let inline = layout.bytes.len();
        if publication.shared.is_some() { inline + publication.payload.len() } else { inline }
    }

    #[inline]
    fn layout(&mut self, publication: &mut Publication<'_>, shape: &Shape<'_>, now: Millis) -> &Layout {
        let slot = usize::from(shape.version.is_v5()) << 1 | usize::from(shape.qos != QoS::AtMostOnce);
        let layout = &mut self.slots[slot];
        if !layout.ready {
            layout.bytes.clear();
            layout.id_at = head(publication, shape, now).encode(publication.payload.len(), &mut layout.bytes);
            if publication.share().is_none() {
                layout.bytes.extend_from_slice(publication.payload);
            }
            layout.ready = true;
        }
        layout
    }

    /// Appends the packet for a receiver to its output.
    #[inline]
    pub(crate) fn append(
        &mut self,
        publication: &mut Publication<'_>,
        shape: &Shape<'_>,
        now: Millis,
        output: &mut Output,
    ) {
        if self.shareable(shape) {
            self.append_layout(publication, shape, now, output);
            return;
        }
        head(publication, shape, now).encode(publication.payload.len(), output.buffer());
        match publication.share() {
            Some(shared) => output.push_shared(shared),
            None => output.buffer().extend_from_slice(publication.payload),
        }
    }

    /// Appends a copy of the layout. Not inlined, so that the path of a message to one receiver is short, and its shape
    /// stays in registers.
    #[inline(never)]
    fn append_layout(
        &mut self,
        publication: &mut Publication<'_>,
        shape: &Shape<'_>,
        now: Millis,
        output: &mut Output,
    ) {
        let layout = self.layout(publication, shape, now);
        let buffer = output.buffer();
        let start = buffer.len();
        buffer.extend_from_slice(&layout.bytes);
        buffer[start] = first_byte(shape);
        if let (Some(at), Some(id)) = (layout.id_at, shape.packet_id) {
            buffer[start + at..start + at + 2].copy_from_slice(&id.get().to_be_bytes());
        }
        if let Some(shared) = publication.share() {
            output.push_shared(shared);
        }
    }
}
