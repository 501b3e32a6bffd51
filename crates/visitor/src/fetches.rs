//! The bound of questions to other nodes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::{Found, ReadError};

/// Questions to other nodes at once. Each holds a thread of a listener until the answer; the other threads stay free
/// while a node hangs.
const AT_ONCE: usize = 2;
/// The longest wait of a further question. A question to a node that hangs takes 4 s; after that the node is not asked
/// for 10 s.
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
    use super::*;

    const ELSEWHERE: fn() -> Result<Found<usize>, ReadError> = || Ok(Found::Elsewhere);

    #[tokio::test]
    async fn reads_at_once_wait_for_their_turn_and_succeed() {
        let fetches = Fetches::default();
        let (tell_start, mut starts) = tokio::sync::mpsc::unbounded_channel();
        let (release, go_on) = std::sync::mpsc::channel::<()>();
        let go_on = Arc::new(std::sync::Mutex::new(go_on));
        let reads: Vec<_> = (0..50)
            .map(|number| {
                let (fetches, tell_start, go_on) = (fetches.clone(), tell_start.clone(), Arc::clone(&go_on));
                let fetch = move || {
                    tell_start.send(()).unwrap();
                    go_on.lock().unwrap().recv().unwrap();
                    Ok(Some(number))
                };
                tokio::spawn(async move { fetches.read(ELSEWHERE, fetch).await })
            })
            .collect();
        for _ in 0..AT_ONCE {
            starts.recv().await.unwrap();
        }
        assert_eq!(fetches.0.available_permits(), 0);
        assert!(starts.try_recv().is_err(), "a further question waits for its turn");
        (0..reads.len()).for_each(|_| release.send(()).unwrap());
        for (number, read) in reads.into_iter().enumerate() {
            assert_eq!(read.await.unwrap(), Ok(Some(number)));
        }
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
