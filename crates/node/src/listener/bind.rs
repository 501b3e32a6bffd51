//! From an address to a listening socket.

use std::fs::{File, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mio::net::{TcpListener, UnixListener};
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};
use tidegate_engine::ListenerId;

use super::{Acceptor, Layers, ListenSocket};
use crate::address::{HostPort, ListenAddress, LocalAddress};
use crate::limits::{BACKLOG, TCP_KEEPALIVE};
use crate::quic::{self, QuicSocket};
use crate::tls::TlsListener;
use crate::transport::Proxies;
use crate::websocket::Site;

/// The mode of a Unix socket that only its owner may open.
const OWNER_ONLY: u32 = 0o600;

/// A listener could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}; {}", advice(.source, .address))]
pub struct BindError {
    /// The address as configured.
    pub address: String,
    /// The error of the operating system.
    #[source]
    pub source: io::Error,
}

/// A remedy for the error.
fn advice(error: &io::Error, address: &str) -> &'static str {
    let file = address.starts_with("unix:");
    match error.kind() {
        io::ErrorKind::AddrInUse if file => {
            "a process listens on this socket, or the file is no socket: stop the process or choose another path"
        }
        io::ErrorKind::AddrInUse if address.starts_with("quic:") => {
            "another process listens there: stop it or choose another port (`ss -lunp` shows who it is)"
        }
        io::ErrorKind::AddrInUse => {
            "another process listens there: stop it or choose another port (`ss -ltnp` shows who it is)"
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address: `ip address` lists those it has",
        io::ErrorKind::PermissionDenied if file => {
            "let the broker's user write to the directory, or choose another path"
        }
        io::ErrorKind::PermissionDenied => {
            "ports below 1024 need the capability CAP_NET_BIND_SERVICE: grant it or choose a higher port"
        }
        io::ErrorKind::Unsupported if file => "choose a directory whose file system keeps the modes of files",
        io::ErrorKind::NotFound if file => "create the directory first",
        _ if file => "check the path",
        _ => "check the host name and the port",
    }
}

/// Starts to listen, on every address that a host name has. With port 0, all of them get the same port. `owner_only` is
/// about Unix sockets, `origins` about WebSockets.
///
/// # Errors
/// With the address, the cause and a remedy.
pub(crate) fn bind(
    address: &ListenAddress,
    id: ListenerId,
    tls: Option<&Arc<TlsListener>>,
    proxies: Option<Proxies>,
    owner_only: bool,
    origins: &[String],
) -> Result<Vec<Acceptor>, BindError> {
    let site = match address {
        ListenAddress::WebSocket { path, .. } | ListenAddress::WebSocketTls { path, .. } => {
            Some(Arc::new(Site::new(path, origins)))
        }
        _ => None,
    };
    let over = Layers { tls: tls.cloned(), site, proxies };
    let sockets = match address {
        ListenAddress::Unix(path) => bind_unix(path, owner_only).map(|socket| vec![socket]),
        // That there are settings for it was looked at before.
        // Another part of the process listens for HTTP and CoAP, and the process itself needs no socket.
        ListenAddress::Quic(_)
        | ListenAddress::Http(_)
        | ListenAddress::Https(_)
        | ListenAddress::Coap(_)
        | ListenAddress::Coaps(_)
        | ListenAddress::Process => Ok(Vec::new()),
        ListenAddress::Tcp(at)
        | ListenAddress::Tls(at)
        | ListenAddress::WebSocket { at, .. }
        | ListenAddress::WebSocketTls { at, .. } => bind_all(at, bind_tcp).map(|all| {
            let local = |(listener, at)| (ListenSocket::Tcp(listener, over.clone()), over.address(at));
            all.into_iter().map(local).collect()
        }),
    };
    let sockets: Vec<_> = sockets.map_err(|source| BindError { address: address.to_string(), source })?;
    Ok(sockets.into_iter().map(|(socket, address)| Acceptor::new(id, socket, address)).collect())
}

/// Binds a UDP socket for QUIC on every address that a host name has.
///
/// # Errors
/// With the address, the cause and a remedy.
pub(crate) fn bind_quic(
    at: &HostPort,
    id: ListenerId,
    tls: &Arc<TlsListener>,
) -> Result<Vec<(QuicSocket, LocalAddress)>, BindError> {
    let sockets = bind_all(at, quic::bind).map_err(|source| BindError { address: format!("quic://{at}"), source })?;
    let socket = |(bound, at)| (QuicSocket::new(id, Arc::clone(tls), bound), LocalAddress::Quic(at));
    Ok(sockets.into_iter().map(socket).collect())
}

