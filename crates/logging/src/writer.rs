//! The thread that writes lines, so that no other thread waits for the output.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::Duration;

/// The thread's name.
pub(super) const THREAD: &str = "log";

/// Lines that wait to be written; further ones are lost and counted, since a shard never waits for the log.
const MAX_WAITING: usize = 1024;

/// Bytes written at once when lines wait.
const BATCH: usize = 32 * 1024;

enum Order {
    Line(String),
    /// Notifies the holder of the other end once everything before is written.
    Flush(Sender<()>),
}

/// Hands lines to the thread that writes them.
#[derive(Clone)]
pub(super) struct Writer {
    orders: SyncSender<Order>,
    lost: Arc<AtomicU64>,
}

impl Writer {
    /// Starts the thread. It ends when the last `Writer` is gone.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (orders, received) = sync_channel(MAX_WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        thread::Builder::new().name(THREAD.to_owned()).spawn(move || run(out, &received, &counted))?;
        Ok(Self { orders, lost })
    }

    /// Hands a line over. Never waits: where there is no room the line is lost and counted.
    pub(super) fn write(&self, line: String) {
        if let Err(TrySendError::Full(_)) = self.orders.try_send(Order::Line(line)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything handed over so far is written, or for the time given. Whether it is written.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let (done, wait) = channel();
        // A full queue means that the log is not read; then the end does not wait either.
        self.orders.try_send(Order::Flush(done)).is_ok() && wait.recv_timeout(limit).is_ok()
    }
}

fn run(mut out: impl Write, orders: &Receiver<Order>, lost: &AtomicU64) {
    let mut batch = String::new();
    while let Ok(first) = orders.recv() {
        let mut flushes = Vec::new();
        let mut next = Some(first);
        while let Some(order) = next {
            match order {
                Order::Line(line) => batch.push_str(&line),
                Order::Flush(done) => flushes.push(done),
            }
            next = if batch.len() < BATCH { orders.try_recv().ok() } else { None };
        }
        let lines = lost.swap(0, Ordering::Relaxed);
        if lines > 0 {
            batch += &lines.to_string();
            batch += " log lines were lost: standard error is read too slowly\n";
        }
        // A closed standard error is nobody's loss.
        let _ = out.write_all(batch.as_bytes()).and_then(|()| out.flush());
        batch.clear();
        for done in flushes {
            let _ = done.send(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes written bytes once the test lets it.
    struct Gate {
        open: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.open.recv();
            let _ = self.written.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gated() -> (Writer, Sender<()>, Receiver<Vec<u8>>) {
        let (opener, open) = channel();
        let (written, taken) = channel();
        (Writer::start(Gate { open, written }).unwrap(), opener, taken)
    }

    fn text(taken: impl Iterator<Item = Vec<u8>>) -> String {
        String::from_utf8(taken.flatten().collect()).unwrap()
    }

    #[test]
    fn lines_are_written_in_their_order() {
        let (writer, opener, taken) = gated();
        drop(opener);
        for number in 0..3 {
            writer.write(format!("{number}\n"));
        }
        assert!(writer.flush(Duration::from_secs(60)));
        assert_eq!(text(taken.try_iter()), "0\n1\n2\n");
    }

    #[test]
    fn a_sleeping_reader_blocks_no_thread_and_lost_lines_count() {
        let (writer, opener, taken) = gated();
        // Beside the queue the thread holds one batch, which each of these lines fills.
        let line = "x".repeat(BATCH);
        for _ in 0..3 * MAX_WAITING {
            writer.write(line.clone());
        }
        drop((opener, writer));
        // The thread ends when it has written all its lines.
        let written = text(taken.iter());
        assert!(written.contains(" log lines were lost: standard error is read too slowly\n"));
    }
}
