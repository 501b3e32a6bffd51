//! Version 2: sixteen bytes, two addresses, and whatever else the proxy has to say.

use std::net::{IpAddr, SocketAddr};

use tidegate_engine::TenantId;

use super::{HEADER_MAX, Header, HeaderFields, Progress, ProxyError, RelayedTenant};

pub(super) const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version and command, family, length.
const FIXED: usize = 16;

/// Version 2 with the command LOCAL, or PROXY.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;

const UNSPECIFIED: u8 = 0x00;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;

/// The field with the tenant of a relayed client: whether it is settled, and its number. Types from 0xE0 to 0xEF are free
/// for applications.
const TENANT: u8 = 0xE7;
/// The field with the proof of the tenant or the target.
const PROOF: u8 = 0xE8;
/// The field of a node that continues the connection at another home. It is empty.
const CONTINUES: u8 = 0xE9;
/// The field of a node that asks to carry a client: address and port of its home.
const CARRY_TO: u8 = 0xEA;
/// Type and length of a field.
const FIELD_HEADER: usize = 3;

/// Bytes of a pair of Unix addresses.
const UNIX_LEN: usize = 216;

pub(super) fn parse(bytes: &[u8]) -> Result<Progress, ProxyError> {
    let fixed: Option<&[u8; FIXED]> = bytes.first_chunk();
    // A wrong field is refused as soon as it is received.
    if let Some(command) = bytes.get(12)
        && ![LOCAL, PROXY].contains(command)
    {
        return Err(ProxyError::Malformed("the version or the command is not known"));
    }
    let Some([.., command, family, high, low]) = fixed else { return Ok(Progress::Partial) };
    let rest = usize::from(u16::from_be_bytes([*high, *low]));
    let length = FIXED + rest;
    if length > HEADER_MAX {
        return Err(ProxyError::TooLong);
    }
    let needed = match (*command, *family) {
        (LOCAL, _) | (_, UNSPECIFIED) => 0,
        (_, TCP_OVER_IPV4) => 12,
        (_, TCP_OVER_IPV6) => 36,
        (_, UNIX_STREAM) => UNIX_LEN,
        _ => return Err(ProxyError::Malformed("the connection is neither TCP nor a Unix stream")),
    };
    if rest < needed {
        return Err(ProxyError::Malformed("it is too short for its addresses"));
    }
    let Some(body) = bytes.get(FIXED..length) else { return Ok(Progress::Partial) };
    let source = if *command == LOCAL { None } else { source(*family, body) };
    let fields = fields(body.get(needed..).unwrap_or_default());
    Ok(Progress::Complete(Header { length, source, fields }))
}

/// Finds the fields of nodes behind the addresses. A field that ends beyond the header ends the search.
fn fields(mut fields: &[u8]) -> HeaderFields {
    let mut found = HeaderFields::default();
    while let Some([kind, high, low]) = fields.first_chunk::<FIELD_HEADER>() {
        let end = FIELD_HEADER + usize::from(u16::from_be_bytes([*high, *low]));
        let Some(value) = fields.get(FIELD_HEADER..end) else { break };
        match (*kind, value) {
            (TENANT, [settled, high, low, mark @ ..]) => {
                let number = TenantId(u16::from_be_bytes([*high, *low]));
                let mark = mark.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
                found.tenant = found.tenant.or(Some(RelayedTenant { tenant: number, settled: *settled != 0, mark }));
            }
            (PROOF, value) => found.proof = found.proof.or(value.try_into().ok()),
            (CONTINUES, _) => found.continues = true,
            (CARRY_TO, value) => found.carry_to = found.carry_to.or(target(value)),
            _ => {}
        }
        fields = fields.get(end..).unwrap_or_default();
    }
    found
}

/// The address and port of a home.
fn target(value: &[u8]) -> Option<SocketAddr> {
    let (address, port) = value.split_last_chunk::<2>()?;
    let address = match address.len() {
        4 => IpAddr::from(*address.first_chunk::<4>()?),
        _ => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
    };
    Some(SocketAddr::new(address, u16::from_be_bytes(*port)))
}

/// Addresses are source, destination, source port, destination port.
fn source(family: u8, body: &[u8]) -> Option<SocketAddr> {
    let port = |place: usize| body.get(place..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes));
    match family {
        TCP_OVER_IPV4 => Some(SocketAddr::new(IpAddr::from(*body.first_chunk::<4>()?), port(8)?)),
        TCP_OVER_IPV6 => Some(SocketAddr::new(IpAddr::from(*body.first_chunk::<16>()?).to_canonical(), port(32)?)),
        _ => None,
    }
}

/// A header: the addresses of the client and of its target, both of one family, or none if the proxy speaks for itself.
pub(super) fn write(addresses: Option<(SocketAddr, SocketAddr)>, fields: HeaderFields) -> Vec<u8> {
    let HeaderFields { tenant, proof, continues, carry_to } = fields;
    let mut header = SIGNATURE.to_vec();
    let (command, family, mut body) = match addresses {
        Some((SocketAddr::V4(source), SocketAddr::V4(destination))) => {
            let mut body = [source.ip().octets(), destination.ip().octets()].concat();
            body.extend([source.port(), destination.port()].map(u16::to_be_bytes).concat());
            (PROXY, TCP_OVER_IPV4, body)
        }
        Some((SocketAddr::V6(source), SocketAddr::V6(destination))) => {
            let mut body = [source.ip().octets(), destination.ip().octets()].concat();
            body.extend([source.port(), destination.port()].map(u16::to_be_bytes).concat());
            (PROXY, TCP_OVER_IPV6, body)
        }
        _ => (LOCAL, UNSPECIFIED, Vec::new()),
    };
    if let Some(RelayedTenant { tenant, settled, mark }) = tenant {
        let [high, low] = tenant.0.to_be_bytes();
        body.extend([TENANT, 0, 7, u8::from(settled), high, low]);
        body.extend(mark.to_be_bytes());
    }
    if let Some(proof) = proof {
        body.extend([PROOF, 0, proof.len() as u8]);
        body.extend(proof);
    }
    if continues {
        body.extend([CONTINUES, 0, 0]);
    }
    if let Some(home) = carry_to {
        let address = match home.ip() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        body.extend([CARRY_TO, 0, address.len() as u8 + 2]);
        body.extend(address);
        body.extend(home.port().to_be_bytes());
    }
    header.extend([command, family]);
    header.extend((body.len() as u16).to_be_bytes());
    header.extend(body);
    header
}
