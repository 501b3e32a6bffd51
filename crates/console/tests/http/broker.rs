//! A broker that is whatever a test says.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use tidegate_admin::fleet::BrokerAddress;
use tidegate_admin::members::BanChanged;
use tidegate_admin::{
    BanEntry, BanRecord, BanRequest, BanTerms, BrokerState, BrokerStatus, ClientEntry, ClientsRequest, DrainRequest,
    DrainStatus, FleetStatus, KickRequest, MemberAnswer, MemberRequest, MeterRequest, Shares, SlowClient, Story,
    StoryEvent, Subject, TenantUsage, UnbanRequest, WhyRequest,
};
use tidegate_console::api::{BanControl, Control, ControlError, FleetControl, Members, reason_entry};
use tidegate_console::{AdmissionStatus, BridgeEnd, Phase, Status, StatusSource, Unavailable};
use tidegate_engine::{Counters, Gauges, Reason};

/// A broker that is whatever a test says.
#[derive(Default)]
pub(crate) struct Broker {
    pub(crate) phase: AtomicU8,
    pub(crate) block_reason: Mutex<Option<String>>,
    pub(crate) bans: Mutex<Vec<BanEntry>>,
    /// Names and addresses, and other arguments.
    pub(crate) fleet: Mutex<Vec<(String, String)>>,
    pub(crate) drain: Mutex<Option<DrainRequest>>,
    /// Other nodes, if there are any.
    pub(crate) others: Mutex<Option<Others>>,
}

/// A node `b` that gives these answers, and a node `c` that gives none.
#[derive(Clone, Default)]
pub(crate) struct Others {
    pub(crate) answers: Vec<MemberAnswer>,
}

impl Members for Others {
    fn ask(&self, request: &MemberRequest) -> Shares<MemberAnswer> {
        let is_right = |answer: &&MemberAnswer| {
            matches!(
                (request, answer),
                (MemberRequest::Clients(_), MemberAnswer::Clients(_))
                    | (MemberRequest::Why(_), MemberAnswer::Why(_))
                    | (MemberRequest::ChangeBan(_), MemberAnswer::BanChanged(_) | MemberAnswer::Refused(_))
                    | (MemberRequest::Kick(_), MemberAnswer::Kicked(_))
            )
        };
        let answered = self.answers.iter().find(is_right).map(|answer| ("b".to_owned(), answer.clone()));
        Shares { answered: answered.into_iter().collect(), unreachable: vec!["c".to_owned()] }
    }
}

pub(crate) const READY: u8 = 1;

pub(crate) const STOPPING: u8 = 2;

pub(crate) const HUNG: u8 = 3;

pub(crate) fn status() -> Status {
    let mut counters = Counters::default();
    counters.packets_in[1] = 3;
    counters.messages_out[2] = 7;
    counters.dropped[Reason::MessageExpired.number()] = 5;
    counters.connects_accepted = 2;
    counters.deals_not_kept = 8;
    let gauges = Gauges { connections: 2, kept_deals: 9, ..Gauges::default() };
    let admission = AdmissionStatus {
        refused: vec![(Reason::Banned, 4)],
        bans_added: vec![("operator", 1)],
        loop_lag_ms: 1500,
        ..AdmissionStatus::default()
    };
    let fleet = vec![broker_of_fleet(&("b-1".to_owned(), "mqtt://127.0.0.1:1".to_owned()))];
    Status {
        counters,
        gauges,
        slow_sessions: 6,
        admission,
        store: Some(Arc::default()),
        fleet,
        meters: vec![tidegate_console::TenantMeter {
            name: "acme".to_owned(),
            usage: tidegate_engine::Usage { messages_in: 7, connection_ms: 1500, ..Default::default() },
        }],
        tenants: vec![tidegate_console::TenantNumbers {
            name: "acme".to_owned(),
            counts: [3, 4, 5, 6],
            refused: [1, 0, 0, 0],
            quotas: [3, 0, 0, 0],
        }],
        bridges: vec![tidegate_console::BridgeNumbers {
            name: "cloud".to_owned(),
            local: BridgeEnd { connected: true, carried: 8, ..BridgeEnd::default() },
            remote: BridgeEnd { carried: 7, dropped: 9, looped: 2, beyond_window: 5, ..BridgeEnd::default() },
        }],
        pipelines: vec![tidegate_console::PipelineNumbers {
            name: "hot".to_owned(),
            counts: tidegate_admin::PipelineCounts {
                taken: 10,
                delivered: 5,
                filtered: 2,
                failed: 1,
                looped: 1,
                batches: 4,
                retried: 3,
                ..tidegate_admin::PipelineCounts::default()
            },
            batch_ms: 20,
            held: 2,
            waiting: 2,
            lag_ms: 1_500,
        }],
        http: Some(tidegate_console::HttpNumbers {
            requests: vec![("queue", "refused", 3)],
            body_bytes: 11,
            sent: vec![("history", 5, 600)],
            connections_refused: 4,
            queues: 2,
            websockets: 1,
        }),
        coap: Some(tidegate_console::CoapNumbers {
            requests: vec![("publish", "answered", 9)],
            received: (12, 240),
            sent: (10, 120),
            dropped: vec![("unproven", 2)],
            notifications: 8,
            repeated: 7,
            clients: 6,
            sessions: 5,
        }),
        shards: 4,
        ..Status::new(SystemTime::UNIX_EPOCH, "1.2.3")
    }
}

