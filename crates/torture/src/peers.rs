//! Commands for brokers that are often compared with, by name.

use std::path::Path;

use crate::failure::Failure;
use crate::ports::Ports;

/// The command for a name, with the configuration that it needs written to the folder; anything else is a command
/// itself.
pub(crate) fn command(name: &str, folder: &Path, port: u16, ports: &mut Ports) -> Result<String, Failure> {
    let data = folder.join("data");
    let (file, text, command) = match name {
        // As shipped, with persistence on: the database is written every half hour and at the end.
        "mosquitto" => ("mosquitto.conf", mosquitto(port, &data, "autosave_interval 1800"), mosquitto_command()),
        // As durable as it gets: the database is written after every change.
        "mosquitto-each-change" => (
            "mosquitto.conf",
            mosquitto(port, &data, "autosave_on_changes true\nautosave_interval 1"),
            mosquitto_command(),
        ),
        "mosquitto-each-second" => {
            ("mosquitto.conf", mosquitto(port, &data, "autosave_interval 1"), mosquitto_command())
        }
        "nats" => {
            ("nats.conf", nats([port, ports.next()?], &data, "always"), "nats-server -c {dir}/nats.conf".to_owned())
        }
        "nats-as-shipped" => {
            ("nats.conf", nats([port, ports.next()?], &data, "2m"), "nats-server -c {dir}/nats.conf".to_owned())
        }
        _ => return Ok(name.to_owned()),
    };
    let path = folder.join(file);
    std::fs::write(&path, text).map_err(Failure::file("writing", &path))?;
    Ok(command)
}

/// Debian keeps it where not everybody's path leads.
fn mosquitto_command() -> String {
    let installed = Path::new("/usr/sbin/mosquitto");
    format!("{} -c {{dir}}/mosquitto.conf", if installed.exists() { "/usr/sbin/mosquitto" } else { "mosquitto" })
}

fn mosquitto(port: u16, data: &Path, saving: &str) -> String {
    let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
    format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\nuser {user}\npersistence true\npersistence_location {}/\n{saving}\n\
         max_queued_messages 0\nmax_queued_bytes 0\nset_tcp_nodelay true\nlog_type error\nlog_dest stderr\n",
        data.display()
    )
}

/// The first port is for MQTT, the second for NATS itself.
fn nats([port, own]: [u16; 2], data: &Path, sync: &str) -> String {
    format!(
        "server_name: torture\nlisten: \"127.0.0.1:{own}\"\njetstream {{ store_dir: \"{}\", sync_interval: {sync} }}\n\
         mqtt {{ listen: \"127.0.0.1:{port}\", ack_wait: \"5s\", max_ack_pending: 1024 }}\n",
        data.display()
    )
}
