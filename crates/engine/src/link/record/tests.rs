use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::ids::{PartitionId, Partitions};
use crate::link::envelope::tests::{Content, HEAD, connection, content, same};
use crate::link::exchange_word::ExchangeName;
use crate::link::got::Got;
use crate::now::Millis;

/// Everything that any record can carry.
#[derive(Clone, Debug)]
struct Fields {
    kind: Kind,
    texts: [String; 3],
    tenant: u16,
    numbers: [u32; 2],
    long: u64,
    flag: bool,
    connection: ConnectionKey,
    ticket: Option<Ticket>,
    refused: Option<Reason>,
    bytes: Vec<u8>,
    content: Content,
}

macro_rules! kinds {
    ($($kind:ident),* $(,)?) => {
        /// A kind of record, with the kinds of words within. The fixture has their numbers: a new one is behind the
        /// others.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Kind {
            $($kind,)*
        }

        impl Kind {
            const ALL: &[Self] = &[$(Self::$kind,)*];
        }
    };
}

kinds! {
    Publish,
    Confirm,
    Interest,
    InterestBarrier,
    InterestSeen,
    RetainedQuery,
    RetainedItem,
    RetainedEnd,
    GroupJoin,
    GroupLeave,
    GroupPresence,
    Deal,
    Return,
    Park,
    Unpark,
    GiveUp,
    SysQuery,
    SysReport,
    Credit,
    Reserve,
    Reserved,
    Commit,
    Release,
    TransferEnd,
    TransferCut,
    TransferAsk,
    Dealt,
    DealingElsewhere,
    DealingSeats,
    DealingReady,
    DealingDealt,
    GroupExists,
    FleetDenied,
    FleetLimit,
    InterestRefused,
    Crossing,
    Crossed,
    Replayed,
    Mark,
    Marked,
    FleetRoom,
    Counted,
    Exchange,
}

impl Kind {
    /// Names each record without `_`, so that a new one does not compile without a kind, nor a kind without a sample.
    fn of(record: &Record<'_>) -> Self {
        match record {
            Record::Publish(_) => Self::Publish,
            Record::Confirm { .. } => Self::Confirm,
            Record::Interest { .. } => Self::Interest,
            Record::InterestBarrier { .. } => Self::InterestBarrier,
            Record::InterestSeen { .. } => Self::InterestSeen,
            Record::RetainedQuery { .. } => Self::RetainedQuery,
            Record::RetainedItem { .. } => Self::RetainedItem,
            Record::RetainedEnd { .. } => Self::RetainedEnd,
            Record::GroupJoin { .. } => Self::GroupJoin,
            Record::GroupLeave { .. } => Self::GroupLeave,
            Record::GroupPresence { .. } => Self::GroupPresence,
            Record::Deal { .. } => Self::Deal,
            Record::Return { .. } => Self::Return,
            Record::Park { .. } => Self::Park,
            Record::Unpark { .. } => Self::Unpark,
            Record::GiveUp { .. } => Self::GiveUp,
            Record::SysQuery { .. } => Self::SysQuery,
            Record::SysReport { .. } => Self::SysReport,
            Record::Credit { .. } => Self::Credit,
            Record::Reserve { .. } => Self::Reserve,
            Record::Reserved { .. } => Self::Reserved,
            Record::Commit { .. } => Self::Commit,
            Record::Release { .. } => Self::Release,
            Record::Dealt { .. } => Self::Dealt,
            Record::GroupExists { .. } => Self::GroupExists,
            Record::InterestRefused { .. } => Self::InterestRefused,
            Record::Crossing { .. } => Self::Crossing,
            Record::Crossed { .. } => Self::Crossed,
            Record::Replayed => Self::Replayed,
            Record::Mark { .. } => Self::Mark,
            Record::Marked { .. } => Self::Marked,
            Record::Counted { .. } => Self::Counted,
            Record::Exchange(_) => Self::Exchange,
            Record::Transfer(word) => match **word {
                TransferWord::End { .. } => Self::TransferEnd,
                TransferWord::Cut { .. } => Self::TransferCut,
                TransferWord::Ask { .. } => Self::TransferAsk,
            },
            Record::Dealing(word) => match **word {
                DealingWord::Elsewhere { .. } => Self::DealingElsewhere,
                DealingWord::Seats { .. } => Self::DealingSeats,
                DealingWord::Ready { .. } => Self::DealingReady,
                DealingWord::Dealt { .. } => Self::DealingDealt,
            },
            Record::Fleet(FleetWord::Denied { .. }) => Self::FleetDenied,
            Record::Fleet(FleetWord::Limit { .. }) => Self::FleetLimit,
            Record::Fleet(FleetWord::Room { .. }) => Self::FleetRoom,
        }
    }
}

