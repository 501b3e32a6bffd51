//! Standard input, line by line, without keeping a connection waiting.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use tidegate_client::MAX_PACKET_SIZE;
use tidegate_client::net::Waker;

use super::flags::message_source::ReadError;

/// How many lines are read ahead of the connection.
const READ_AHEAD: usize = 256;

/// Lines that a thread reads.
#[derive(Debug)]
pub(crate) struct StdinLines(Receiver<Result<Vec<u8>, ReadError>>);

/// The next line, if there is one.
#[derive(Debug)]
pub(crate) enum Line {
    /// A line, without its end.
    Some(Vec<u8>),
    /// None has arrived yet; the waker tells when.
    NotYet,
    /// There are no more.
    End,
}

impl StdinLines {
    /// Starts to read. `waker` is used when there is something to take.
    pub(crate) fn start(waker: Waker) -> Self {
        let (sender, receiver) = sync_channel(READ_AHEAD);
        std::thread::spawn(move || {
            let mut input = io::stdin().lock();
            while let Some(line) = read_line(&mut input).transpose() {
                let failed = line.is_err();
                if sender.send(line).is_err() || waker.wake().is_err() || failed {
                    return;
                }
            }
            drop(sender);
            // No receiver is left if this fails.
            let _ = waker.wake();
        });
        Self(receiver)
    }

    /// The next line.
    ///
    /// # Errors
    /// When standard input cannot be read, or a line is longer than any message.
    pub(crate) fn next(&self) -> Result<Line, ReadError> {
        match self.0.try_recv() {
            Ok(line) => line.map(Line::Some),
            Err(TryRecvError::Empty) => Ok(Line::NotYet),
            Err(TryRecvError::Disconnected) => Ok(Line::End),
        }
    }
}

/// The next line without its line feed; `None` at the end.
fn read_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>, ReadError> {
    let name = || "a line of standard input".to_owned();
    let mut line = Vec::new();
    let limit = u64::from(MAX_PACKET_SIZE) + 1;
    let read = input.take(limit).read_until(b'\n', &mut line);
    match read.map_err(|source| ReadError::Failed { name: name(), source })? {
        0 => return Ok(None),
        count if count as u64 == limit => return Err(ReadError::TooLong { name: name() }),
        _ => {}
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_everything_but_their_end() {
        let mut input = &b"a\n\nb\r\n\xff\0"[..];
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut input).unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, [&b"a"[..], b"", b"b\r", b"\xff\0"]);
    }
}
