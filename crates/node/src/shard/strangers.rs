//! Connections without a CONNECT, in the order in which they were accepted: at a limit the oldest one makes room.

use std::collections::VecDeque;

use tidegate_engine::{ConnectionKey, ListenerId};

/// Connections that may not have sent a CONNECT. A key is in two queues, and leaves each when it is the oldest there.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    all: VecDeque<ConnectionKey>,
    of_listeners: Vec<VecDeque<ConnectionKey>>,
}

impl Strangers {
    /// Notes a new connection of a listener. Connections at the front that are clients by now, or closed, are removed.
    /// Behind a silent one the others stay until its CONNECT timeout.
    pub(crate) fn note(
        &mut self,
        key: ConnectionKey,
        listener: ListenerId,
        is_unheard: impl Fn(ConnectionKey) -> bool,
    ) {
        let position = usize::from(listener.0);
        if self.of_listeners.len() <= position {
            self.of_listeners.resize_with(position + 1, VecDeque::new);
        }
        for queue in self.of_listeners.get_mut(position).into_iter().chain([&mut self.all]) {
            while queue.front().is_some_and(|oldest| !is_unheard(*oldest)) {
                queue.pop_front();
            }
            queue.push_back(key);
        }
    }

    /// Removes the oldest connection of all, or of a listener. It may have sent a CONNECT, or be closed.
    pub(crate) fn take_oldest(&mut self, listener: Option<ListenerId>) -> Option<ConnectionKey> {
        match listener {
            Some(listener) => self.of_listeners.get_mut(usize::from(listener.0))?.pop_front(),
            None => self.all.pop_front(),
        }
    }

    /// Gives memory back.
    pub(crate) fn shrink(&mut self) {
        self.all.shrink_to_fit();
        self.of_listeners.iter_mut().for_each(VecDeque::shrink_to_fit);
    }
}
