//! A sink whose errors name its place: an operating system says of a connection only that it was refused.

use std::sync::Arc;

use super::{Sink, SinkError, SinkKind};
use crate::record::Record;

/// A sink, and the address of its server or its file.
pub(super) struct Placed {
    pub(super) sink: Box<dyn Sink>,
    pub(super) place: String,
}

impl Sink for Placed {
    fn write(&mut self, batch: &[Arc<Record>]) -> Result<(), SinkError> {
        self.sink.write(batch).map_err(|error| match error {
            SinkError::Away(why) if !why.contains(&self.place) => SinkError::Away(format!("{}: {why}", self.place)),
            other => other,
        })
    }
}

impl SinkKind {
    /// The address of the server, without a password, or the file. `None` for sinks whose errors name it, and for those
    /// within the broker.
    pub(super) fn place(&self) -> Option<String> {
        let url = match self {
            Self::Http(it) => &it.url,
            Self::Influx(it) => &it.url,
            Self::Nats(it) => &it.url,
            Self::Postgres(it) => &it.url,
            Self::Redis(it) => &it.url,
            Self::S3(it) => &it.url,
            Self::Mqtt(it) => return Some(it.address.to_string()),
            Self::Sqlite(it) => return Some(it.path.display().to_string()),
            Self::File(_)
            | Self::History(_)
            | Self::Kafka(_)
            | Self::Amqp(_)
            | Self::Log(_)
            | Self::Archive(_)
            | Self::Discard => return None,
        };
        server_of(url).map(str::to_owned)
    }
}

/// `HOST:PORT` of a URL. `None` where an `@` follows: the password may have a slash, and no part of it may be said.
fn server_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let (authority, behind) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if behind.contains('@') {
        return None;
    }
    // A password may have an `@` of its own.
    let server = authority.rsplit_once('@').map_or(authority, |(_, server)| server);
    (!server.is_empty()).then_some(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(SinkError);

    impl Sink for Failing {
        fn write(&mut self, _: &[Arc<Record>]) -> Result<(), SinkError> {
            Err(self.0.clone())
        }
    }

    #[test]
    fn the_place_of_a_url_has_no_password() {
        assert_eq!(server_of("postgres://user:se@cret@127.0.0.1:5432/readings"), Some("127.0.0.1:5432"));
        assert_eq!(server_of("http://db.example/write?db=x"), Some("db.example"));
        assert_eq!(server_of("redis://127.0.0.1:6379"), Some("127.0.0.1:6379"));
        assert_eq!(server_of("host=127.0.0.1"), None);
        assert_eq!(server_of("nats://user:se/cret@127.0.0.1:4222"), None);
        assert_eq!(server_of("redis://user:s@e#cret@127.0.0.1:6379"), None);
    }

    #[test]
    fn an_error_names_the_place_once() {
        let said = |error: SinkError| {
            let mut sink = Placed { sink: Box::new(Failing(error)), place: "db:5432".to_owned() };
            sink.write(&[]).unwrap_err()
        };
        assert_eq!(said(SinkError::away("Connection refused")), SinkError::away("db:5432: Connection refused"));
        assert_eq!(said(SinkError::away("cannot connect to db:5432")), SinkError::away("cannot connect to db:5432"));
        let refused = SinkError::Refused("the value does not fit".to_owned());
        assert_eq!(said(refused.clone()), refused, "the record is to blame");
    }
}