fn ticket() -> impl Strategy<Value = Ticket> {
    (connection(), any::<u32>()).prop_map(|(connection, sequence)| Ticket { connection, sequence })
}

prop_compose! {
    fn fields()(
        kind in proptest::sample::select(Kind::ALL),
        texts in proptest::array::uniform3("[a-zé/+#]{0,20}"),
        (tenant, numbers, long, flag) in (any::<u16>(), any::<[u32; 2]>(), any::<u64>(), any::<bool>()),
        (connection, ticket) in (connection(), proptest::option::of(ticket())),
        refused in proptest::option::of(proptest::sample::select(Reason::ALL)),
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
        content in content(),
    ) -> Fields {
        Fields { kind, texts, tenant, numbers, long, flag, connection, ticket, refused, bytes, content }
    }
}

impl Fields {
    fn record(&self, sequence: u64) -> Record<'_> {
        let tenant = TenantId(self.tenant);
        let [share, filter, after] = &self.texts;
        let [session, not_to] = self.numbers;
        let group = GroupName { tenant, share, filter };
        let member = MemberOptions { options: self.flag.into(), subscription_id: not_to };
        let some_ticket = Ticket { connection: self.connection, sequence: session };
        let envelope = self.content.envelope(sequence);
        let (client, online, connection, ticket) = (self.long, self.flag, self.connection, self.ticket);
        match self.kind {
            Kind::Publish => Record::Publish(envelope),
            Kind::Confirm => Record::Confirm { ticket: some_ticket, refused: self.refused, promises: self.flag },
            Kind::Interest => Record::Interest { tenant, filter, present: online, ticket },
            Kind::InterestBarrier => Record::InterestBarrier { ticket: some_ticket },
            Kind::InterestSeen => Record::InterestSeen { ticket: some_ticket },
            Kind::RetainedQuery => Record::RetainedQuery { fetch: session, tenant, filter, after },
            Kind::RetainedItem => Record::RetainedItem { fetch: session, envelope },
            Kind::RetainedEnd => Record::RetainedEnd { fetch: session, after },
            Kind::GroupJoin => Record::GroupJoin { group, session, client, member, ticket },
            Kind::GroupLeave => Record::GroupLeave { group, session },
            Kind::GroupPresence => Record::GroupPresence { group, session, online },
            Kind::Deal => {
                Record::Deal { session, client, group, member, insists: session % 2 == 0, id: self.long, envelope }
            }
            Kind::Return => Record::Return { group, not_to, of: client, id: self.long, client: client / 2, envelope },
            Kind::Park => Record::Park { connection },
            Kind::Unpark => Record::Unpark { connection },
            Kind::GiveUp => Record::GiveUp { connection },
            Kind::SysQuery => Record::SysQuery { round: session },
            Kind::SysReport => Record::SysReport { round: session, values: &self.bytes },
            Kind::Credit => Record::Credit { bytes: self.long },
            Kind::Reserve => {
                let (qos, waits) = (QoS::AtLeastOnce, self.flag.then_some(connection));
                Record::Reserve { number: session, tenant, topic: share, qos, cost: self.long, waits }
            }
            Kind::Reserved => Record::Reserved { number: session, full: not_to },
            Kind::Commit => Record::Commit { number: session },
            Kind::Release => Record::Release { number: session },
            Kind::TransferEnd => Record::Transfer(Box::new(TransferWord::End { id: self.long })),
            Kind::TransferCut => {
                Record::Transfer(Box::new(TransferWord::Cut { id: self.long, partitions: partitions(client) }))
            }
            Kind::TransferAsk => {
                Record::Transfer(Box::new(TransferWord::Ask { id: self.long, partitions: partitions(client) }))
            }
            Kind::Dealt => Record::Dealt { id: self.long },
            Kind::DealingElsewhere => {
                Record::Dealing(Box::new(DealingWord::Elsewhere { partitions: partitions(client) }))
            }
            Kind::DealingSeats => Record::Dealing(Box::new(DealingWord::Seats {
                partitions: partitions(client),
                round: session,
                all: online,
            })),
            Kind::DealingReady => {
                Record::Dealing(Box::new(DealingWord::Ready { partitions: partitions(client), round: session }))
            }
            Kind::DealingDealt => {
                let name = ExchangeName { origin: client, number: self.long };
                Record::Dealing(Box::new(DealingWord::Dealt { name, partitions: partitions(client) }))
            }
            Kind::Exchange => {
                let name = ExchangeName { origin: client, number: self.long };
                let covered = Got { sessions: partitions(client), groups: partitions(self.long) };
                Record::Exchange(Box::new(ExchangeWord { name, done_below: client / 2, covered }))
            }
            Kind::GroupExists => Record::GroupExists { group },
            Kind::FleetDenied => Record::Fleet(FleetWord::Denied { topic: share }),
            Kind::FleetLimit => {
                Record::Fleet(FleetWord::Limit { packet: session, payload: self.flag.then_some(session) })
            }
            Kind::InterestRefused => Record::InterestRefused {
                ticket: some_ticket,
                filter,
                code: self.refused.map_or(ReasonCode::NotAuthorized, Reason::code),
            },
            Kind::Crossing => Record::Crossing { number: self.long },
            Kind::Crossed => Record::Crossed { number: self.long },
            Kind::Replayed => Record::Replayed,
            Kind::Mark => Record::Mark { number: self.long },
            Kind::Marked => Record::Marked { number: self.long },
            Kind::FleetRoom => Record::Fleet(FleetWord::Room { gate: self.flag.into() }),
            Kind::Counted => {
                let counts = Counts { members: 5, delivered: session, stored: not_to, expired: 1, dropped: 2 };
                Record::Counted { number: self.long, counts }
            }
        }
    }
}

