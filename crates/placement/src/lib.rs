//! Work that one member does for all: bridges and pipelines. Each has a client id, and the member that owns the
//! partition of this id does the work: a node of a cluster, or one of several orchestrators that share clients. When
//! the partition moves, or its owner dies, the work moves with it.

mod attempts;

use std::fmt;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use tidegate_engine::{PartitionId, TenantId, partition_of};

pub use attempts::Attempts;

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// The work that is done in this process.
#[derive(Clone, Default)]
pub struct Placement(Option<Arc<dyn Fn(PartitionId) -> bool + Send + Sync>>);

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Placement").field(&self.0.is_some()).finish()
    }
}

impl Placement {
    /// The work of the partitions that this process owns, as they change.
    pub fn of(owns: impl Fn(PartitionId) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(owns)))
    }

    /// Whether the owners may change. A broker that is alone does everything.
    pub fn may_change(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the work under this client id of a tenant is done here.
    pub fn is_here(&self, tenant: TenantId, client_id: &str) -> bool {
        let partition = partition_of(tenant, client_id);
        match &self.0 {
            Some(owns) => owns(partition),
            None => true,
        }
    }
}

/// The system gives no thread for a [`Follower`].
#[derive(Debug, thiserror::Error)]
#[error("cannot start a thread that looks at other members: {0}")]
pub struct ThreadError(io::Error);

/// Looks at the other members again and again, on its own thread, until it is stopped.
#[derive(Debug, Default)]
pub struct Follower(Mutex<Option<(Sender<()>, JoinHandle<()>)>>);

impl Follower {
    /// Has `follow` called after each pause.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn begin(follow: impl Fn() + Send + 'static) -> Result<Self, ThreadError> {
        let (keeps_on, ended) = channel();
        let run = move || {
            while ended.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                follow();
            }
        };
        let thread = Builder::new().name("placement".to_owned()).spawn(run);
        let thread = thread.map_err(ThreadError)?;
        Ok(Self(Mutex::new(Some((keeps_on, thread)))))
    }

    /// Ends the thread.
    pub fn stop(&self) {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((keeps_on, thread)) = running {
            drop(keeps_on);
            let _ = thread.join();
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_by_the_owner_of_its_partition() {
        let default = TenantId::DEFAULT;
        assert!(Placement::default().is_here(default, "bridge.a") && !Placement::default().may_change());
        let own = partition_of(default, "bridge.a");
        let placement = Placement::of(move |partition| partition == own);
        assert!(placement.is_here(default, "bridge.a") && placement.may_change());
        let others = (0..64).map(|number| format!("bridge.{number}"));
        let mut others = others.filter(|id| partition_of(default, id) != own);
        assert!(others.all(|id| !placement.is_here(default, &id)));
    }

    #[test]
    fn work_of_a_tenant_is_done_where_its_client_id_is() {
        let own = partition_of(TenantId(3), "tidegate-hub-hot");
        assert_ne!(own, partition_of(TenantId::DEFAULT, "tidegate-hub-hot"));
        let placement = Placement::of(move |partition| partition == own);
        assert!(placement.is_here(TenantId(3), "tidegate-hub-hot"));
        assert!(!placement.is_here(TenantId::DEFAULT, "tidegate-hub-hot"));
    }
}