fn bind_all<S>(
    at: &HostPort,
    bind_one: impl Fn(SocketAddr) -> io::Result<(S, SocketAddr)>,
) -> io::Result<Vec<(S, SocketAddr)>> {
    let mut bound: Vec<(S, SocketAddr)> = Vec::new();
    let mut failed = None;
    for mut address in at.resolve()? {
        if let Some((_, first)) = bound.first() {
            address.set_port(first.port());
        }
        if bound.iter().any(|(_, other)| *other == address) {
            continue;
        }
        match bind_one(address) {
            Ok(listener) => bound.push(listener),
            // A name often has an IPv6 address on machines without IPv6.
            Err(error) if is_missing_family(&error) => failed = Some(error),
            Err(error) => return Err(error),
        }
    }
    match failed {
        Some(error) if bound.is_empty() => Err(error),
        None if bound.is_empty() => Err(io::ErrorKind::AddrNotAvailable.into()),
        _ => Ok(bound),
    }
}

fn is_missing_family(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(libc::EAFNOSUPPORT)
}

fn bind_tcp(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None)?;
    // So that a restart need not wait for old connections to be forgotten. SO_REUSEPORT stays off: with it, a second
    // broker would start and quietly take half of the clients.
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit these, which saves two calls for each.
    socket.set_tcp_nodelay(true)?;
    let (time, interval, retries) = TCP_KEEPALIVE;
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(time))
        .with_interval(Duration::from_secs(interval))
        .with_retries(retries);
    socket.set_tcp_keepalive(&keepalive)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let listener = TcpListener::from_std(socket.into());
    let local = listener.local_addr()?;
    Ok((listener, local))
}

fn bind_unix(path: &Path, owner_only: bool) -> io::Result<(ListenSocket, LocalAddress)> {
    let (listener, file) = match listen_unix(path, owner_only) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(path) => {
            std::fs::remove_file(path)?;
            listen_unix(path, owner_only)?
        }
        outcome => outcome?,
    };
    Ok((ListenSocket::Unix(listener, file), LocalAddress::Unix(path.to_owned())))
}

fn listen_unix(path: &Path, owner_only: bool) -> io::Result<(UnixListener, SocketFile)> {
    let mut socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    if owner_only {
        // Linux gives the new file the mode of the socket: a later change of the path could meet another file.
        let open = File::from(OwnedFd::from(socket));
        open.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
        socket = OwnedFd::from(open).into();
    }
    socket.bind(&SockAddr::unix(path)?)?;
    // It removes the file where the rest fails.
    let file = SocketFile::of(path)?;
    if owner_only {
        check_owner_only(file.mode)?;
    }
    socket.listen(BACKLOG)?;
    Ok((UnixListener::from_std(socket.into()), file))
}

/// # Errors
/// The mode of a Unix socket, where others than its owner may open it, or its owner may not.
fn check_owner_only(mode: u32) -> io::Result<()> {
    if mode == OWNER_ONLY {
        return Ok(());
    }
    let text = format!("the socket file has the mode {mode:o} in place of {OWNER_ONLY:o}");
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

/// Whether a file is a socket without a listener. Any other file is left alone.
fn is_stale(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).is_err_and(refused)
}

/// The file of a Unix socket; removed with the listener, unless another one has taken its place.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// The permissions when it was made.
    mode: u32,
}

impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        let file = std::fs::symlink_metadata(path)?;
        if !file.file_type().is_socket() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another file took the place of the socket"));
        }
        Ok(Self { path: path.to_owned(), device: file.dev(), inode: file.ino(), mode: file.mode() & 0o777 })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = std::fs::symlink_metadata(&self.path)
            .is_ok_and(|file| (file.dev(), file.ino()) == (self.device, self.inode));
        if ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "could not remove the socket file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(text: &str) -> Result<Vec<Acceptor>, BindError> {
        bind(&text.parse().unwrap(), ListenerId(0), None, None, false, &[])
    }

    fn temporary(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("tidegate-bind-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        directory.join(name)
    }

    #[test]
    fn a_second_listener_fails_and_says_where_why_and_what_to_do() {
        let first = listen("127.0.0.1:0").unwrap();
        let address = first[0].address().to_string();
        let text = listen(&address).unwrap_err().to_string();
        for part in [address.as_str(), "ddress already in use", "choose another port"] {
            assert!(text.contains(part), "{text}");
        }
        let text = listen("192.0.2.1:1").unwrap_err().to_string();
        assert!(text.contains("192.0.2.1:1") && text.contains("no such address"), "{text}");
        let text = listen("no-such-host.invalid:1").unwrap_err().to_string();
        assert!(text.contains("check the host name"), "{text}");
    }

    #[test]
    fn all_addresses_of_a_name_get_the_same_port() {
        let bound = listen("localhost:0").unwrap();
        let ports: Vec<u16> = bound.iter().filter_map(|one| one.address().socket()).map(|at| at.port()).collect();
        assert!(ports[0] != 0 && ports.iter().all(|port| *port == ports[0]), "{ports:?}");
    }

    #[test]
    fn accepted_sockets_inherit_no_delay_and_keep_alive() {
        let mut bound = listen("127.0.0.1:0").unwrap();
        let at = bound[0].address().socket().unwrap();
        let _client = std::net::TcpStream::connect(at).unwrap();
        let ListenSocket::Tcp(listener, _) = bound[0].socket_mut() else { unreachable!() };
        let (accepted, _) = listener.accept().unwrap();
        assert!(accepted.nodelay().unwrap());
        assert!(socket2::SockRef::from(&accepted).keepalive().unwrap());
    }

    #[test]
    fn a_listener_keeps_its_token_when_others_close() {
        let mut poll = mio::Poll::new().unwrap();
        let mut bound = listen("127.0.0.1:0").unwrap();
        bound.extend(listen("127.0.0.1:0").unwrap());
        for (position, acceptor) in bound.iter_mut().enumerate() {
            acceptor.register(poll.registry(), mio::Token(position)).unwrap();
        }
        bound.remove(0);
        let _client = std::net::TcpStream::connect(bound[0].address().socket().unwrap()).unwrap();
        let mut events = mio::Events::with_capacity(8);
        poll.poll(&mut events, Some(std::time::Duration::from_secs(60))).unwrap();
        let named: Vec<bool> = events.iter().map(|event| bound[0].is_named(event.token())).collect();
        assert_eq!(named, [true]);
    }

    #[test]
    fn only_a_stale_socket_file_is_replaced() {
        let path = temporary("stale.sock");
        let address = format!("unix:{}", path.display());
        let stale = std::os::unix::net::UnixListener::bind(&path).unwrap();
        drop(stale);
        assert!(path.exists(), "the file outlives its listener");
        let live = listen(&address).unwrap();
        let text = listen(&address).unwrap_err().to_string();
        assert!(text.contains(&address) && text.contains("choose another path"), "{text}");
        drop(live);
        assert!(!path.exists(), "the file goes with its listener");

        std::fs::write(&path, "precious").unwrap();
        assert!(listen(&address).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn only_its_owner_may_open_an_owner_only_socket() {
        let path = temporary("owner.sock");
        let address = format!("unix:{}", path.display()).parse().unwrap();
        let _bound = bind(&address, ListenerId(0), None, None, true, &[]).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_socket_that_others_may_open_is_refused() {
        assert!(check_owner_only(0o600).is_ok());
        for mode in [0o755, 0o660, 0o000] {
            let error = check_owner_only(mode).unwrap_err();
            assert!(error.to_string().contains(&format!("the mode {mode:o} in place of 600")), "{error}");
            assert!(advice(&error, "unix:/x").contains("file system"), "{error}");
        }
    }

    #[test]
    fn a_failed_listener_leaves_no_file_of_its_socket() {
        let path = temporary("failed.sock");
        let refused = |path: &Path| -> io::Result<()> {
            let (_listener, file) = listen_unix(path, true)?;
            check_owner_only(file.mode | 0o066)
        };
        assert!(refused(&path).is_err());
        assert!(!path.exists());
    }

    #[test]
    fn a_listener_leaves_the_file_of_its_successor() {
        let path = temporary("successor.sock");
        let first = listen(&format!("unix:{}", path.display())).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = listen(&format!("unix:{}", path.display())).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }
}
