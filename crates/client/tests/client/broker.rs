//! Against a broker: that at `TIDEGATE_TEST_BROKER` (HOST:PORT), or a mosquitto that is started for the test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tidegate_client::Version;
use tidegate_client::net::Address;

use crate::driver::round_trip;

const VERSIONS: [Version; 3] = [Version::V31, Version::V311, Version::V5];

/// The length of the larger payload, in bytes: more than is read or written at once.
const LARGE: usize = 500_000;

/// A mosquitto that listens on TCP, on a Unix socket and on WebSocket; it ends with the value.
struct Mosquitto {
    process: Child,
    folder: PathBuf,
    addresses: Vec<Address>,
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Mosquitto {
    /// `None` when there is no mosquitto.
    fn start() -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("tidegate-client-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [tcp, web] = [(); 2].map(|()| free_port());
        let socket = folder.join("socket");
        let configuration = folder.join("mosquitto.conf");
        let text = format!(
            // Started by root it would change to another user, who may not write to the folder.
            "user root\nallow_anonymous true\nlistener {tcp} 127.0.0.1\nlistener 0 {}\n\
             listener {web} 127.0.0.1\nprotocol websockets\n",
            socket.display()
        );
        std::fs::write(&configuration, text).unwrap();
        let search = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/local/sbin";
        let process = Command::new("mosquitto")
            .arg("-v")
            .arg("-c")
            .arg(&configuration)
            .env("PATH", search)
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut process) = process else {
            let _ = std::fs::remove_dir_all(&folder);
            return None;
        };
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let ready = log.any(|line| line.unwrap().ends_with("running"));
        assert!(ready, "mosquitto did not start");
        // Whatever it has to say later must not fill the pipe.
        std::thread::spawn(move || log.for_each(drop));
        let host = || "127.0.0.1".to_owned();
        let path = "/mqtt".to_owned();
        let addresses = vec![
            Address::Tcp { host: host(), port: tcp },
            Address::Unix { path: socket },
            Address::WebSocket { host: host(), port: web, path },
        ];
        Some(Self { process, folder, addresses })
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[test]
fn every_version_over_every_transport() {
    if let Ok(broker) = std::env::var("TIDEGATE_TEST_BROKER") {
        let (host, port) = broker.rsplit_once(':').expect("HOST:PORT");
        let host = host.trim_matches(['[', ']']).to_owned();
        let port = port.parse().expect("HOST:PORT");
        let address = Address::Tcp { host, port };
        for version in VERSIONS {
            round_trip(&address, version, LARGE);
        }
        return;
    }
    let Some(mosquitto) = Mosquitto::start() else {
        eprintln!("SKIPPED: no mosquitto is installed and TIDEGATE_TEST_BROKER is not set");
        return;
    };
    for address in &mosquitto.addresses {
        // Mosquitto takes some 4 KiB from a WebSocket per turn, and few turns in a second.
        let large = match address {
            Address::WebSocket { .. } => 10_000,
            _ => LARGE,
        };
        for version in VERSIONS {
            round_trip(address, version, large);
        }
    }
}
