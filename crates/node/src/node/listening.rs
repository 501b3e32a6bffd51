//! The listeners of a node, and their shards.

use tidegate_engine::ListenerId;

use crate::address::{ListenAddress, LocalAddress};
use crate::listener::{Acceptor, bind, bind_quic};
use crate::orders::{ShardSender, ToShard};
use crate::quic::{MAX_ENDPOINTS, Notices, QuicEndpoint, QuicSocket};
use crate::settings::NodeSettings;
use crate::tls::{TlsError, TlsListeners};
use crate::transport::Proxies;

use super::StartError;

/// The listeners, in the order of the settings.
#[derive(Default)]
pub(crate) struct Listening {
    pub acceptors: Vec<Acceptor>,
    pub quic: Vec<QuicSocket>,
    pub addresses: Vec<LocalAddress>,
    /// The listener of each of these addresses.
    pub owners: Vec<ListenerId>,
}

pub(crate) fn listen(settings: &NodeSettings, tls: &TlsListeners) -> Result<Listening, StartError> {
    let mut listening = Listening::default();
    for (position, (address, id)) in settings.listeners.iter().zip((0..).map(ListenerId)).enumerate() {
        let tls = tls.get(position);
        if let (ListenAddress::Quic(at), Some(tls)) = (address, tls) {
            for (socket, address) in bind_quic(at, id, tls)? {
                listening.quic.push(socket);
                listening.addresses.push(address);
                listening.owners.push(id);
            }
            continue;
        }
        // Only the listener for relayed clients takes tenants from proxies.
        let is_relay = settings.engine.listeners.get(position).is_some_and(|listener| listener.relayed);
        let secret = settings.cluster.as_ref().filter(|_| is_relay).map(|cluster| cluster.secret.clone());
        let proxies = settings.proxies.get(&position);
        let proxies = proxies.map(|networks| Proxies { networks: networks.as_slice().into(), secret });
        let origins = settings.allowed_origins.get(&position).map_or(&[][..], Vec::as_slice);
        let mut acceptors = bind(address, id, tls, proxies, settings.owner_only.contains(&position), origins)?;
        for acceptor in &mut acceptors {
            acceptor.is_for_nodes = is_relay;
        }
        listening.addresses.extend(acceptors.iter().map(|acceptor| acceptor.address().clone()));
        listening.owners.resize(listening.addresses.len(), id);
        listening.acceptors.extend(acceptors);
    }
    if listening.quic.len() > MAX_ENDPOINTS {
        return Err(StartError::QuicSockets(listening.quic.len()));
    }
    Ok(listening)
}

/// Deals the listeners out to the shards.
pub(crate) fn spread(acceptors: Vec<Acceptor>, shards: u16) -> Vec<Vec<Acceptor>> {
    let mut dealt: Vec<Vec<Acceptor>> = (0..shards).map(|_| Vec::new()).collect();
    for (acceptor, position) in acceptors.into_iter().zip((0..usize::from(shards)).cycle()) {
        if let Some(hand) = dealt.get_mut(position) {
            hand.push(acceptor);
        }
    }
    dealt
}

/// Deals the sockets for QUIC out, from the last shard on: the first ones have the listeners of the other transports.
pub(crate) fn spread_quic(
    sockets: Vec<QuicSocket>,
    inboxes: &[ShardSender],
) -> Result<Vec<Vec<QuicEndpoint>>, TlsError> {
    let shards = u16::try_from(inboxes.len()).unwrap_or(u16::MAX);
    let mut dealt: Vec<Vec<QuicEndpoint>> = inboxes.iter().map(|_| Vec::new()).collect();
    let places = (0..inboxes.len()).rev().cycle();
    for ((mut socket, number), place) in sockets.into_iter().zip(0..).zip(places) {
        socket.set_number(number);
        if let (Some(hand), Some(home)) = (dealt.get_mut(place), inboxes.get(place)) {
            hand.push(QuicEndpoint::new(socket, notices_to(home.clone()), shards)?);
        }
    }
    Ok(dealt)
}

/// The receiver of QUIC connections' events: the shard of their socket.
fn notices_to(home: ShardSender) -> Notices {
    Box::new(move |notice| home.send(ToShard::QuicNotice(Box::new(notice))))
}
