//! The bound of questions to other nodes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::{Found, ReadError};

/// Questions to other nodes at once. Each holds a thread of a listener until the answer; the other threads stay free
/// while a node hangs.
const AT_ONCE: usize = 2;
/// How long a further question waits for its turn: longer than two nodes that hang hold the others back.
const WAIT: Duration = Duration::from_secs(10);

/// The questions for retained messages to other nodes. Clones share the bound.
#[derive(Clone, Debug)]
pub struct Fetches(Arc<Semaphore>);

impl Default for Fetches {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Fetches {
    /// Reads a retained message: with `read` at this node, and with `fetch` where another node has the topic. Both may
    /// block. The wait for other questions holds no thread.
    ///
    /// # Errors
    /// The errors of `read` and `fetch`, and [`ReadError::Busy`] after 10 s of waiting.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<Found<T>, ReadError> + Send + 'static,
        fetch: impl FnOnce() -> Result<Option<T>, ReadError> + Send + 'static,
    ) -> Result<Option<T>, ReadError> {
        let found = tokio::task::spawn_blocking(read).await;
        if let Found::Here(message) = found.unwrap_or(Err(ReadError::Unavailable))? {
            return Ok(message);
        }
        let turn = tokio::time::timeout(WAIT, Arc::clone(&self.0).acquire_owned()).await;
        // The semaphore is never closed.
        let permit = turn.map_err(|_| ReadError::Busy)?.map_err(|_| ReadError::Unavailable)?;
        let work = move || {
            let fetched = fetch();
            drop(permit);
            fetched
        };
        tokio::task::spawn_blocking(work).await.unwrap_or(Err(ReadError::Unavailable))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const ELSEWHERE: fn() -> Result<Found<usize>, ReadError> = || Ok(Found::Elsewhere);

    #[tokio::test]
    async fn reads_at_once_wait_for_their_turn_and_succeed() {
        let (fetches, asking, most) =
            (Fetches::default(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let reads: Vec<_> = (0..50)
            .map(|number| {
                let (fetches, asking, most) = (fetches.clone(), Arc::clone(&asking), Arc::clone(&most));
                let fetch = move || {
                    most.fetch_max(asking.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    asking.fetch_sub(1, Ordering::SeqCst);
                    Ok(Some(number))
                };
                tokio::spawn(async move { fetches.read(ELSEWHERE, fetch).await })
            })
            .collect();
        for (number, read) in reads.into_iter().enumerate() {
            assert_eq!(read.await.unwrap(), Ok(Some(number)));
        }
        assert!((1..=AT_ONCE).contains(&most.load(Ordering::SeqCst)), "{most:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_waits_for_its_turn_within_a_bound() {
        let fetches = Fetches::default();
        let turns = Arc::clone(&fetches.0).acquire_many_owned(u32::try_from(AT_ONCE).unwrap()).await.unwrap();
        let begun = tokio::time::Instant::now();
        assert_eq!(fetches.read(ELSEWHERE, || Ok(Some(1))).await, Err(ReadError::Busy));
        assert_eq!(begun.elapsed().as_secs(), WAIT.as_secs());
        let here = fetches.read(|| Ok(Found::Here(Some(2))), || Ok(None)).await;
        assert_eq!(here, Ok(Some(2)), "the messages of this node need no turn");
        drop(turns);
        assert_eq!(fetches.read(ELSEWHERE, || Ok(Some(3))).await, Ok(Some(3)));
    }

    #[tokio::test]
    async fn a_refusal_of_this_node_asks_no_other() {
        let read = || Err::<Found<usize>, _>(ReadError::NotAuthorized);
        assert_eq!(Fetches::default().read(read, || Ok(Some(1))).await, Err(ReadError::NotAuthorized));
    }
}
