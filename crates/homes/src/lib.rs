//! The homes of clients over several orchestrators (BRK-27): the table and the lease on it, and moves of partitions.
//!
//! At any time one orchestrator works a partition. The table says which; the manager sets it, or every orchestrator
//! works it out of the same names. `leave.rs` is the old place's part of a move and `arrive.rs` the new one's; what
//! both remember over a crash is in `state.rs`. docs/orchestrators.md tells the whole of it.

mod arrive;
mod leave;
mod members;
pub mod parcel;
mod state;
mod table;
mod view;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tidegate_admin::homes::{Place, SetHomes};
use tidegate_admin::read_token;
use tidegate_console::api::ControlError;
use tidegate_console::{HomesNumbers, Unavailable};
use tidegate_engine::{Home, Homes as EngineHomes, Millis, Now, PARTITIONS, PartitionId, Partitions};
use tidegate_node::{Clock, NodeHandle, NodeHomes};

use self::leave::Progress;
pub use self::members::{Orchestrator, share_bans};
use self::state::{State, StateFile};
use self::table::Table;
pub use self::view::{HomesApi, owed_entry};
use tidegate_config::Config;
use tidegate_config::orchestrator::PeerAddressError;
use tidegate_identity::access::Tenancy;
use tidegate_placement::Placement;

/// Counters of homes.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Partitions that went to others.
    moved_out: AtomicU64,
    /// Partitions that came from others.
    moved_in: AtomicU64,
    /// Moves that did not happen.
    failed: AtomicU64,
    /// Moves after which other numbers were owed than before.
    mismatches: AtomicU64,
    /// Partitions taken over without anything from where they were.
    taken_anew: AtomicU64,
    /// Sessions of copies that were given up for newer ones.
    given_up: AtomicU64,
}

