//! CONNECT: the client, its id, and its session ([MQTT-3.1]).

mod check;
pub(crate) mod grant;

use crate::now::Millis;

/// When a silent connection is given up: after one and a half times the keep-alive time ([MQTT-3.1.2-22]).
pub(crate) fn keep_alive_deadline(last_seen: Millis, keep_alive: u16) -> Millis {
    if keep_alive == 0 { Millis::NEVER } else { last_seen.plus(u64::from(keep_alive) * 1500) }
}
