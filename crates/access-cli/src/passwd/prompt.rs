//! Asks for a password at a terminal, without showing it.

use std::io::{self, BufRead, Write, stderr, stdin};
use std::process;
use std::thread;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use tidegate_auth::Secret;
use tidegate_auth::password::MAX_PASSWORD_LEN;

/// Asks once. An interrupt restores the terminal.
///
/// # Errors
/// When the terminal cannot be read, or is closed before anything was said.
pub(super) fn ask(question: &str) -> io::Result<Secret> {
    write!(stderr().lock(), "{question}")?;
    let silence = Silence::begin()?;
    let answer = read_line(&mut stdin().lock());
    drop(silence);
    writeln!(stderr().lock())?;
    answer
}

/// One line, without its end.
///
/// # Errors
/// If there is no line, or it is longer than a password can be.
pub(super) fn read_line(from: &mut impl BufRead) -> io::Result<Secret> {
    // With room for the longest from the beginning, so that no copies are left behind.
    let mut line = Vec::with_capacity(MAX_PASSWORD_LEN + 3);
    let mut from = io::Read::take(from, MAX_PASSWORD_LEN as u64 + 2);
    if from.read_until(b'\n', &mut line)? == 0 {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "standard input ends before it"));
    }
    for end in [b'\n', b'\r'] {
        if line.last() == Some(&end) {
            line.pop();
        }
    }
    if line.len() > MAX_PASSWORD_LEN {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is longer than 65535 bytes"));
    }
    Ok(Secret::new(line))
}

/// A terminal that does not show the typed text, until this is dropped or a signal ends the process.
struct Silence {
    before: Termios,
    signals: Handle,
    watch: Option<thread::JoinHandle<()>>,
}

impl Silence {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let restored = before.clone();
        let watch = thread::Builder::new().name("prompt".to_owned()).spawn(move || {
            if let Some(signal) = signals.forever().next() {
                let _ = tcsetattr(stdin(), OptionalActions::Now, &restored);
                let _ = writeln!(stderr().lock());
                process::exit(128 + signal);
            }
        })?;
        let silence = Self { before: before.clone(), signals: handle, watch: Some(watch) };
        let mut quiet = before;
        quiet.local_modes.remove(LocalModes::ECHO);
        quiet.local_modes.remove(LocalModes::ECHONL);
        tcsetattr(stdin(), OptionalActions::Flush, &quiet)?;
        Ok(silence)
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
        self.signals.close();
        if let Some(watch) = self.watch.take() {
            let _ = watch.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_at_its_end_and_is_bounded() {
        let read = |text: &[u8]| read_line(&mut io::Cursor::new(text.to_vec())).map(|line| line.expose().to_vec());
        assert_eq!(read(b"one\ntwo\n").unwrap(), b"one");
        assert_eq!(read(b"one\r\n").unwrap(), b"one");
        assert_eq!(read(b" o n e ").unwrap(), b" o n e ");
        assert_eq!(read(b"\n").unwrap(), b"");
        assert!(read(b"").is_err());
        assert_eq!(read(&vec![b'x'; MAX_PASSWORD_LEN]).unwrap().len(), MAX_PASSWORD_LEN);
        assert!(read(&vec![b'x'; MAX_PASSWORD_LEN + 1]).is_err());
    }
}