/// Those with a bit, and some others.
fn partitions(bits: u64) -> Partitions {
    (0..64).filter(|at| bits >> at & 1 != 0).map(|at| PartitionId(at * 16 + 3)).collect()
}

/// A record without its envelope, as text.
fn rest(record: &Record<'_>) -> String {
    match record {
        Record::Publish(_) => "publish".into(),
        Record::RetainedItem { fetch, .. } => format!("item {fetch}"),
        Record::Deal { session, client, group, member, insists, id, .. } => {
            format!("deal {session} {client} {group:?} {member:?} {insists} {id}")
        }
        Record::Return { group, not_to, of, id, client, .. } => format!("return {group:?} {not_to} {of} {id} {client}"),
        other => format!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn records_of_all_kinds_are_read_as_they_were_written(all in proptest::collection::vec(fields(), 1..12)) {
        let (mut out, mut shared) = (Vec::new(), Vec::new());
        for fields in &all {
            fields.record(0).write(HEAD, &mut out, &mut shared);
        }
        let (mut reader, mut head, mut payloads) = (WireReader::new(&out), ReadHead::new(HEAD, 0, Millis::NEVER), shared.iter());
        let mut sequence = HEAD.first_sequence;
        for fields in &all {
            let read = Record::read(&mut head, &mut reader, &mut payloads).unwrap();
            let wanted = fields.record(sequence);
            prop_assert_eq!(rest(&read), rest(&wanted));
            match (read.envelope(), wanted.envelope()) {
                (None, None) => {}
                (Some(read), Some(wanted)) => {
                    prop_assert!(same(read, wanted), "{read:?} {wanted:?}");
                    sequence += 1;
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert!(reader.is_empty() && payloads.next().is_none());
    }

    #[test]
    fn a_record_that_ends_early_is_refused(fields in fields(), cut: prop::sample::Index) {
        let (mut out, mut shared) = (Vec::new(), Vec::new());
        fields.record(0).write(HEAD, &mut out, &mut shared);
        let mut reader = WireReader::new(&out[..cut.index(out.len())]);
        prop_assert!(Record::read(&mut ReadHead::new(HEAD, 0, Millis::NEVER), &mut reader, &mut shared.iter()).is_err());
    }

    #[test]
    fn no_bytes_make_reading_panic(kind in 0..46_u8, bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let bytes = [&[kind][..], &bytes].concat();
        let mut reader = WireReader::new(&bytes);
        let mut head = ReadHead::new(HEAD, 0, Millis::NEVER);
        while !reader.is_empty() && Record::read(&mut head, &mut reader, &mut [].iter()).is_ok() {}
    }
}

/// The records of links between nodes of this version, in the fixture of its number.
const LINK_VERSION: u16 = 16;

/// A record of each kind, with everything that is optional or without it.
fn sample(kind: Kind, flag: bool) -> Fields {
    let connection = ConnectionKey { index: 7, generation: 3 };
    Fields {
        kind,
        texts: ["share", "a/+/b", "behind"].map(str::to_owned),
        tenant: 2,
        numbers: [0x0102_0304, 0x0506_0708],
        long: 0x1112_1314_1516_1718,
        flag,
        connection,
        ticket: flag.then_some(Ticket { connection, sequence: 9 }),
        refused: flag.then_some(Reason::NotAuthorized),
        bytes: b"values".to_vec(),
        content: Content::sample(flag),
    }
}

/// Nodes of one version of the link understand each other, so its bytes never change. Another layout needs the next
/// version of the link (in `crates/node`), and with it another fixture, which `UPDATE_FIXTURES=1` writes.
#[test]
fn records_of_a_link_version_have_the_bytes_of_its_fixture() {
    let file = format!("src/link/record/fixtures/link-{LINK_VERSION}.txt");
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let mut written = String::new();
    for (&kind, flag) in Kind::ALL.iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let (mut out, mut shared) = (Vec::new(), Vec::new());
        let fields = sample(kind, flag);
        assert_eq!(Kind::of(&fields.record(0)), kind);
        fields.record(0).write(HEAD, &mut out, &mut shared);
        assert!(shared.is_empty(), "a short payload is in the record");
        let bytes = out.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        writeln!(written, "{} {flag} {bytes}", kind as usize).unwrap();
    }
    if std::env::var_os("UPDATE_FIXTURES").is_some() && !path.exists() {
        std::fs::write(&path, &written).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for (kept, written) in kept.lines().zip(written.lines()) {
        assert_eq!(kept, written, "a changed record needs another version of the link");
    }
    assert_eq!(kept.lines().count(), written.lines().count(), "a new record needs another version of the link");
    for line in kept.lines() {
        let (name, hex) = line.rsplit_once(' ').unwrap();
        let (kind, flag) = name.split_once(' ').unwrap();
        let fields = sample(Kind::ALL[kind.parse::<usize>().unwrap()], flag.parse().unwrap());
        let bytes: Vec<u8> =
            (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect();
        let (mut reader, mut head) = (WireReader::new(&bytes), ReadHead::new(HEAD, 0, Millis::NEVER));
        let read = Record::read(&mut head, &mut reader, &mut [].iter()).unwrap();
        let wanted = fields.record(HEAD.first_sequence);
        assert!(reader.is_empty() && rest(&read) == rest(&wanted), "{line}");
        if let (Some(read), Some(wanted)) = (read.envelope(), wanted.envelope()) {
            assert!(same(read, wanted), "{line}");
        }
    }
}
