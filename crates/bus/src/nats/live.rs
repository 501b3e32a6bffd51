//! Live messages: core NATS, without JetStream.

use std::sync::Arc;

use async_nats::Client;
use futures_util::StreamExt;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use super::naming;
use super::server::Server;
use crate::budget::Ticket;
use crate::live::Mailbox;
use crate::{LiveMessage, SubjectFilter, Tally};

/// Sends live messages in their order. The room that they take is given back when the client has them.
pub(super) async fn send(client: Client, prefix: String, mut inbox: UnboundedReceiver<(LiveMessage, Ticket)>) {
    let unsent = Tally::default();
    while let Some((message, room)) = inbox.recv().await {
        if let Err(error) = client.publish(naming::live(&prefix, &message.subject), message.payload).await
            && let Some(times) = unsent.note()
        {
            tracing::warn!(subject = %message.subject, %error, times, "a live message was not sent");
        }
        drop(room);
    }
}

/// Fills a mailbox until its subscription ends. The client subscribes again when it has connected again.
pub(super) async fn receive(
    server: Server,
    filter: SubjectFilter,
    mailbox: Arc<Mailbox>,
    mut end: oneshot::Receiver<()>,
) {
    let prefix = &server.settings.prefix;
    let mut subscriber = match server.client.subscribe(naming::live_filter(prefix, &filter)).await {
        Ok(subscriber) => subscriber,
        Err(error) => {
            tracing::error!(filter = filter.as_str(), %error, "cannot subscribe to live messages");
            return;
        }
    };
    loop {
        let message = tokio::select! {
            message = subscriber.next() => message,
            _ = &mut end => return,
        };
        let Some(message) = message else { return };
        // Messages under subjects of other programs are left out.
        if let Some(subject) = naming::of_live(prefix, message.subject.as_str()) {
            mailbox.offer(&LiveMessage { subject, payload: message.payload });
        }
    }
}
