//! The cause of unreachable servers of NATS. Its client returns only the kind of an error ("IO error"), so a connection
//! of our own looks.

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use crate::address::Server;
use crate::complaints::Complaint;

/// How long each step may take.
const STEP: Duration = Duration::from_secs(2);
/// Bytes of the line with which a server begins that are read at most.
const INFO_BYTES: u64 = 65_536;

/// The security of this process's connections: TLS, and a certificate of its own.
#[derive(Clone, Copy)]
pub(super) struct Ours {
    pub(super) tls: bool,
    pub(super) has_certificate: bool,
}

/// Looks at the servers, one after the other, until one shows the fault. `said` is the error of the client.
pub(super) async fn diagnose(servers: &[Server], ours: Ours, said: &str) -> Complaint {
    let mut last = None;
    for server in servers {
        match look(server).await {
            Err(complaint) => last = Some(complaint),
            // This server answers, so its diagnosis counts.
            Ok(info) => return judge(server, &info, ours, said),
        }
    }
    last.unwrap_or_else(|| Complaint { cause: said.to_owned(), next: "see what its servers log" })
}

/// The INFO of a server.
async fn look(server: &Server) -> Result<Value, Complaint> {
    let complaint = |cause, next| Complaint { cause, next };
    let found = timeout(STEP, lookup_host((server.host.as_str(), server.port))).await;
    let addresses: Vec<_> = match found {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => {
            let next = "check the name in the address of the bus, and who resolves names here";
            return Err(complaint(format!("the name of {server} is not resolved ({error})"), next));
        }
        Err(_) => {
            let next = "see whether the servers of names can be reached from here";
            return Err(complaint(format!("the name of {server} has no address"), next));
        }
    };
    let stream = match timeout(STEP, TcpStream::connect(&*addresses)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
            let next = "start `nats-server -js` there, or correct the port (4222 is the usual one)";
            return Err(complaint(format!("nothing listens at {server} (connection refused)"), next));
        }
        Ok(Err(error)) => {
            let next = "see whether it can be reached from here, and what firewalls allow";
            return Err(complaint(format!("{server} cannot be reached ({error})"), next));
        }
        Err(_) => {
            let next = "see whether that machine runs, and what firewalls allow";
            return Err(complaint(format!("{server} does not answer within {STEP:?}"), next));
        }
    };
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream.take(INFO_BYTES));
    let read = timeout(STEP, reader.read_until(b'\n', &mut line)).await;
    let info = line.strip_prefix(b"INFO ").and_then(|info| serde_json::from_slice(info).ok());
    info.filter(|_| matches!(read, Ok(Ok(_)))).ok_or_else(|| {
        let next = "correct the port: that of NATS for clients is usually 4222, 8222 is another one";
        complaint(format!("{server} answers, but not as NATS does"), next)
    })
}

/// The fault of a server that can be reached.
fn judge(server: &Server, info: &Value, ours: Ours, said: &str) -> Complaint {
    let has = |key: &str| info[key].as_bool().unwrap_or(false);
    let (cause, next) = if has("tls_required") && !ours.tls {
        (format!("{server} wants TLS"), "set `bus_tls`, and `bus_ca` where the system does not know its authority")
    } else if ours.tls && !has("tls_required") && !has("tls_available") {
        (format!("{server} speaks no TLS"), "set it up there, or leave `bus_tls` out")
    } else if has("tls_verify") && !ours.has_certificate {
        (format!("{server} wants a certificate"), "set `bus_certificate` and `bus_key`")
    } else if said.contains("authorization") || (has("auth_required") && said.contains("nonce")) {
        (format!("{server} refuses the user or the password"), "correct user:password@ in the address of the bus")
    } else if ours.tls {
        let next =
            "see whether `bus_ca` has the authority of its certificate, which has to name it as the address does";
        (format!("TLS with {server} fails ({said})"), next)
    } else {
        (format!("{server} ends the connection ({said})"), "read its log")
    };
    Complaint { cause, next }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(info: &Value, ours: Ours, said: &str) -> String {
        judge(&Server { host: "n1".to_owned(), port: 4222 }, info, ours, said).to_string()
    }

    #[test]
    fn each_info_of_a_server_has_its_advice() {
        let (plain, tls) = (Ours { tls: false, has_certificate: false }, Ours { tls: true, has_certificate: false });
        let with = Ours { tls: true, has_certificate: true };
        let wants = json!({ "tls_required": true });
        assert!(judged(&wants, plain, "TLS error").contains("n1:4222 wants TLS; set `bus_tls`"));
        assert!(judged(&wants, tls, "TLS error").contains("see whether `bus_ca`"));
        assert!(judged(&json!({}), tls, "TLS error").contains("leave `bus_tls` out"));
        let verifies = json!({ "tls_required": true, "tls_verify": true });
        assert!(judged(&verifies, tls, "IO error").contains("set `bus_certificate` and `bus_key`"));
        let asks = json!({ "tls_required": true, "tls_verify": true, "auth_required": true });
        assert!(judged(&asks, with, "authorization violation").contains("correct user:password@"));
        assert!(judged(&json!({}), plain, "IO error").contains("n1:4222 ends the connection (IO error)"));
    }
}
