//! The admin API of an orchestrator without clients that follows all requests.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

#[derive(Default)]
struct State {
    /// Whether each broker is being drained.
    brokers: BTreeMap<String, bool>,
    /// The messages that each broker owes.
    owed: u64,
    calls: Vec<String>,
}

/// It.
#[derive(Clone)]
pub(crate) struct Orchestrator {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Orchestrator {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, state) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(State::default())));
        let shared = Arc::clone(&state);
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that goes is no failure.
                let _ = serve(stream, &shared);
            }
        });
        Self { address, state }
    }

    /// From now on brokers owe so much.
    pub(crate) fn owe(&self, owed: u64) {
        self.state.lock().unwrap().owed = owed;
    }

    /// Its requests since the last call.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().calls)
    }

    pub(crate) fn knows(&self, broker: &str) -> bool {
        self.state.lock().unwrap().brokers.contains_key(broker)
    }
}

fn serve(stream: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line)?;
    let request = line.clone();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut words = request.split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let text = answer(method, path, &mut state.lock().unwrap()).to_string();
    let mut stream = reader.into_inner();
    write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}", text.len())
}

fn answer(method: &str, path: &str, state: &mut State) -> Value {
    if method != "GET" {
        state.calls.push(format!("{method} {path}"));
    }
    let broker = path.strip_prefix("/api/v1/fleet/brokers/").and_then(|rest| rest.split(['/', '?']).next());
    match (method, broker) {
        ("PUT", Some(broker)) => drop(state.brokers.insert(broker.to_owned(), false)),
        ("POST", Some(broker)) => drop(state.brokers.insert(broker.to_owned(), true)),
        ("DELETE", Some(broker)) => drop(state.brokers.remove(broker)),
        _ => {}
    }
    if path == "/api/v1/drain" {
        return json!({"draining": false, "clients": 1, "owed": state.owed});
    }
    if path == "/api/v1/cluster" {
        let nodes = json!([{"name": "orchestrator-1", "partitions": 64}]);
        return json!({"name": "orchestrator-1", "member": true, "leaving": false, "epoch": 1, "nodes": nodes});
    }
    let view = |(name, draining): (&String, &bool)| {
        let owed = if *draining { state.owed } else { 0 };
        let name_of = match (draining, owed) {
            (false, _) => "serving",
            (true, 0) => "drained",
            (true, _) => "draining",
        };
        json!({"name": name, "state": name_of, "owed": owed, "sent": 0})
    };
    json!({"clients": 1, "owed": state.owed, "brokers": state.brokers.iter().map(view).collect::<Vec<_>>()})
}
