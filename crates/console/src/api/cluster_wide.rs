//! Requests that a node of a cluster answers for all nodes: it carries them out itself, asks the others, and merges.

use std::convert::Infallible;
use std::sync::Arc;
use std::thread;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use tidegate_admin::members::{BanChanged, MemberAnswer, MemberRequest, Shares};
use tidegate_admin::{
    Amount, BanList, BanRequest, Banned, Clients, ClientsRequest, KickRequest, Kicked, MeterRequest, Metered, Reloaded,
    SlowClients, SlowRequest, Story, Totals, UnbanRequest, Unbanned, WhyRequest, read_body, read_query,
};

use super::answers::answer;
use super::body::JsonBody;
use super::changes::Operations;
use super::{BanControl as _, Control, ControlError, waiting};

/// The other members of a cluster.
pub trait Members: Send + Sync {
    /// Asks all of them, and waits for their answers for a bounded time.
    fn ask(&self, request: &MemberRequest) -> Shares<MemberAnswer>;
}

pub(super) async fn clients<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let request = read_query::<ClientsRequest>(query.as_deref());
    answer(waiting(move || all_clients(&*source, request?)).await)
}

fn all_clients<S: Control>(source: &S, request: ClientsRequest) -> Result<Clients, ControlError> {
    let limit = request.limit as usize;
    let own = page(source, &request)?;
    let shares = ask_all(source, &MemberRequest::Clients(request), MemberAnswer::Clients(own));
    let shares = shares.only(|share| match share {
        MemberAnswer::Clients(clients) => Ok(clients),
        other => Err(refusal_of(other)),
    });
    Ok(shares
        .map_err(|refusal| ControlError::Refused(refusal.to_string()))?
        .merge(limit, |tenant| source.tenant_rank(tenant)))
}

/// A page of the clients of this process.
fn page<S: Control>(source: &S, request: &ClientsRequest) -> Result<Clients, ControlError> {
    let limit = request.limit as usize;
    // One more tells whether there are more.
    let mut clients = source.clients(request, limit + 1)?;
    let more = clients.len() > limit;
    clients.truncate(limit);
    Ok(Clients { clients, more, ..Clients::default() })
}

pub(super) async fn why<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let request = read_query::<WhyRequest>(query.as_deref());
    answer(waiting(move || whole_story(&*source, request?)).await)
}

fn whole_story<S: Control>(source: &S, request: WhyRequest) -> Result<Story, ControlError> {
    let own = source.why(&request)?;
    let shares = ask_all(source, &MemberRequest::Why(request), MemberAnswer::Why(own));
    let shares = shares.only(|share| match share {
        MemberAnswer::Why(story) => Ok(story),
        other => Err(refusal_of(other)),
    });
    Ok(shares.map_err(|refusal| ControlError::Refused(refusal.to_string()))?.merge())
}

pub(super) async fn slow<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let request = read_query::<SlowRequest>(query.as_deref());
    answer(waiting(move || all_slow(&*source, request?)).await)
}

fn all_slow<S: Control>(source: &S, request: SlowRequest) -> Result<SlowClients, ControlError> {
    let limit = request.limit as usize;
    let own = SlowClients { clients: source.slow(limit)?, ..SlowClients::default() };
    let shares = ask_all(source, &MemberRequest::Slow(request), MemberAnswer::Slow(own));
    let shares = shares.only(|share| match share {
        MemberAnswer::Slow(slow) => Ok(slow),
        other => Err(refusal_of(other)),
    });
    Ok(shares.map_err(|refusal| ControlError::Refused(refusal.to_string()))?.merge(limit))
}

pub(super) async fn meter<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let request = read_query::<MeterRequest>(query.as_deref());
    answer(waiting(move || meter_all(&*source, request?)).await)
}

fn meter_all<S: Control>(source: &S, request: MeterRequest) -> Result<Metered, ControlError> {
    let own = metered(source, &request)?;
    let shares = ask_all(source, &MemberRequest::Meter(request), MemberAnswer::Metered(own));
    let shares = shares.only(|share| match share {
        MemberAnswer::Metered(metered) => Ok(metered),
        other => Err(refusal_of(other)),
    });
    Ok(shares.map_err(|refusal| ControlError::Refused(refusal.to_string()))?.merge())
}

/// The usage of tenants in this process.
fn metered<S: Control>(source: &S, request: &MeterRequest) -> Result<Metered, ControlError> {
    let (tenants, kept) = source.meter(request)?;
    let in_memory = if kept { Vec::new() } else { vec![source.node_name()] };
    Ok(Metered { tenants, in_memory, ..Metered::default() })
}

