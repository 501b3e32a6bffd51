//! Warnings about streams with fewer copies than the servers allow.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

/// From this number of servers on, one copy is fewer than the servers allow.
const MANY_SERVERS: usize = 3;

/// Why a stream has too few copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    /// The settings ask for one, and there are servers for more.
    One,
    /// The stream has fewer than the settings ask for: it is older than the setting, or than the other servers.
    Fewer { copies: u64, asked: u8 },
}

/// Judges the copies of a stream by JetStream's description of it. `asked` is the number for a new stream.
fn lack(stream: &Value, asked: u8, servers: usize) -> Option<Lack> {
    match stream["config"]["num_replicas"].as_u64() {
        Some(copies) if copies < u64::from(asked) => Some(Lack::Fewer { copies, asked }),
        _ if asked == 1 && is_clustered(stream) && servers >= MANY_SERVERS => Some(Lack::One),
        _ => None,
    }
}

/// Whether the server that answered belongs to a cluster. A single server names none.
fn is_clustered(stream: &Value) -> bool {
    stream["cluster"]["name"].as_str().is_some_and(|name| !name.is_empty())
}

/// Logs each kind of warning once while the process runs.
#[derive(Debug, Default)]
pub(super) struct Copies {
    warned_of_one: AtomicBool,
    warned_of_fewer: AtomicBool,
}

impl Copies {
    /// Reads JetStream's description of a stream.
    pub(super) fn look(&self, stream: &Value, asked: u8, servers: usize) {
        let is_news = |told: &AtomicBool| !told.swap(true, Ordering::Relaxed);
        match lack(stream, asked, servers) {
            Some(Lack::One) if is_news(&self.warned_of_one) => tracing::warn!(
                servers,
                "streams on the bus have one replica and are unavailable without its server; set `bus_replicas` to 3 before streams are made, and \
                 give existing ones more with `nats stream edit --replicas 3`"
            ),
            Some(Lack::Fewer { copies, asked }) if is_news(&self.warned_of_fewer) => {
                let stream = stream["config"]["name"].as_str().unwrap_or_default();
                tracing::warn!(
                    stream,
                    copies,
                    asked,
                    "a stream has fewer replicas than configured; raise them with `nats stream edit --replicas {asked}`"
                );
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Answers of servers about streams: of one server, and of a cluster of three.
    #[test]
    fn one_copy_or_fewer_than_configured_is_reported() {
        let alone = json!({ "config": { "name": "s", "num_replicas": 1 }, "cluster": { "leader": "NB6F" } });
        let clustered = json!({
            "config": { "name": "s", "num_replicas": 1 },
            "cluster": { "name": "c", "raft_group": "S-R1F-x", "leader": "n1" },
        });
        assert_eq!(lack(&alone, 1, 1), None);
        assert_eq!(lack(&alone, 1, 3), None, "several addresses of one server");
        assert_eq!(lack(&clustered, 1, 2), None, "there is no room for three copies");
        assert_eq!(lack(&clustered, 1, 3), Some(Lack::One));
        assert_eq!(lack(&clustered, 3, 3), Some(Lack::Fewer { copies: 1, asked: 3 }));
        let three = json!({ "config": { "name": "s", "num_replicas": 3 }, "cluster": { "name": "c", "leader": "n1" } });
        assert_eq!((lack(&three, 3, 3), lack(&three, 5, 5)), (None, Some(Lack::Fewer { copies: 3, asked: 5 })));
        assert_eq!(lack(&json!({}), 1, 3), None);
    }

    #[test]
    fn it_is_logged_once() {
        let copies = Copies::default();
        let told = || (copies.warned_of_one.load(Ordering::Relaxed), copies.warned_of_fewer.load(Ordering::Relaxed));
        let stream = json!({ "config": { "num_replicas": 1 }, "cluster": { "name": "c" } });
        copies.look(&stream, 1, 1);
        assert_eq!(told(), (false, false));
        copies.look(&stream, 1, 3);
        copies.look(&stream, 1, 3);
        assert_eq!(told(), (true, false));
        copies.look(&stream, 3, 3);
        assert_eq!(told(), (true, true));
    }
}
