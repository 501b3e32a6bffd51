//! Brokers to test against.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A broker, and how to reach it. One that was started for the test ends with the value.
pub(crate) struct Target {
    process: Option<Child>,
    folder: Option<PathBuf>,
    /// The flags that lead to it.
    pub(crate) flags: Vec<String>,
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl Target {
    /// A server that the test takes care of.
    pub(crate) fn reached_by(flags: Vec<String>) -> Self {
        Self { process: None, folder: None, flags }
    }
}

fn flags(host: &str, port: &str) -> Vec<String> {
    ["-h", host, "-p", port].map(str::to_owned).to_vec()
}

/// The broker that the environment names, or else ours.
pub(crate) fn ours() -> Target {
    if let Ok(address) = std::env::var("TIDEGATE_TEST_BROKER") {
        let (host, port) = address.rsplit_once(':').expect("HOST:PORT");
        return Target::reached_by(flags(host.trim_matches(['[', ']']), port));
    }
    let (process, ready) = start_ours(&["--listen", "127.0.0.1:0"]);
    let port = ready.split("mqtt://127.0.0.1:").nth(1).and_then(|rest| rest.split_whitespace().next());
    let port = port.unwrap_or_else(|| panic!("no address in {ready}"));
    Target { process: Some(process), folder: None, flags: flags("127.0.0.1", port) }
}

/// Ours on a WebSocket alone.
pub(crate) fn ours_on_websocket() -> Target {
    let (process, ready) = start_ours(&["--listen", "ws://127.0.0.1:0/mqtt"]);
    let port = ready.split("ws://127.0.0.1:").nth(1).and_then(|rest| rest.split(['/', ' ', '\n']).next());
    let port = port.unwrap_or_else(|| panic!("no address in {ready}"));
    let mut flags = flags("127.0.0.1", port);
    flags.push("--ws".to_owned());
    Target { process: Some(process), folder: None, flags }
}

/// Ours on a Unix socket alone.
pub(crate) fn ours_on_unix_socket() -> Target {
    let folder = new_folder();
    let path = folder.join("socket").display().to_string();
    let (process, _) = start_ours(&["--listen", &format!("unix:{path}")]);
    Target { process: Some(process), folder: Some(folder), flags: vec!["--unix".to_owned(), path] }
}

/// The process, and the line that says that it is ready.
fn start_ours(arguments: &[&str]) -> (Child, String) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .args(["--admin", "off", "--log", "error"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    (process, ready)
}

/// Mosquitto, when it is installed.
pub(crate) fn mosquitto() -> Option<Target> {
    let folder = new_folder();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let configuration = folder.join("mosquitto.conf");
    std::fs::write(&configuration, format!("allow_anonymous true\nlistener {port} 127.0.0.1\n")).unwrap();
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
        eprintln!("SKIPPED: mosquitto is not installed");
        return None;
    };
    let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
    let ready = log.any(|line| line.unwrap().ends_with("running"));
    assert!(ready, "mosquitto did not start");
    // Whatever it has to say later must not fill the pipe.
    std::thread::spawn(move || log.for_each(drop));
    Some(Target { process: Some(process), folder: Some(folder), flags: flags("127.0.0.1", &port) })
}

/// A folder of this test alone.
pub(crate) fn new_folder() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("tidegate-clients-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
