//! A ban as a key and a value, for a store.
//!
//! The key is a kind (`4`, `6`, `c`, `u`) and the target: the prefix length and the address, or the tenant (two bytes)
//! and the name. The value is its version, the origin, since and until in milliseconds since 1970 (eight bytes each,
//! most significant first; all ones is without end), and the reason.
//!
//! The end of a ban has a key of its own, `e` and the key of the ban: an automatic ban of the same target does not
//! overwrite it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tidegate_engine::{Millis, Now, TenantId};

use super::{Ban, BanEnd, BanOrigin, BanTarget};
use crate::admission::source::Network;

const VERSION: u8 = 1;
/// Version of a value that says that the ban has ended.
const ENDED: u8 = 2;
/// First byte of the key of an end.
const END_KEY: u8 = b'e';

/// A record is no ban.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The key has no valid target.
    #[error("the key of a stored ban names neither an address nor a client nor a user")]
    Key,
    /// The value is of a version that is not known.
    #[error("a stored ban has the format {0}, which this version does not read: use the version that wrote it")]
    Version(u8),
    /// The value is cut off or not text where it should be.
    #[error("the value of a stored ban is damaged")]
    Value,
}

/// The key of a ban.
pub(crate) fn key_of(target: &BanTarget) -> Vec<u8> {
    match target {
        BanTarget::Address(network) => match network.address() {
            IpAddr::V4(address) => [&[b'4', network.prefix()][..], &address.octets()].concat(),
            IpAddr::V6(address) => [&[b'6', network.prefix()][..], &address.octets()].concat(),
        },
        BanTarget::Client(tenant, name) => named(b'c', *tenant, name),
        BanTarget::User(tenant, name) => named(b'u', *tenant, name),
    }
}

fn named(kind: u8, tenant: TenantId, name: &str) -> Vec<u8> {
    [&[kind][..], &tenant.0.to_be_bytes(), name.as_bytes()].concat()
}

/// A ban as key and value.
pub(crate) fn encode(now: Now, ban: &Ban) -> (Vec<u8>, Vec<u8>) {
    let mut value = vec![VERSION, number_of(ban.origin)];
    value.extend_from_slice(&ban.since.to_be_bytes());
    value.extend_from_slice(&now.to_unix(ban.until).to_be_bytes());
    value.extend_from_slice(ban.reason.as_bytes());
    (key_of(&ban.target), value)
}

/// The key of the end of a ban.
pub(crate) fn key_of_end(target: &BanTarget) -> Vec<u8> {
    [&[END_KEY], key_of(target).as_slice()].concat()
}

/// The end of a ban as key and value: when it was changed and when that was noted, milliseconds since 1970.
pub(crate) fn encode_end(target: &BanTarget, end: BanEnd) -> (Vec<u8>, Vec<u8>) {
    let mut value = vec![ENDED];
    value.extend_from_slice(&end.changed.to_be_bytes());
    value.extend_from_slice(&end.noted.to_be_bytes());
    (key_of_end(target), value)
}

/// The end of a ban from key and value; `None` when it is no end. Earlier versions wrote it under the key of the ban,
/// with one time.
pub(crate) fn decode_end(key: &[u8], value: &[u8]) -> Option<(BanTarget, BanEnd)> {
    let (changed, rest) = value.strip_prefix(&[ENDED])?.split_first_chunk()?;
    let changed = u64::from_be_bytes(*changed);
    let noted = if rest.is_empty() { changed } else { u64::from_be_bytes(rest.try_into().ok()?) };
    let target = target_of(key.strip_prefix(&[END_KEY]).unwrap_or(key))?;
    Some((target, BanEnd { changed, noted }))
}

/// A ban from key and value.
pub(crate) fn decode(now: Now, key: &[u8], value: &[u8]) -> Result<Ban, RecordError> {
    let target = target_of(key).ok_or(RecordError::Key)?;
    let (version, rest) = value.split_first().ok_or(RecordError::Value)?;
    if *version != VERSION {
        return Err(RecordError::Version(*version));
    }
    let (origin, rest) = rest.split_first().ok_or(RecordError::Value)?;
    let (since, rest) = rest.split_first_chunk().ok_or(RecordError::Value)?;
    let (until, reason) = rest.split_first_chunk().ok_or(RecordError::Value)?;
    let (since, until) = (u64::from_be_bytes(*since), u64::from_be_bytes(*until));
    // A wall clock that was set back makes no ban longer than it was meant to be.
    let longest = if until == u64::MAX { Millis::NEVER } else { now.monotonic.plus(until.saturating_sub(since)) };
    Ok(Ban {
        target,
        reason: std::str::from_utf8(reason).map_err(|_| RecordError::Value)?.into(),
        origin: BanOrigin::ALL.into_iter().find(|it| number_of(*it) == *origin).ok_or(RecordError::Value)?,
        since,
        until: now.from_unix(until).min(longest),
    })
}

fn target_of(key: &[u8]) -> Option<BanTarget> {
    let (kind, rest) = key.split_first()?;
    match kind {
        b'4' => {
            let (prefix, octets) = rest.split_first()?;
            let address = Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?);
            (*prefix <= 32).then(|| BanTarget::Address(Network::new(IpAddr::V4(address), *prefix)))
        }
        b'6' => {
            let (prefix, octets) = rest.split_first()?;
            let address = Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?);
            (*prefix <= 128).then(|| BanTarget::Address(Network::new(IpAddr::V6(address), *prefix)))
        }
        b'c' | b'u' => {
            let (tenant, name) = rest.split_first_chunk()?;
            let tenant = TenantId(u16::from_be_bytes(*tenant));
            let name = std::str::from_utf8(name).ok()?.into();
            Some(if *kind == b'c' { BanTarget::Client(tenant, name) } else { BanTarget::User(tenant, name) })
        }
        _ => None,
    }
}

/// The number of an origin in a record; it never changes.
fn number_of(origin: BanOrigin) -> u8 {
    match origin {
        BanOrigin::Configuration => 0,
        BanOrigin::Operator => 1,
        BanOrigin::FailedLogins => 2,
        BanOrigin::Flapping => 3,
    }
}