impl StatusSource for Broker {
    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            READY => Phase::Ready,
            STOPPING => Phase::Stopping,
            _ => Phase::Starting,
        }
    }

    fn block_reason(&self) -> Option<String> {
        self.block_reason.lock().unwrap().clone()
    }

    fn status(&self) -> Result<Status, Unavailable> {
        match self.phase.load(Ordering::Relaxed) {
            HUNG => Err(Unavailable),
            _ => Ok(status()),
        }
    }
}

impl Control for Broker {
    fn why(&self, request: &WhyRequest) -> Result<Story, ControlError> {
        let client_id = match &request.subject {
            Subject::Client(name) => name.clone(),
            other => return Err(ControlError::Invalid(format!("{other:?}"))),
        };
        let event = StoryEvent {
            node: String::new(),
            at_ms: 1_700_000_000_000,
            tenant: Some(String::new()),
            kind: "refused".to_owned(),
            shard: 1,
            client: Some(client_id),
            topic: None,
            address: Some("192.0.2.1".to_owned()),
            reason: Some(reason_entry(Reason::BadCredentials)),
            detail: String::new(),
            suppressed: 2,
        };
        Ok(Story { events: vec![event], ..Story::default() })
    }

    fn meter(&self, request: &MeterRequest) -> Result<(Vec<TenantUsage>, bool), ControlError> {
        let usage =
            TenantUsage { tenant: "default".to_owned(), messages_in: request.from_ms, ..TenantUsage::default() };
        Ok((vec![usage], true))
    }

    fn slow(&self, limit: usize) -> Result<Vec<SlowClient>, ControlError> {
        let slow = |number: usize| SlowClient {
            node: String::new(),
            client: format!("slow-{number}"),
            tenant_name: String::new(),
            tenant: 0,
            connected: true,
            unacknowledged_packet_id: Some(7),
            inflight_messages: 1,
            waiting_ms: 31_000,
            queued_messages: 5,
            queued_bytes: 500,
            blocked_publishers: 0,
        };
        Ok((0..limit.min(30)).map(slow).collect())
    }

    fn clients(&self, request: &ClientsRequest, limit: usize) -> Result<Vec<ClientEntry>, ControlError> {
        let client = |number: usize| ClientEntry {
            client: format!("{}-{number}", request.containing),
            user: request.after.clone(),
            filters: vec!["t/#".to_owned(); request.filters.min(4) as usize],
            tenant: request.after_tenant.clone(),
            ..ClientEntry::default()
        };
        Ok((0..limit.min(150)).map(client).collect())
    }

    fn bans(&self) -> impl BanControl {
        self
    }

    fn kick(&self, _: &KickRequest) -> Result<u64, ControlError> {
        Ok(2)
    }

    fn node_name(&self) -> String {
        "a".to_owned()
    }

    fn members(&self) -> Option<Arc<dyn Members>> {
        let others = self.others.lock().unwrap().clone();
        others.map(|others| Arc::new(others) as Arc<dyn Members>)
    }

    fn tenant_rank(&self, name: &str) -> usize {
        name.len()
    }

    fn fleet(&self) -> impl FleetControl {
        self
    }
}

impl BanControl for &Broker {
    fn list(&self) -> Result<Vec<BanEntry>, ControlError> {
        Ok(self.bans.lock().unwrap().clone())
    }