pub(super) async fn totals<S: Control>(State(source): State<Arc<S>>) -> Response {
    answer(waiting(move || all_totals(&*source)).await)
}

fn all_totals<S: Control>(source: &S) -> Result<Totals, ControlError> {
    let own = amount(source)?;
    let shares = ask_all(source, &MemberRequest::Totals, MemberAnswer::Totals(own)).those(|share| match share {
        MemberAnswer::Totals(amount) => Ok(amount),
        other => Err(refusal_of(other)),
    });
    Ok(shares.merge())
}

/// The amounts at this process.
fn amount<S: Control>(source: &S) -> Result<Amount, ControlError> {
    let status = source.status()?;
    let (counters, gauges) = (&status.counters, &status.gauges);
    Ok(Amount {
        clients_connected: gauges.sessions_connected,
        sessions: gauges.sessions_connected + gauges.sessions_disconnected,
        subscriptions: gauges.subscriptions + gauges.shared_subscriptions,
        retained_messages: gauges.retained_messages,
        queued_messages: gauges.queued_messages,
        queued_bytes: gauges.queued_bytes,
        messages_in: counters.messages_in.iter().sum(),
        messages_out: counters.messages_out.iter().sum(),
        messages_dropped: counters.dropped_total(),
        bytes_in: counters.bytes_in,
        bytes_out: counters.bytes_out,
    })
}

pub(super) async fn bans<S: Control>(State(source): State<Arc<S>>) -> Response {
    answer(waiting(move || all_bans(&*source)).await)
}

fn all_bans<S: Control>(source: &S) -> Result<BanList, ControlError> {
    let own = BanList { bans: source.bans().list()?, ..BanList::default() };
    let shares = ask_all(source, &MemberRequest::Bans, MemberAnswer::Bans(own)).only(|share| match share {
        MemberAnswer::Bans(bans) => Ok(bans),
        other => Err(refusal_of(other)),
    });
    Ok(shares.map_err(|refusal| ControlError::Refused(refusal.to_string()))?.merge())
}

pub(super) async fn ban<S: Control>(State(source): State<Arc<S>>, JsonBody(body): JsonBody) -> Response {
    let request = read_body::<BanRequest>(&body);
    answer(waiting(move || ban_everywhere(&*source, &request?)).await)
}

fn ban_everywhere<S: Control>(source: &S, request: &BanRequest) -> Result<Banned, ControlError> {
    let (changed, record) = source.bans().add(request)?;
    let shares = ask_all(source, &MemberRequest::ChangeBan(record), MemberAnswer::BanChanged(changed));
    Ok(changes(shares)?.banned())
}

pub(super) async fn unban<S: Control>(State(source): State<Arc<S>>, RawQuery(query): RawQuery) -> Response {
    let request = read_query::<UnbanRequest>(query.as_deref());
    answer(waiting(move || unban_everywhere(&*source, &request?)).await)
}

fn unban_everywhere<S: Control>(source: &S, request: &UnbanRequest) -> Result<Unbanned, ControlError> {
    let (changed, record) = source.bans().remove(request)?;
    let shares = ask_all(source, &MemberRequest::ChangeBan(record), MemberAnswer::BanChanged(changed));
    let outcome = changes(shares)?.unbanned();
    if outcome.removed { Ok(outcome) } else { Err(ControlError::Refused("there is no such ban".to_owned())) }
}

pub(super) async fn kick<S: Control>(State(source): State<Arc<S>>, JsonBody(body): JsonBody) -> Response {
    let request = read_body::<KickRequest>(&body);
    answer(waiting(move || kick_everywhere(&*source, request?)).await)
}

fn kick_everywhere<S: Control>(source: &S, request: KickRequest) -> Result<Kicked, ControlError> {
    let own = source.kick(&request)?;
    let shares = ask_all(source, &MemberRequest::Kick(request), MemberAnswer::Kicked(own));
    Ok(changes(shares)?.kicked())
}

fn changes(shares: Shares<MemberAnswer>) -> Result<Shares<BanChanged>, ControlError> {
    let shares = shares.only(|share| match share {
        MemberAnswer::BanChanged(changed) => Ok(changed),
        MemberAnswer::Kicked(closed) => Ok(BanChanged { changed: closed > 0, closed }),
        other => Err(refusal_of(other)),
    });
    shares.map_err(|why| ControlError::Refused(format!("{why}; it was carried out on the other nodes")))
}