/// Why the homes of clients cannot be taken up.
#[derive(Debug, thiserror::Error)]
pub enum HomesError {
    /// The remembered state cannot be read or written.
    #[error("the homes of clients in {path}: {source}")]
    State {
        /// The file.
        path: String,
        /// The cause.
        source: io::Error,
    },
    /// The token cannot be read.
    #[error("cannot read admin.token_file: {0}")]
    Token(io::Error),
    /// An address of another orchestrator is wrong.
    #[error(transparent)]
    Peer(#[from] PeerAddressError),
}

/// Knows the homes, and moves them.
#[derive(Debug)]
pub struct HomesKeeper {
    name: String,
    redirect: bool,
    /// The least time for brokers to deliver their messages, beyond the confirmed ones.
    settle: Duration,
    token: Option<String>,
    file: StateFile,
    /// Copies left by a move to here that was given up because this process ended.
    left_behind: Partitions,
    state: Mutex<State>,
    /// Held from a look at the state until its change is on the disk and in the state.
    writing: Mutex<()>,
    /// Held while a move from here or to here takes a step.
    step: Mutex<()>,
    node: OnceLock<NodeHandle>,
    tenancy: OnceLock<Tenancy>,
    counters: Counters,
    progress: Mutex<Progress>,
}

impl HomesKeeper {
    /// Takes up the remembered state and the configuration.
    ///
    /// # Errors
    /// When the remembered state or the token cannot be read, or an address of a peer is invalid.
    pub fn open(config: &Config) -> Result<Arc<Self>, HomesError> {
        let orchestrator = &config.orchestrator;
        let file = StateFile::of(config.store.directory.as_deref());
        let mut state = file.load().map_err(|source| HomesError::State { path: file.path(), source })?;
        let token = config.admin.token_file.as_ref().map(|path| read_token(Path::new(path)));
        let token = token.transpose().map_err(HomesError::Token)?;
        settle_table(&mut state, &orchestrator.name, config.peers()?);
        let mut left_behind = Partitions::NONE;
        if let Some(arriving) = state.arriving.take() {
            // Messages that came for it since are not known any more: its sender still has everything.
            state::remember(&mut state.given_up, &arriving.id);
            left_behind = arriving.partitions;
        }
        file.save(&state).map_err(|source| HomesError::State { path: file.path(), source })?;
        Ok(Arc::new(Self {
            name: orchestrator.name.clone(),
            redirect: orchestrator.redirect == tidegate_config::sections::orchestrator::Redirect::V5,
            settle: orchestrator.move_settle,
            token,
            file,
            left_behind,
            state: Mutex::new(state),
            writing: Mutex::default(),
            step: Mutex::default(),
            node: OnceLock::new(),
            tenancy: OnceLock::new(),
            counters: Counters::default(),
            progress: Mutex::default(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the remembered state, on the disk first. Readers do not wait for the disk.
    fn change(&self, change: impl FnOnce(&mut State)) -> Result<(), ControlError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = self.state().clone();
        change(&mut changed);
        self.file.save(&changed).map_err(|error| {
            ControlError::Refused(format!("{} cannot be written: {error}; make room on the disk", self.file.path()))
        })?;
        *self.state() = changed;
        Ok(())
    }

    fn node(&self) -> Result<&NodeHandle, ControlError> {
        self.node.get().ok_or(ControlError::Unavailable(Unavailable))
    }

    /// The homes at the start of a node, before it has a clock of its own.
    pub fn at_start(&self) -> Option<Arc<NodeHomes>> {
        let state = self.state().clone();
        self.for_node(&state, Clock::start().now())
    }

    /// The node runs: a move left between two steps is brought to its end.
    pub fn begin(self: &Arc<Self>, node: NodeHandle, tenancy: Tenancy) {
        let _ = self.tenancy.set(tenancy);
        if let Err(error) = node.forget_partitions(self.left_behind) {
            tracing::error!(%error, "copies that a move has left behind could not be removed");
        }
        let _ = self.node.set(node);
        // Leases are reckoned on the node's clock from now on.
        if let (Err(error), true) = (self.apply(), self.has_table()) {
            tracing::error!(%error, "the table of homes is not in force everywhere");
        }
        if self.state().leaving.is_some() {
            self.resolve_later();
        }
    }

    /// The other places of the table that have an admin address, each with its name.
    pub fn others(&self) -> Vec<(String, String)> {
        let state = self.state();
        let places = state.table.iter().flat_map(|table| &table.places);
        let others = places.filter(|place| place.name != self.name && !place.admin.is_empty());
        others.map(|place| (place.name.clone(), place.admin.clone())).collect()
    }

    /// The token that orchestrators show each other.
    pub fn token(&self) -> Option<String> {
        self.token.clone()
    }

    /// The names of tenants by their numbers, from 1 on.
    fn tenant_names(&self) -> Vec<String> {
        self.tenancy.get().map(Tenancy::names).unwrap_or_default()
    }

    /// Which work this orchestrator does: that of the partitions at home here, and all where there is no table.
    pub fn placement(self: &Arc<Self>) -> Placement {
        let keeper = Arc::clone(self);
        Placement::of(move |partition| match &keeper.state().table {
            Some(table) => table.at(&keeper.name).has(partition),
            None => true,
        })
    }

    fn has_table(&self) -> bool {
        self.state().table.is_some()
    }

    /// Puts the table as it is now in force.
    fn apply(&self) -> Result<(), ControlError> {
        let node = self.node()?;
        // It resolves names: readers of the state do not wait for that.
        let state = self.state().clone();
        let homes = self.for_node(&state, node.now());
        node.set_homes(homes.as_ref()).map_err(|_| ControlError::Unavailable(Unavailable))
    }

    /// The homes for shards.
    fn for_node(&self, state: &State, now: Now) -> Option<Arc<NodeHomes>> {
        let table = state.table.as_ref()?;
        let leaving = state.leaving.as_ref().filter(|it| !it.gone).map_or(Partitions::NONE, |it| it.partitions);
        let own = table.position(&self.name);
        let mut homes = [Home::Nowhere; PARTITIONS as usize];
        for ((home, at), partition) in homes.iter_mut().zip(&table.homes).zip((0..PARTITIONS).map(PartitionId)) {
            *home = match u16::try_from(*at) {
                _ if leaving.has(partition) => Home::Nowhere,
                _ if Some(*at) == own => Home::Here,
                Ok(at) => Home::At(at),
                Err(_) => Home::Nowhere,
            };
        }
        let lease_until = match state.lease_until {
            None => Millis::NEVER,
            Some(until) => now.monotonic.plus(until.saturating_sub(now.unix)),
        };
        let engine = EngineHomes {
            homes,
            references: table.places.iter().map(|place| place.mqtt.clone()).collect(),
            redirect: self.redirect,
            lease_until,
            patience_ms: 0,
        };
        Some(Arc::new(NodeHomes { table: Arc::new(engine), relays: table.places.iter().map(relay_of).collect() }))
    }

    /// Puts a table in force, or renews the lease.
    fn put(&self, request: &SetHomes) -> Result<(), ControlError> {
        let table = Table::read(&request.table).map_err(|error| ControlError::Invalid(error.to_string()))?;
        let _step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.node()?.now();
        check_condition(&self.state(), request.if_epoch)?;
        self.end_moves_with(&request.gone)?;
        let before = self.state().clone();
        check_epoch(&before, &table)?;
        let lease_until = request.ttl_s.map(|ttl| now.unix.saturating_add(ttl * 1000));
        self.note_taken_anew(&before, &table);
        self.change(|state| {
            state.table = Some(table);
            state.lease_until = lease_until;
        })?;
        self.apply()
    }

    /// Logs and counts partitions that begin empty here: the sessions of their last place are not here.
    fn note_taken_anew(&self, before: &State, table: &Table) {
        let Some(known) = &before.table else { return };
        let taken = table.at(&self.name).without(known.at(&self.name));
        let number = taken.iter().count() as u64;
        if number > 0 {
            self.counters.taken_anew.fetch_add(number, Ordering::Relaxed);
            tracing::warn!(
                partitions = number,
                epoch = table.epoch,
                "partitions begin empty here: sessions that their last place had are not here"
            );
        }
    }

    /// The counters.
    pub fn numbers(&self) -> HomesNumbers {
        let state = self.state();
        let here =
            state.table.as_ref().map_or(u64::from(PARTITIONS), |table| table.at(&self.name).iter().count() as u64);
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HomesNumbers {
            epoch: state.table.as_ref().map_or(0, |table| table.epoch),
            here,
            moved_out: of(&self.counters.moved_out),
            moved_in: of(&self.counters.moved_in),
            failed: of(&self.counters.failed),
            mismatches: of(&self.counters.mismatches),
            taken_anew: of(&self.counters.taken_anew),
            given_up: of(&self.counters.given_up),
        }
    }
}

/// Who sets a table may say which one it was made from, so that nothing that has moved since is undone.
fn check_condition(state: &State, if_epoch: Option<u64>) -> Result<(), ControlError> {
    let known = state.table.as_ref().map_or(0, |table| table.epoch);
    match if_epoch {
        Some(condition) if condition != known => Err(ControlError::Refused(format!(
            "the table in force has epoch {known}, and not {condition}: read it first"
        ))),
        _ => Ok(()),
    }
}

/// A table that is set has to be newer, or the same.
fn check_epoch(state: &State, table: &Table) -> Result<(), ControlError> {
    let Some(known) = &state.table else { return Ok(()) };
    if table.epoch < known.epoch {
        let text =
            format!("the table has epoch {}, and the one in force {}: read that first", table.epoch, known.epoch);
        return Err(ControlError::Refused(text));
    }
    let same = table == known;
    if table.epoch == known.epoch && !same {
        let text =
            format!("another table of epoch {} is in force: read it, and give the new one a higher epoch", known.epoch);
        return Err(ControlError::Refused(text));
    }
    if !same && (state.leaving.is_some() || state.arriving.is_some()) {
        return Err(ControlError::Refused("a move is under way; set the table when it has ended".to_owned()));
    }
    Ok(())
}

/// The table at the start: the remembered one, unless the configuration names other places.
fn settle_table(state: &mut State, name: &str, peers: Vec<Place>) {
    if peers.is_empty() {
        return;
    }
    let mut places = peers;
    if places.iter().all(|place| place.name != name) {
        places.push(Place { name: name.to_owned(), ..Place::default() });
    }
    let mut names: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
    names.sort_unstable();
    if let Some(table) = &mut state.table {
        let mut known: Vec<&str> = table.places.iter().map(|place| place.name.as_str()).collect();
        known.sort_unstable();
        if known == names {
            for place in &mut table.places {
                if let Some(configured) = places.iter().find(|it| it.name == place.name) {
                    place.clone_from(configured);
                }
            }
            return;
        }
    }
    let epoch = state.table.as_ref().map_or(1, |table| table.epoch + 1);
    state.table = Some(Table::by_hash(epoch, places));
}

/// Waits before the next look at brokers and other orchestrators, which send no event when they change.
#[expect(clippy::disallowed_methods, reason = "the state is in another process, and no event announces it")]
fn pause(length: Duration) {
    std::thread::sleep(length);
}

/// Where a place takes relayed clients, resolved again with each table.
fn relay_of(place: &Place) -> Option<SocketAddr> {
    if place.relay.is_empty() {
        return None;
    }
    match place.relay.to_socket_addrs() {
        Ok(mut addresses) => addresses.next(),
        Err(error) => {
            tracing::warn!(place = place.name, relay = place.relay, %error, "the relay address of a place cannot be found");
            None
        }
    }
}
