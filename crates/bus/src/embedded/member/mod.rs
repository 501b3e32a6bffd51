//! A process on the bus of a directory.
//!
//! Its thread connects to the process that serves the bus. Where no process does, it takes the lock of the directory and
//! serves the bus itself. Requests without an answer are sent again to the next server, in their order.

mod asked;
mod connect;
pub(super) mod directory;
mod session;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::backend::{Backend, Target};
use crate::budget::Ticket;
use crate::completion::Completion;
use crate::connection::Link;
use crate::feed::Feed;
use crate::live::Mailbox;
use crate::{
    Append, Bounds, BusError, Connection, Epoch, LiveMessage, LogSpec, Observer, Position, Reader, Settings,
    SubjectFilter, Subscription, Wake,
};
use asked::{Asked, OnBus};
use connect::Connector;
use directory::BusDirectory;
use session::Session;

/// A reading of this process.
struct LocalReading {
    target: Target,
    feed: Arc<Feed>,
    /// Whether nothing was pulled for it, as it had no room.
    starved: Arc<AtomicBool>,
}

/// An order to the thread.
enum Order {
    Ask(Asked, OnBus),
    Publish(LiveMessage, Ticket),
    Subscribe(u64, SubjectFilter, Arc<Mailbox>),
    EndSubscribe(u64),
    Read(u64, LocalReading),
    /// A reading has room again, or has ended.
    Room(u64),
}

struct DirectoryBus {
    link: Arc<Link>,
    settings: Arc<Settings>,
    orders: UnboundedSender<Order>,
    /// The numbers of readings and subscriptions.
    ids: AtomicU64,
}

/// Opens the bus of a directory.
pub(crate) fn open(
    path: &Path,
    serves: bool,
    settings: &Settings,
    observer: Observer,
) -> Result<Arc<dyn Backend>, BusError> {
    let directory = BusDirectory::prepare(path)?;
    let failed = |error: std::io::Error| BusError::Client(error.to_string());
    let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let link = Link::new(format!("embedded://{}", path.display()), observer);
    let settings = Arc::new(settings.clone());
    let (orders, inbox) = unbounded_channel();
    // The standard library seeds its hashers from the system: no other process has this number.
    let member = RandomState::new().hash_one(std::process::id());
    let connector = Connector::new(directory, serves, member, Arc::clone(&link), Arc::clone(&settings));
    let session = Session::new(inbox, Arc::clone(&link), Arc::clone(&settings));
    let thread = thread::Builder::new().name("bus-member".to_owned());
    thread.spawn(move || runtime.block_on(session.run(connector))).map_err(failed)?;
    Ok(Arc::new(DirectoryBus { link, settings, orders, ids: AtomicU64::new(0) }))
}

impl DirectoryBus {
    /// A thread that has gone drops the order, which tells that the bus has stopped.
    fn order(&self, order: Order) {
        let _ = self.orders.send(order);
    }

    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

impl Backend for DirectoryBus {
    fn connection(&self) -> Connection {
        self.link.state()
    }

    fn failure(&self) -> Option<String> {
        self.link.failure()
    }

    fn create(&self, spec: Arc<LogSpec>, completion: Completion<()>) {
        self.order(Order::Ask(Asked::Create(spec), OnBus::Nothing(completion)));
    }

    fn own(&self, target: Target, completion: Completion<Epoch>) {
        self.order(Order::Ask(Asked::Own(target.place), OnBus::Epoch(completion)));
    }

    fn append(&self, target: Target, append: Append, completion: Completion<Position>) {
        self.order(Order::Ask(Asked::Append(target.place, append), OnBus::Position(completion)));
    }

    fn read(&self, target: Target, from: Position, wake: Wake) -> Result<Reader, BusError> {
        let (id, orders, starved) = (self.next_id(), self.orders.clone(), Arc::new(AtomicBool::new(false)));
        let (made, is_starved) = (Arc::new(OnceLock::<Weak<Feed>>::new()), Arc::clone(&starved));
        let own = Arc::clone(&made);
        let on_room = move || {
            let has_ended = || own.get().and_then(Weak::upgrade).is_none_or(|feed| feed.has_ended());
            if is_starved.swap(false, Ordering::AcqRel) || has_ended() {
                let _ = orders.send(Order::Room(id));
            }
        };
        let feed = Feed::new(from, wake, &self.settings, Box::new(on_room));
        let _ = made.set(Arc::downgrade(&feed));
        self.order(Order::Read(id, LocalReading { target, feed: Arc::clone(&feed), starved }));
        Ok(Reader::new(feed))
    }

    fn bounds(&self, target: Target, completion: Completion<Bounds>) {
        self.order(Order::Ask(Asked::Bounds(target.place), OnBus::Bounds(completion)));
    }

    fn trim(&self, target: Target, below: Position, completion: Completion<()>) {
        self.order(Order::Ask(Asked::Trim(target.place, below), OnBus::Nothing(completion)));
    }

    fn publish(&self, message: LiveMessage, room: Ticket) -> Result<(), BusError> {
        if !self.link.state().is_connected() {
            let reason = "live messages do not wait".to_owned();
            return Err(BusError::Away { waited: Duration::ZERO, reason });
        }
        self.orders.send(Order::Publish(message, room)).map_err(|_| BusError::Stopped)
    }

    fn subscribe(&self, filter: SubjectFilter, wake: Wake) -> Result<Subscription, BusError> {
        let mailbox = Mailbox::new(filter.clone(), wake, &self.settings);
        let (id, orders) = (self.next_id(), self.orders.clone());
        self.order(Order::Subscribe(id, filter, Arc::clone(&mailbox)));
        Ok(Subscription::new(mailbox, Box::new(move || drop(orders.send(Order::EndSubscribe(id))))))
    }
}