    fn add(&self, request: &BanRequest) -> Result<(BanChanged, BanRecord), ControlError> {
        let ban = BanEntry {
            kind: request.target.kind().to_owned(),
            name: request.target.name().to_owned(),
            tenant: request.tenant.clone(),
            reason: request.reason.clone(),
            origin: "operator".to_owned(),
            since_ms: 0,
            until_ms: request.for_seconds.map(|seconds| seconds * 1000),
            ..BanEntry::default()
        };
        self.bans.lock().unwrap().push(ban);
        let terms = BanTerms { reason: request.reason.clone(), until_ms: None };
        let (target, tenant) = (request.target.clone(), request.tenant.clone());
        let record = BanRecord { target, tenant, changed_ms: 1, ban: Some(terms) };
        Ok((BanChanged { changed: true, closed: 1 }, record))
    }

    fn remove(&self, request: &UnbanRequest) -> Result<(BanChanged, BanRecord), ControlError> {
        let (kind, name) = (request.target.kind(), request.target.name());
        let mut bans = self.bans.lock().unwrap();
        let before = bans.len();
        bans.retain(|ban| ban.kind != kind || ban.name != name || ban.tenant != request.tenant);
        let changed = BanChanged { changed: bans.len() < before, closed: 0 };
        let (target, tenant) = (request.target.clone(), request.tenant.clone());
        Ok((changed, BanRecord { target, tenant, changed_ms: 1, ban: None }))
    }

    fn change(&self, _: &BanRecord) -> Result<BanChanged, ControlError> {
        Ok(BanChanged::default())
    }

    fn records(&self) -> Result<Vec<BanRecord>, ControlError> {
        Ok(Vec::new())
    }
}

impl FleetControl for &Broker {
    fn status(&self) -> Result<FleetStatus, ControlError> {
        let brokers = self.fleet.lock().unwrap().iter().map(broker_of_fleet).collect();
        Ok(FleetStatus {
            orchestrator: "o1".to_owned(),
            policy: "topic-hash".to_owned(),
            clients: 5,
            sessions: 6,
            filters: 2,
            open: true,
            identities: 2,
            owed: 7,
            loop_lag_ms: Some(1),
            messages_in: 10,
            messages_out: 20,
            dropped: Some(3),
            dropped_fleet_full: Some(4),
            dropped_given_up: Some(5),
            brokers,
        })
    }

    fn set_broker(&self, name: &str, settings: &BrokerAddress) -> Result<(), ControlError> {
        self.fleet.lock().unwrap().push((name.to_owned(), settings.address.clone()));
        Ok(())
    }

    fn drain_broker(&self, name: &str) -> Result<(), ControlError> {
        let known = self.fleet.lock().unwrap().iter().any(|(known, _)| known == name);
        if known { Ok(()) } else { Err(ControlError::Refused(format!("no {name}"))) }
    }

    fn remove_broker(&self, name: &str, force: bool) -> Result<(), ControlError> {
        if !force {
            return Err(ControlError::Refused("it owes 3 messages".to_owned()));
        }
        self.fleet.lock().unwrap().retain(|(known, _)| known != name);
        Ok(())
    }

    fn drain(&self, request: &DrainRequest) -> Result<(), ControlError> {
        *self.drain.lock().unwrap() = Some(request.clone());
        Ok(())
    }

    fn end_drain(&self) -> Result<(), ControlError> {
        *self.drain.lock().unwrap() = None;
        Ok(())
    }

    fn drain_status(&self) -> Result<DrainStatus, ControlError> {
        Ok(DrainStatus { draining: self.drain.lock().unwrap().is_some(), clients: 5, owed: 3, kept: 0 })
    }
}

fn broker_of_fleet((name, address): &(String, String)) -> BrokerStatus {
    BrokerStatus {
        name: name.clone(),
        address: address.clone(),
        state: BrokerState::Serving,
        since_ms: 1,
        version: Some("5.0".to_owned()),
        filters: 2,
        filters_pending: 0,
        filters_refused: 0,
        queued: 1,
        in_flight: 2,
        unreturned: 4,
        owed: 7,
        sent: 8,
        acknowledged: 6,
        returned: 2,
        resent: 0,
        received: 9,
        duplicates: 1,
        beyond_window: 0,
        delivered_here: 0,
        set_aside: 0,
        unconfirmed: 0,
        last_error: String::new(),
    }
}
