//! New files while clients stay connected.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use tidegate_node::{Node, TlsSettings};

use super::{settings, start, try_connect};
use crate::pki::{COMMON, Directory, Issued, client_config, read_again};
use crate::wire::{PINGREQ, PINGRESP, TlsSocket};

/// The certificate that a new client is shown.
fn shown(at: SocketAddr) -> CertificateDer<'static> {
    let config = Arc::new(client_config(&COMMON.authority.pem(), None));
    let socket = try_connect(at, &config).unwrap();
    socket.conn.peer_certificates().unwrap()[0].clone().into_owned()
}

fn der(issued: &Issued) -> CertificateDer<'static> {
    use rustls::pki_types::pem::PemObject;
    CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap()
}

fn ping(socket: &mut TlsSocket) {
    socket.write_all(&PINGREQ).unwrap();
    let mut answer = [0; 2];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(answer, PINGRESP);
}

#[test]
fn new_clients_get_the_new_certificate_and_connected_ones_stay() {
    let (directory, first, second) = (Directory::new(), COMMON.authority.server(), COMMON.authority.server());
    let tls = crate::pki::settings(&directory, &first);
    let (node, at) = start(tls.clone());
    let config = Arc::new(client_config(&COMMON.authority.pem(), None));
    let mut connected = try_connect(at, &config).unwrap();
    crate::pki::settings(&directory, &second);
    assert_eq!(shown(at), der(&first), "nothing changes without a reload");
    assert_eq!(read_again(&node, &[&tls]).unwrap(), 1);
    assert_eq!(shown(at), der(&second));
    ping(&mut connected);
}

#[test]
fn a_failed_reload_keeps_every_listener_as_it_is() {
    let (directory, first, second) = (Directory::new(), COMMON.authority.server(), COMMON.authority.server());
    let tls = crate::pki::settings(&directory, &first);
    let mut both = settings(tls.clone());
    both.listeners.push("mqtts://127.0.0.1:0".parse().unwrap());
    let broken = Directory::new();
    let second_tls = crate::pki::settings(&broken, &first);
    both.tls.insert(1, second_tls.clone());
    let listener = both.engine.listeners[0].clone();
    both.engine.listeners.push(listener);
    let node = Node::start(both).unwrap();
    let at = |position: usize| node.local_addresses()[position].socket().unwrap();
    crate::pki::settings(&directory, &second);
    broken.write("server.key", &second.key);
    let reload = || read_again(&node, &[&tls, &second_tls]);
    let error = reload().unwrap_err().to_string();
    assert!(error.contains("server.key does not belong to"), "{error}");
    assert_eq!((shown(at(0)), shown(at(1))), (der(&first), der(&first)), "all or nothing");
    broken.write("server.pem", &second.certificate);
    assert_eq!(reload().unwrap(), 2);
    assert_eq!((shown(at(0)), shown(at(1))), (der(&second), der(&second)));
}

#[test]
fn new_settings_are_checked_before_they_are_applied() {
    let (directory, first, second) = (Directory::new(), COMMON.authority.server(), COMMON.authority.server());
    let (node, at) = start(crate::pki::settings(&directory, &first));
    let elsewhere = Directory::new();
    let mut new = settings(crate::pki::settings(&elsewhere, &second)).tls;
    let prepared = node.handle().prepare_tls(&new).unwrap();
    assert_eq!(shown(at), der(&first));
    assert_eq!(prepared.apply(), 1);
    assert_eq!(shown(at), der(&second));
    new.insert(0, TlsSettings::new("/no/such/file", "/no/such/key"));
    assert!(node.handle().prepare_tls(&new).is_err());
    assert_eq!(shown(at), der(&second));
}

/// Puts files where a volume of secrets has them: names lead through `..data` to a directory that is swapped as a
/// whole.
fn put(directory: &Path, version: &str, issued: &Issued) {
    let real = directory.join(version);
    std::fs::create_dir(&real).unwrap();
    std::fs::write(real.join("server.pem"), &issued.certificate).unwrap();
    std::fs::write(real.join("server.key"), &issued.key).unwrap();
    symlink(version, directory.join("..next")).unwrap();
    std::fs::rename(directory.join("..next"), directory.join("..data")).unwrap();
}

#[test]
fn a_swapped_link_is_noticed_without_a_reload() {
    let (directory, first, second) = (Directory::new(), COMMON.authority.server(), COMMON.authority.server());
    put(directory.path(), "v1", &first);
    for name in ["server.pem", "server.key"] {
        symlink(Path::new("..data").join(name), directory.path().join(name)).unwrap();
    }
    let files = |name: &str| directory.path().join(name);
    let mut settings = settings(TlsSettings::new(files("server.pem"), files("server.key")));
    settings.tls_check = Duration::from_millis(5);
    let node = Node::start(settings).unwrap();
    let at = node.local_addresses()[0].socket().unwrap();
    assert_eq!(shown(at), der(&first));
    put(directory.path(), "v2", &second);
    while shown(at) != der(&second) {
        std::thread::yield_now();
    }
}
