//! The clients of a process, and the requests to the network that they cause.

use std::ops::{Index, IndexMut};

use super::client::{Client, Output, State};
use super::{Action, NONE};

/// The clients of a process by number, and the requests to the network that they cause.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    list: Vec<Client>,
    actions: Vec<Action>,
    /// Connections with output.
    dirty: Vec<u32>,
    /// Clients that the broker has accepted.
    pub(super) connected: u64,
}

impl Clients {
    /// Adds a client, with the next number.
    pub(super) fn add(&mut self, client: Client) {
        self.list.push(client);
    }

    /// The number of clients.
    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// The clients in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Client> {
        self.list.iter()
    }

    /// Adds a request to the network.
    pub(super) fn request(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// The requests to the network since the last time.
    pub(crate) fn actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Marks a client's connection as having output.
    pub(super) fn touch(&mut self, client: u32) {
        let touched = &mut self.list[client as usize];
        if !touched.queued {
            touched.queued = true;
            self.dirty.push(touched.connection(client));
        }
    }

    /// Connections with output since the last time; exchanged for an empty list, whose memory is used again.
    pub(crate) fn take_dirty(&mut self, into: &mut Vec<u32>) {
        into.clear();
        std::mem::swap(into, &mut self.dirty);
        for connection in into.iter() {
            self.list[(connection / 2) as usize].queued = false;
        }
    }

    /// The output of a connection; `None` when its client has another one by now.
    pub(crate) fn output(&mut self, connection: u32) -> Option<&mut Output> {
        let client = &mut self.list[(connection / 2) as usize];
        (client.connection(connection / 2) == connection).then_some(&mut client.out)
    }

    /// The target address of a connection.
    pub(crate) fn address_of(&self, connection: u32) -> usize {
        usize::from(self[connection / 2].place)
    }

    /// Whether a connection has to be written to again soon, so that its memory is kept.
    pub(crate) fn writes_often(&self, connection: u32) -> bool {
        self[connection / 2].publisher != NONE
    }

    /// Connected clients by the target address, of `addresses` addresses.
    pub(super) fn connected_by_address(&self, addresses: usize) -> Vec<u64> {
        let mut connected = vec![0; addresses];
        for client in self.list.iter().filter(|client| client.is_connected()) {
            connected[usize::from(client.place)] += 1;
        }
        connected
    }

    /// Disconnects a client with a DISCONNECT, if the broker has accepted it.
    pub(super) fn disconnect(&mut self, client: u32) {
        let leaving = &mut self.list[client as usize];
        let connection = leaving.connection(client);
        let state = std::mem::replace(&mut leaving.state, State::Gone);
        match state {
            State::Waiting | State::Away | State::Gone => {}
            State::Dialling | State::Greeting => self.actions.push(Action::Cut(connection)),
            State::Subscribing | State::Ready => {
                self.connected -= 1;
                self.actions.push(Action::Close(connection));
            }
        }
    }
}

impl Index<u32> for Clients {
    type Output = Client;

    fn index(&self, client: u32) -> &Client {
        &self.list[client as usize]
    }
}

impl IndexMut<u32> for Clients {
    fn index_mut(&mut self, client: u32) -> &mut Client {
        &mut self.list[client as usize]
    }
}
