//! Version 1: one line of text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Header, HeaderFields, Progress, ProxyError};

pub(super) const SIGNATURE: &[u8] = b"PROXY ";

/// Longest line with its end, bytes.
const LINE_MAX: usize = 107;

pub(super) fn parse(bytes: &[u8]) -> Result<Progress, ProxyError> {
    let window = bytes.get(..LINE_MAX).unwrap_or(bytes);
    let Some(end) = window.iter().position(|byte| b"\r\n".contains(byte)) else {
        let too_long = bytes.len() >= LINE_MAX;
        return if too_long { Err(ProxyError::Malformed("the line does not end")) } else { Ok(Progress::Partial) };
    };
    match (window.get(end), window.get(end + 1)) {
        (Some(b'\r'), Some(b'\n')) => {}
        (Some(b'\r'), None) if end + 1 < LINE_MAX => return Ok(Progress::Partial),
        _ => return Err(ProxyError::Malformed("the line does not end with CR LF")),
    }
    let line = window.get(SIGNATURE.len()..end).unwrap_or_default();
    let text = std::str::from_utf8(line).ok().filter(|text| text.is_ascii());
    let text = text.ok_or(ProxyError::Malformed("the line is not plain text"))?;
    Ok(Progress::Complete(Header { length: end + 2, source: source(text)?, fields: HeaderFields::default() }))
}

fn source(text: &str) -> Result<Option<SocketAddr>, ProxyError> {
    // The rest after UNKNOWN is to be ignored.
    if text == "UNKNOWN" || text.starts_with("UNKNOWN ") {
        return Ok(None);
    }
    let parts: Vec<&str> = text.split(' ').collect();
    let [family, source, destination, source_port, destination_port] = parts.as_slice() else {
        return Err(ProxyError::Malformed("the line does not have a protocol, two addresses and two ports"));
    };
    let address = |text: &str| match *family {
        "TCP4" => text.parse::<Ipv4Addr>().map(IpAddr::V4).ok(),
        "TCP6" => text.parse::<Ipv6Addr>().map(IpAddr::V6).ok(),
        _ => None,
    };
    if !["TCP4", "TCP6"].contains(family) {
        return Err(ProxyError::Malformed("the protocol is neither TCP4 nor TCP6 nor UNKNOWN"));
    }
    let wrong_address = ProxyError::Malformed("an address of another protocol");
    let (from, _) = address(source).zip(address(destination)).ok_or(wrong_address)?;
    let (from_port, _) = port(source_port)
        .zip(port(destination_port))
        .ok_or(ProxyError::Malformed("a port is no number up to 65535"))?;
    Ok(Some(SocketAddr::new(from.to_canonical(), from_port)))
}

/// A port, without a sign or leading zeros.
fn port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    plain.then(|| text.parse().ok()).flatten()
}
