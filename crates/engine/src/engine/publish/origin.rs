//! The origin of a message is added to its properties.

use crate::engine::facets::PublishPipeline;
use crate::ids::{ConnectionKey, SessionKey};
use crate::now::Now;
use crate::settings::overflow::matches_client;
use crate::topics::origin::{HEAD, HOPS_PROPERTY, ORIGIN_PROPERTY};
use tidegate_mqtt::PublishProperties;

impl PublishPipeline<'_> {
    /// Appends the user property for a message of a session; it has to be the first one.
    #[inline(never)]
    pub(crate) fn append_origin(&mut self, now: Now, session: Option<SessionKey>, out: &mut Vec<u8>) {
        let (origin, number) = self.engine.broker_links.next_number();
        let session = session.and_then(|session| self.engine.state.sessions.get(session.0));
        let client_id = session.map_or("", |session| &*session.client_id);
        put_origin((origin, number, now.unix), client_id, out);
    }

    /// The user property that is removed beside the origin: the number of pipelines, unless it is believed of the publisher.
    /// Otherwise a client could keep its messages from pipelines. Brokers without pipelines pass it on.
    pub(super) fn unbelieved_hops(
        &self,
        (key, session): (ConnectionKey, Option<SessionKey>),
        properties: &PublishProperties<'_>,
    ) -> &'static str {
        let state = &self.engine.state;
        if state.settings.hub_filters.is_empty()
            || !properties.user_properties.iter().any(|pair| pair.0 == HOPS_PROPERTY)
        {
            return ORIGIN_PROPERTY;
        }
        let is_own = state.connections.get(key).is_some_and(crate::connection::Connection::is_own);
        let session = session.and_then(|session| state.sessions.get(session.0));
        let is_relay = session.is_some_and(|session| {
            state.settings.hub_relays.iter().any(|pattern| matches_client(pattern, &session.client_id))
        });
        if is_own || is_relay { ORIGIN_PROPERTY } else { HOPS_PROPERTY }
    }
}

/// Appends the property, or nothing when the client id is too long for it. Formatting would take a third of the time that a
/// message needs beside this.
fn put_origin((origin, number, unix): (u64, u64, u64), client_id: &str, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(HEAD);
    let len_at = out.len();
    out.extend_from_slice(&[0; 2]);
    put_hexadecimal(origin, out);
    out.push(b'-');
    put_decimal(number, out);
    out.push(b' ');
    put_decimal(unix, out);
    out.push(b' ');
    out.extend_from_slice(client_id.as_bytes());
    match (u16::try_from(out.len() - len_at - 2), out.get_mut(len_at..len_at + 2)) {
        (Ok(len), Some(place)) => place.copy_from_slice(&len.to_be_bytes()),
        _ => out.truncate(begin),
    }
}

/// 16 hexadecimal digits.
fn put_hexadecimal(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 16];
    for (place, digit) in digits.iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (4 * place) & 0xF) as usize];
    }
    out.extend_from_slice(&digits);
}

/// Decimal digits, without zeros in front.
fn put_decimal(mut number: u64, out: &mut Vec<u8>) {
    // As many as the largest number has.
    let mut digits = [b'0'; 20];
    let mut begin = digits.len() - 1;
    for (place, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        begin = place;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[begin..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_property_has_id_time_and_client_id() {
        for numbers in [(0, 0, 0), (0xFEDC_BA98_7654_3210, 10, 1_700_000_000_123), (u64::MAX, u64::MAX, u64::MAX)] {
            let (origin, number, unix) = numbers;
            let mut out = b"before".to_vec();
            put_origin(numbers, "pump 7", &mut out);
            let value = format!("{origin:016x}-{number} {unix} pump 7");
            let len = (value.len() as u16).to_be_bytes();
            assert_eq!(out, [&b"before"[..], HEAD, &len, value.as_bytes()].concat());
        }
        let mut out = b"before".to_vec();
        put_origin((1, 1, 1), &"x".repeat(65_535), &mut out);
        assert_eq!(out, b"before");
    }
}
