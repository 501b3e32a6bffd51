//! Entries of a Redis stream. A batch is one transaction: all of it is added, or none.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::place::Ids;
use super::{Sink, SinkError};
use crate::message::HOPS_PROPERTY;
use crate::open_error::OpenError;
use crate::record::Record;

/// Longest line of an answer, bytes.
const MAX_LINE: u64 = 64 << 10;
/// Longest value of an answer, bytes.
const MAX_VALUE: usize = 1 << 20;

/// The server, and the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisSettings {
    /// `redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]`.
    pub url: String,
    /// The key of the stream.
    pub stream: String,
    /// Entries that are kept, about; 0 is all.
    pub max_entries: u64,
    /// Time for an answer.
    pub timeout: Duration,
}

pub(super) struct RedisSink {
    address: String,
    /// Commands that begin a connection.
    greeting: Vec<Vec<Vec<u8>>>,
    settings: RedisSettings,
    ids: Ids,
    connection: Option<BufReader<TcpStream>>,
}

impl RedisSink {
    pub(super) fn new(settings: &RedisSettings, ids: Ids) -> Result<Self, OpenError> {
        let form = || OpenError::setting("url", "`url` is redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]");
        let rest = settings.url.strip_prefix("redis://").ok_or_else(form)?;
        let (credentials, place) = rest.rsplit_once('@').map_or((None, rest), |(user, place)| (Some(user), place));
        let (at, database) = place.split_once('/').unwrap_or((place, ""));
        let has_port = at.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let mut greeting = Vec::new();
        if let Some((user, password)) = credentials.map(|text| text.split_once(':').unwrap_or(("", text))) {
            let given = [user, password].into_iter().filter(|text| !text.is_empty());
            greeting.push(["AUTH"].into_iter().chain(given).map(|text| text.as_bytes().to_vec()).collect());
        }
        if !database.is_empty() {
            database.parse::<u32>().map_err(|_| form())?;
            greeting.push(vec![b"SELECT".to_vec(), database.as_bytes().to_vec()]);
        }
        let address = if has_port { at.to_owned() } else { format!("{at}:6379") };
        Ok(Self { address, greeting, settings: settings.clone(), ids, connection: None })
    }

    fn connect(&self) -> Result<BufReader<TcpStream>, SinkError> {
        let timeout = self.settings.timeout;
        let mut last = SinkError::away("the name has no address");
        for at in self.address.to_socket_addrs().map_err(SinkError::away)? {
            match TcpStream::connect_timeout(&at, timeout) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(timeout)).map_err(SinkError::away)?;
                    stream.set_write_timeout(Some(timeout)).map_err(SinkError::away)?;
                    let mut connection = BufReader::new(stream);
                    for command in &self.greeting {
                        send(&mut connection, &encoded(command))?;
                        answer(&mut connection, 0)?;
                    }
                    return Ok(connection);
                }
                Err(error) => last = SinkError::away(error),
            }
        }
        Err(last)
    }

    /// The command that adds a record.
    fn add(&self, record: &Record) -> Vec<Vec<u8>> {
        let mut command = vec![b"XADD".to_vec(), self.settings.stream.clone().into_bytes()];
        if self.settings.max_entries > 0 {
            command.extend([b"MAXLEN".to_vec(), b"~".to_vec(), self.settings.max_entries.to_string().into_bytes()]);
        }
        command.extend([b"*".to_vec(), b"message_id".to_vec(), self.ids.of(record.id()).into_bytes()]);
        command.extend([HOPS_PROPERTY.as_bytes().to_vec(), record.hops().to_string().into_bytes()]);
        for (name, value) in record.fields() {
            let value = match (value, record.original()) {
                (_, Some(original)) if &**name == "payload" => original.to_vec(),
                (Value::String(text), _) => text.clone().into_bytes(),
                (value, _) => value.to_string().into_bytes(),
            };
            command.extend([name.as_bytes().to_vec(), value]);
        }
        command
    }
}

impl Sink for RedisSink {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let mut commands = encoded(&[b"MULTI".to_vec()]);
        for record in batch {
            commands.extend(encoded(&self.add(record)));
        }
        commands.extend(encoded(&[b"EXEC".to_vec()]));
        send(&mut connection, &commands)?;
        // MULTI and each command in the queue have an answer of their own. An error among them ends the transaction.
        for _ in 0..=batch.len() {
            answer(&mut connection, 0)?;
        }
        let added = answer(&mut connection, batch.len())?;
        if added != batch.len() {
            return Err(SinkError::away(format!("the server has added {added} of {} entries", batch.len())));
        }
        self.connection = Some(connection);
        Ok(())
    }
}

/// A command on the wire.
fn encoded(words: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

fn send(connection: &mut BufReader<TcpStream>, bytes: &[u8]) -> Result<(), SinkError> {
    connection.get_mut().write_all(bytes).map_err(SinkError::away)
}

/// An answer of the server.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// A success, with the number of elements.
    Done(usize),
    /// An error of the server, read to its end.
    Error(String),
}

/// Reads an answer of at most `max_elements` elements, and returns their number. An error of the server is about its state or the configuration and not about a record, so the batch is tried again.
fn answer(connection: &mut impl BufRead, max_elements: usize) -> Result<usize, SinkError> {
    match read_answer(connection, Some(max_elements))? {
        Answer::Done(elements) => Ok(elements),
        Answer::Error(why) => Err(SinkError::Away(why)),
    }
}