/// Reloads on all nodes.
pub(crate) fn reload_everywhere<S: Control>(source: &S, operations: &dyn Operations) -> Reloaded {
    let (own, mut shares) = reload_at_once(source.members().as_deref(), operations);
    shares.answered.push((source.node_name(), MemberAnswer::Reloaded(own)));
    let shares = shares.only(|share| match share {
        MemberAnswer::Reloaded(outcome) => Ok::<_, Infallible>(outcome),
        other => Ok(Reloaded::refused(&refusal_of(other))),
    });
    match shares {
        Ok(shares) => shares.merge(&source.node_name()),
        Err(refusal) => Reloaded::refused(&refusal.to_string()),
    }
}

/// Reloads here and on the others at the same time: one after the other could take longer than the client waits for
/// its answer, although the configuration is in force by then.
fn reload_at_once(members: Option<&dyn Members>, operations: &dyn Operations) -> (Reloaded, Shares<MemberAnswer>) {
    let Some(members) = members else { return (operations.reload(), Shares::default()) };
    thread::scope(|scope| {
        let own = scope.spawn(|| operations.reload());
        let others = members.ask(&MemberRequest::Reload);
        let own = own.join();
        (own.unwrap_or_else(|_| Reloaded::refused("the reload did not come to its end; see the log")), others)
    })
}

/// The answers of all members, this one's included.
pub(super) fn ask_all<S: Control>(source: &S, request: &MemberRequest, own: MemberAnswer) -> Shares<MemberAnswer> {
    let mut shares = source.members().map(|members| members.ask(request)).unwrap_or_default();
    shares.answered.push((source.node_name(), own));
    shares
}

fn refusal_of(share: MemberAnswer) -> String {
    match share {
        MemberAnswer::Refused(why) => why,
        _ => "it answers something else than it was asked; do all nodes have the same release?".to_owned(),
    }
}

/// Answers another member for this process alone.
pub fn answer_member<S: Control>(source: &S, operations: &dyn Operations, request: MemberRequest) -> MemberAnswer {
    let answered = match request {
        MemberRequest::Clients(request) => page(source, &request).map(MemberAnswer::Clients),
        MemberRequest::Why(request) => source.why(&request).map(MemberAnswer::Why),
        MemberRequest::Slow(request) => source
            .slow(request.limit as usize)
            .map(|clients| MemberAnswer::Slow(SlowClients { clients, ..SlowClients::default() })),
        MemberRequest::Totals => amount(source).map(MemberAnswer::Totals),
        MemberRequest::Bans => {
            source.bans().list().map(|bans| MemberAnswer::Bans(BanList { bans, ..BanList::default() }))
        }
        MemberRequest::ChangeBan(record) => source.bans().change(&record).map(MemberAnswer::BanChanged),
        MemberRequest::TakeBans(records) => {
            source.bans().change_all(&records);
            Ok(MemberAnswer::BansTaken)
        }
        MemberRequest::BanRecords => source.bans().records().map(MemberAnswer::BanRecords),
        MemberRequest::Kick(request) => source.kick(&request).map(MemberAnswer::Kicked),
        MemberRequest::Meter(request) => metered(source, &request).map(MemberAnswer::Metered),
        MemberRequest::Hub => source.hub().map(MemberAnswer::Hub),
        MemberRequest::OrderPipeline(order) => source.order_pipeline(&order).map(MemberAnswer::PipelineOrdered),
        MemberRequest::Reload => Ok(MemberAnswer::Reloaded(operations.reload())),
    };
    answered.unwrap_or_else(|error| MemberAnswer::Refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    use super::*;

    /// Longest wait for the other side: a test that gets there has failed.
    const PATIENCE: Duration = Duration::from_secs(120);

    /// Ends its part when the other part has begun.
    struct Half {
        begins: Mutex<Sender<()>>,
        other: Mutex<Receiver<()>>,
    }

    impl Half {
        fn pair() -> (Self, Self) {
            let (first, second) = (channel(), channel());
            let half = |begins, other| Self { begins: Mutex::new(begins), other: Mutex::new(other) };
            (half(first.0, second.1), half(second.0, first.1))
        }

        fn meets(&self) -> bool {
            self.begins.lock().unwrap().send(()).unwrap();
            self.other.lock().unwrap().recv_timeout(PATIENCE).is_ok()
        }
    }

    impl Operations for Half {
        fn reload(&self) -> Reloaded {
            Reloaded { applied: self.meets(), ..Reloaded::default() }
        }
    }

    impl Members for Half {
        fn ask(&self, _: &MemberRequest) -> Shares<MemberAnswer> {
            let unreachable = if self.meets() { Vec::new() } else { vec!["b".to_owned()] };
            Shares { answered: Vec::new(), unreachable }
        }
    }

    #[test]
    fn all_nodes_reload_at_the_same_time() {
        let (here, there) = Half::pair();
        let (own, others) = reload_at_once(Some(&there), &here);
        assert!(own.applied && others.unreachable.is_empty());
    }
}
