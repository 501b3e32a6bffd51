//! Orders of services within the process are carried out.

use std::time::Instant;

use tidegate_engine::TenantId;

use crate::admission::Seat;
use crate::service::{ClientLink, Inside, Ping, Pong, ServiceOrder};
use crate::shard::Shard;
use crate::shard::facets::OrderCalls;

impl OrderCalls<'_> {
    pub(crate) fn take_service_order(&mut self, order: ServiceOrder) {
        let Shard { engine, services, serving, now, .. } = &mut *self.shard;
        let now = *now;
        // The caller may have given up waiting: its answer is dropped.
        match order {
            ServiceOrder::Publish { message, at_home } => {
                if at_home && !engine.questions().is_home_of_topic(message.tenant, &message.topic) {
                    return;
                }
                if !engine.insiders().publish_inner(now, &message)
                    && let Some(times) = services.misnamed.note(now.monotonic)
                {
                    tracing::warn!(topic = %message.topic, times, "a service published to a topic that it does not own");
                }
            }
            ServiceOrder::Links { rtt, answer } => {
                let _ = answer.send(self.links(rtt));
            }
            ServiceOrder::Pongs(sender, wake) => services.pongs = Some((sender, wake)),
            ServiceOrder::Ping { pings, expires_at, answer } => {
                let ping = |(tenant, client_id, topic): &Ping| {
                    let at = Instant::now();
                    engine.insiders().ping(now, *tenant, client_id, topic, expires_at).then_some(at)
                };
                let _ = answer.send(pings.iter().map(ping).collect());
            }
            ServiceOrder::ForgetPings => engine.insiders().forget_pings(),
            ServiceOrder::PublishFromBus(message, number) => {
                services.principals.publish_from_bus((engine, now), *message, number);
            }
            // A shard that does not serve yet, or no more, closes it.
            ServiceOrder::Enter(inside) if *serving => {
                let Inside { transport, listener, peer, is_own } = *inside;
                if is_own {
                    self.shard.sockets().take_in(transport, listener, Seat::OWN, peer);
                } else {
                    self.shard.admission().admit(transport, listener, peer);
                }
            }
            ServiceOrder::Enter(_) => {}
            ServiceOrder::AddPrincipal { number, principal, answered, unanswered } => {
                let engine = (engine, now);
                services.principals.add(engine, number, *principal, answered, unanswered);
            }
            ServiceOrder::RemovePrincipal { number } => {
                services.principals.remove((engine, now), number);
            }
            ServiceOrder::PublishAs { principal, message, number } => {
                services.principals.publish((engine, now), principal, *message, number);
            }
            ServiceOrder::ReadRetained { principal, topic, answer } => {
                let _ = answer.send(engine.questions().retained_for(now, &principal, &topic));
            }
            ServiceOrder::TellTaken(sink) => services.taken = Some(sink),
            ServiceOrder::Observe { number, observer, sink, answer } => {
                let _ = answer.send(services.observers.begin(engine, number, *observer, sink));
            }
            ServiceOrder::AttachObserver { observer, window, sink } => {
                services.observers.attach((engine, now), observer, window, sink);
            }
            ServiceOrder::EndObserver { number } => {
                services.observers.end((engine, now), number);
            }
            ServiceOrder::Observed { ticket, answer } => engine.insiders().confirm_observed(now, ticket, answer),
            ServiceOrder::SendElsewhere { tenant, client_id, reference, answer } => {
                let _ = answer.send(engine.insiders().send_elsewhere(now, tenant, &client_id, &reference));
            }
        }
    }

    fn links(&mut self, rtt: bool) -> Vec<ClientLink> {
        let clients = self.shard.engine.questions().connected_clients();
        let clients: Vec<_> = clients.map(|(tenant, id, key)| (tenant, id.to_owned(), key)).collect();
        let table = &mut self.shard.table;
        let link = |(tenant, client_id, key)| {
            let transport = rtt.then(|| table.get(key)).flatten();
            ClientLink { tenant, client_id, rtt_us: transport.and_then(|(_, transport)| transport.rtt_us()) }
        };
        clients.into_iter().map(link).collect()
    }

    pub(crate) fn take_pong(&mut self, tenant: TenantId, client_id: String) {
        if let Some((pongs, wake)) = &self.shard.services.pongs
            && pongs.try_send(Pong { tenant, client_id, at: Instant::now() }).is_ok()
        {
            wake();
        }
    }
}