/// Reads an answer to its end; without `max_elements` it is an element itself.
///
/// # Errors
/// When the connection cannot be used further: it has ended, or its peer is not a Redis server.
fn read_answer(connection: &mut impl BufRead, max_elements: Option<usize>) -> Result<Answer, SinkError> {
    let unexpected = || SinkError::away("the answer is not that of a Redis server");
    let mut line = Vec::new();
    connection.by_ref().take(MAX_LINE).read_until(b'\n', &mut line).map_err(SinkError::away)?;
    let line = line.strip_suffix(b"\r\n").ok_or_else(unexpected)?;
    let (kind, text) = line.split_first().ok_or_else(unexpected)?;
    let text = String::from_utf8_lossy(text);
    let length = || text.parse::<i64>().map_err(|_| unexpected());
    match (kind, max_elements) {
        (b'-', _) => Ok(Answer::Error(text.into_owned())),
        (b'+' | b':', _) => Ok(Answer::Done(1)),
        (b'$', _) => {
            let Ok(length) = usize::try_from(length()?) else { return Ok(Answer::Done(0)) };
            let mut value = vec![0; length.checked_add(2).filter(|all| *all <= MAX_VALUE).ok_or_else(unexpected)?];
            connection.read_exact(&mut value).map_err(SinkError::away)?;
            Ok(Answer::Done(1))
        }
        (b'*', Some(max)) => {
            let Ok(elements) = usize::try_from(length()?) else { return Ok(Answer::Done(0)) };
            if elements > max {
                return Err(unexpected());
            }
            let mut failed = None;
            for _ in 0..elements {
                // The others are read in any case, so that the next answer begins at its beginning.
                if let Answer::Error(why) = read_answer(connection, None)? {
                    failed.get_or_insert(why);
                }
            }
            Ok(failed.map_or(Answer::Done(elements), Answer::Error))
        }
        _ => Err(unexpected()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::message::Message;
    use crate::record::{Content, WholeMessage};

    fn sink(url: &str) -> Result<RedisSink, OpenError> {
        let settings = RedisSettings { url: url.to_owned(), stream: "s".to_owned(), ..RedisSettings::default() };
        RedisSink::new(&settings, Ids::default())
    }

    #[test]
    fn an_address_has_a_password_and_a_database() {
        let words = |url: &str| {
            let sink = sink(url).unwrap();
            let greeting: Vec<String> =
                sink.greeting.iter().map(|words| String::from_utf8(words.join(&b' ')).unwrap()).collect();
            (sink.address, greeting)
        };
        assert_eq!(words("redis://h"), ("h:6379".to_owned(), vec![]));
        assert_eq!(words("redis://:p@h:1/2").1, ["AUTH p", "SELECT 2"]);
        assert_eq!(words("redis://u:p@[::1]:7").0, "[::1]:7");
        assert_eq!(words("redis://u:p@h").1, ["AUTH u p"]);
        assert!(sink("rediss://h").is_err() && sink("redis://h/x").is_err());
    }

    #[test]
    fn a_record_is_an_entry_with_its_fields() {
        let fields = vec![("t".into(), 1.into()), ("n".into(), "x".into())];
        let message = Message { id: "7".to_owned(), ..Message::default() };
        let record = Record::new(Arc::new(message), Content::Row(fields));
        let mut sink = sink("redis://h").unwrap();
        sink.settings.max_entries = 9;
        let words = sink.add(&record);
        let message = Arc::new(Message { payload: vec![0xff], ..Message::default() });
        let whole = Content::Whole(WholeMessage::new(crate::Format::Json));
        let as_it_came = sink.add(&Record::new(message, whole));
        assert!(as_it_came.ends_with(&[b"payload".to_vec(), vec![0xff]]));
        let expected: Vec<&[u8]> = vec![
            b"XADD",
            b"s",
            b"MAXLEN",
            b"~",
            b"9",
            b"*",
            b"message_id",
            b"7",
            b"tidegate-hub-hops",
            b"1",
            b"t",
            b"1",
            b"n",
            b"x",
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn answers_are_read_to_their_end() {
        let read = |bytes: &[u8]| answer(&mut &*bytes, 2);
        assert_eq!(read(b"+OK\r\n"), Ok(1));
        assert_eq!(read(b"*2\r\n$3\r\n1-0\r\n$3\r\n1-1\r\n"), Ok(2));
        assert_eq!(read(b"*-1\r\n"), Ok(0), "a transaction that was given up");
        let mut rest: &[u8] = b"*2\r\n-WRONGTYPE no\r\n:1\r\n+next\r\n";
        assert_eq!(answer(&mut rest, 2), Err(SinkError::away("WRONGTYPE no")));
        assert_eq!(rest, b"+next\r\n");
        for wrong in [&b""[..], b"+OK", b"$9999999\r\n", b"*1\r\n*1\r\n", b"$x\r\n", b"HTTP/1.1 400\r\n"] {
            assert!(read(wrong).is_err());
        }
    }
    /// Bytes of a server that then does not answer in time.
    struct Stalled<'a> {
        bytes: &'a [u8],
        timeouts: usize,
    }

    impl Read for Stalled<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.bytes.is_empty() {
                self.timeouts += 1;
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.bytes.read(into)
        }
    }

    #[test]
    fn a_server_that_stalls_in_an_answer_is_waited_for_once() {
        let mut server = BufReader::new(Stalled { bytes: b"*500\r\n$3\r\n1-0\r\n", timeouts: 0 });
        assert!(answer(&mut server, 500).is_err());
        assert_eq!(server.get_ref().timeouts, 1);
    }

    #[test]
    fn an_answer_of_too_many_elements_is_refused() {
        assert!(answer(&mut &b"*9223372036854775807\r\n"[..], 500).is_err());
        assert!(answer(&mut &b"*3\r\n:1\r\n:1\r\n:1\r\n"[..], 2).is_err());
        assert_eq!(answer(&mut &b"*2\r\n:1\r\n:1\r\n"[..], 2), Ok(2));
    }
}
