//! The notifications of a broker to systemd, over the socket that the environment names.

use std::os::unix::net::UnixDatagram;

use crate::broker::{Broker, Folder, PATIENCE, command};

fn next(manager: &UnixDatagram) -> String {
    let mut told = [0; 4096];
    let length = manager.recv(&mut told).unwrap();
    String::from_utf8(told[..length].to_vec()).unwrap()
}

#[test]
fn the_service_manager_is_notified_of_start_reload_and_end() {
    let folder = Folder::new();
    let socket = folder.file("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut starting = command(&["--listen", "127.0.0.1:0", "--admin", "off"]);
    starting.env("NOTIFY_SOCKET", &socket);
    let broker = Broker::spawn(starting);
    assert_eq!(next(&manager), format!("READY=1\nSTATUS={}", broker.ready.trim_end()));

    broker.signal("HUP");
    let reloading = next(&manager);
    let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(since.parse::<u64>().unwrap() > 0, "{reloading}");
    assert_eq!(next(&manager), "READY=1");

    broker.signal("TERM");
    assert_eq!(next(&manager), "STOPPING=1\nSTATUS=stopping");
    assert_eq!(broker.wait().code, Some(0));
}

#[test]
fn a_service_manager_that_does_not_listen_holds_nothing_up() {
    let mut starting = command(&["--listen", "127.0.0.1:0", "--admin", "off"]);
    starting.env("NOTIFY_SOCKET", "/nowhere/notify");
    let broker = Broker::spawn(starting);
    broker.signal("TERM");
    let ended = broker.wait();
    assert_eq!(ended.code, Some(0));
    assert!(ended.err.contains("/nowhere/notify"), "{}", ended.err);
}
