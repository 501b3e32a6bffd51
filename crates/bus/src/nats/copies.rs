//! How many copies there are of what is kept, where that is fewer than people mean.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

/// From so many servers on, one copy is less than people mean.
const MANY_SERVERS: usize = 3;

/// How many copies a stream is made with: as many as are asked for; with 0 as many as let one server die, where there are
/// enough servers. Two copies would let none die, since more than half have to confirm.
pub(super) fn copies_for(asked: u8, servers: usize) -> u8 {
    match asked {
        0 if servers >= MANY_SERVERS => 3,
        0 => 1,
        asked => asked,
    }
}

/// What a stream's copies lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    /// One is asked for, and there are servers for more.
    One,
    /// There are fewer than are asked for: the stream is older than the setting.
    Fewer { copies: u64, asked: u8 },
}

/// By what JetStream says of a stream, in a cluster of which so many servers are known.
fn lack(stream: &Value, asked: u8, servers: usize) -> Option<Lack> {
    // A server by itself is in a cluster without a name.
    let is_clustered = stream["cluster"]["name"].as_str().is_some_and(|name| !name.is_empty());
    match stream["config"]["num_replicas"].as_u64() {
        // Servers that are not in a cluster make no copies, however many addresses are known.
        Some(copies) if copies < u64::from(asked) && is_clustered => Some(Lack::Fewer { copies, asked }),
        _ if asked == 1 && is_clustered && servers >= MANY_SERVERS => Some(Lack::One),
        _ => None,
    }
}

/// Tells of it, once while the process runs.
#[derive(Debug, Default)]
pub(super) struct Copies {
    told_of_one: AtomicBool,
    told_of_fewer: AtomicBool,
}

impl Copies {
    /// Looks at what JetStream says of a stream.
    pub(super) fn look(&self, stream: &Value, asked: u8, servers: usize) {
        let is_news = |told: &AtomicBool| !told.swap(true, Ordering::Relaxed);
        match lack(stream, asked, servers) {
            Some(Lack::One) if is_news(&self.told_of_one) => tracing::warn!(
                servers,
                "what is kept on the bus has one copy, and is away with the server that has it; leave `bus_replicas` out, or set it to 3, before streams are made, and \
                 give those that there are more with `nats stream edit --replicas 3`"
            ),
            Some(Lack::Fewer { copies, asked }) if is_news(&self.told_of_fewer) => {
                let stream = stream["config"]["name"].as_str().unwrap_or_default();
                tracing::warn!(
                    stream,
                    copies,
                    asked,
                    "a stream has fewer copies than are asked for; give it and others more with `nats stream edit --replicas {asked}`"
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

    /// What servers have said of streams: alone, and in a cluster of three.
    #[test]
    fn one_copy_among_several_servers_and_fewer_than_are_asked_for_are_told() {
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
    fn so_many_copies_are_made_as_let_one_server_die() {
        let copies = |asked| [1, 2, 3, 5].map(|servers| copies_for(asked, servers));
        assert_eq!((copies(0), copies(1), copies(2)), ([1, 1, 3, 3], [1; 4], [2; 4]));
    }

    #[test]
    fn it_is_told_once() {
        let copies = Copies::default();
        let told = || (copies.told_of_one.load(Ordering::Relaxed), copies.told_of_fewer.load(Ordering::Relaxed));
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
