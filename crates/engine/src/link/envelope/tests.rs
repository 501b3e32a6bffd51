use proptest::prelude::*;

use super::*;
use crate::message::SHARED_PAYLOAD_MIN;

pub(crate) const HEAD: BatchHead =
    BatchHead { from: ShardId(3), opened_at: Millis(77), first_sequence: 41, foreign: None };

/// Everything that an envelope can carry.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    purpose: u8,
    origin: ShardId,
    entered_at: Millis,
    priority: u8,
    hops: u8,
    from: Option<ConnectionKey>,
    ticket: Option<u32>,
    tenant: TenantId,
    topic: String,
    qos: QoS,
    retain: bool,
    properties: Vec<u8>,
    expires_at: Millis,
    payload: Vec<u8>,
    publisher: u64,
}

impl Content {
    /// The content of a fixture, with everything that is optional or without it.
    pub(crate) fn sample(whole: bool) -> Self {
        Self {
            purpose: DELIVER,
            origin: if whole { ShardId(9) } else { HEAD.from },
            entered_at: if whole { Millis(1_000) } else { HEAD.opened_at },
            priority: u8::from(whole),
            hops: u8::from(whole),
            from: whole.then_some(ConnectionKey { index: 4, generation: 5 }),
            ticket: whole.then_some(6),
            tenant: TenantId(2),
            topic: "a/topic".to_owned(),
            qos: if whole { QoS::ExactlyOnce } else { QoS::AtMostOnce },
            retain: whole,
            properties: if whole { vec![1, 1] } else { Vec::new() },
            expires_at: if whole { Millis(2_000) } else { Millis::NEVER },
            payload: b"payload".to_vec(),
            publisher: u64::from(whole),
        }
    }

    pub(crate) fn envelope(&self, sequence: u64) -> Envelope<'_> {
        let ticket = self.ticket.zip(self.from);
        Envelope {
            purpose: self.purpose,
            origin: self.origin,
            sequence,
            entered_at: self.entered_at,
            priority: self.priority,
            hops: self.hops,
            from: self.from,
            ticket: ticket.map(|(sequence, connection)| Ticket { connection, sequence }),
            publication: Publication::new(
                self.tenant,
                &self.topic,
                self.qos,
                self.retain,
                &self.properties,
                self.expires_at,
                &self.payload,
                self.publisher,
            ),
        }
    }
}

pub(crate) fn connection() -> impl Strategy<Value = ConnectionKey> {
    (0..NO_INDEX, any::<u32>()).prop_map(|(index, generation)| ConnectionKey { index, generation })
}

prop_compose! {
    pub(crate) fn content()(
        (purpose, origin, entered_at) in (any::<u8>(), prop_oneof![Just(HEAD.from.0), any::<u16>()],
            prop_oneof![Just(HEAD.opened_at.0), any::<u64>()]),
        (priority, hops) in (prop_oneof![Just(0), any::<u8>()], prop_oneof![Just(0), any::<u8>()]),
        (from, ticket) in (proptest::option::of(connection()), proptest::option::of(any::<u32>())),
        tenant: u16,
        topic in "[a-zé/]{0,40}",
        (qos, retain) in (prop_oneof![Just(QoS::AtMostOnce), Just(QoS::AtLeastOnce), Just(QoS::ExactlyOnce)], any::<bool>()),
        properties in proptest::collection::vec(any::<u8>(), 0..40),
        expires_at in prop_oneof![Just(u64::MAX), any::<u64>()],
        payload in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..100),
            Just(vec![7; SHARED_PAYLOAD_MIN - 1]),
            Just(vec![7; SHARED_PAYLOAD_MIN]),
        ],
        publisher in prop_oneof![Just(0), any::<u64>()],
    ) -> Content {
        Content {
            purpose, origin: ShardId(origin), entered_at: Millis(entered_at), priority, hops, from, ticket,
            tenant: TenantId(tenant), topic, qos, retain, properties, expires_at: Millis(expires_at), payload, publisher,
        }
    }
}

/// Whether two envelopes are equal.
pub(crate) fn same(a: &Envelope<'_>, b: &Envelope<'_>) -> bool {
    let head = |envelope: &Envelope<'_>| {
        let Envelope { purpose, origin, sequence, entered_at, priority, hops, from, ticket, publication: _ } =
            *envelope;
        (purpose, origin, sequence, entered_at, priority, hops, from, ticket)
    };
    let (p, q) = (&a.publication, &b.publication);
    let same_message = p.tenant == q.tenant
        && (p.topic, p.qos, p.retain, p.properties) == (q.topic, q.qos, q.retain, q.properties)
        && (p.expires_at, p.payload, p.publisher) == (q.expires_at, q.payload, q.publisher);
    head(a) == head(b) && same_message
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn a_written_envelope_is_read_back(content in content(), sequence: u64) {
        let mut envelope = content.envelope(sequence);
        let (mut out, mut shared) = (Vec::new(), Vec::new());
        envelope.write(HEAD, &mut out, &mut shared);
        prop_assert_eq!(shared.len(), usize::from(content.payload.len() >= SHARED_PAYLOAD_MIN));
        let mut reader = WireReader::new(&out);
        let mut payloads = shared.iter();
        let read = Envelope::read(HEAD, sequence, &mut reader, &mut payloads).unwrap();
        prop_assert!(same(&envelope, &read), "{envelope:?} {read:?}");
        prop_assert!(reader.is_empty() && payloads.next().is_none());
        // A large payload is the same one, not a copy.
        prop_assert_eq!(read.publication.shared.is_some(), !shared.is_empty());
    }

    #[test]
    fn an_envelope_that_ends_early_is_refused(content in content(), cut: prop::sample::Index) {
        let (mut out, mut shared) = (Vec::new(), Vec::new());
        content.envelope(0).write(HEAD, &mut out, &mut shared);
        let mut reader = WireReader::new(&out[..cut.index(out.len())]);
        prop_assert!(Envelope::read(HEAD, 0, &mut reader, &mut shared.iter()).is_err());
        if !shared.is_empty() {
            prop_assert!(Envelope::read(HEAD, 0, &mut WireReader::new(&out), &mut [].iter()).is_err());
        }
    }

    #[test]
    fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), versioned: bool) {
        let mut bytes = bytes;
        if versioned && let Some(first) = bytes.first_mut() {
            *first = ENVELOPE_VERSION;
        }
        let _ = Envelope::read(HEAD, 0, &mut WireReader::new(&bytes), &mut [].iter());
    }
}

#[test]
fn another_version_is_refused() {
    let publication = Publication::new(TenantId(0), "t", QoS::AtMostOnce, false, &[], Millis::NEVER, &[], 0);
    let mut envelope = Envelope {
        purpose: DELIVER,
        origin: HEAD.from,
        sequence: 0,
        entered_at: HEAD.opened_at,
        priority: 0,
        hops: 0,
        from: None,
        ticket: None,
        publication,
    };
    let mut out = Vec::new();
    envelope.write(HEAD, &mut out, &mut Vec::new());
    assert_eq!(out.len(), FIXED_LEN + 1, "values that a fresh message shares with its batch are not repeated");
    out[0] += 1;
    assert!(Envelope::read(HEAD, 0, &mut WireReader::new(&out), &mut [].iter()).is_err());
}
