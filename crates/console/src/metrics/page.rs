//! The reference of all metrics, made from the table.

use std::fmt::Write;

use super::all;

const LABELS: &str = "\
# Metrics of a broker

## Labels

| label | values |
| --- | --- |
| `bridge` | the name of a bridge |
| `call` | `read`, `write` |
| `cause` | `limit` (of connections), `engine` (a limit of the listener or of memory), `resources` (files or memory of the system), `connection` (it was gone again), `handshake`, `protocol`; of CoAP: `malformed` (a datagram that cannot be understood), `no-place` (of a new client, when too many are remembered), `unproven` (to a client that has not proven its address and has sent too few bytes), `unacknowledged` (a confirmable message), `observer` (a message of QoS 0, when too many waited for an observer) |
| `direction` | `received` (by the broker), `sent`; of a bridge: `in` (to this broker), `out` |
| `end` | of a bridge: `local` (this broker), `remote` |
| `kind` | of a subscription: `plain`, `shared`; of bytes of the store: `journal`, `table` |
| `le` | an upper bound in seconds, or `+Inf` |
| `method` | of a request over CoAP: `read` (GET), `publish` (PUT, POST), `other` |
| `origin` | `configuration`, `operator`, `failed_logins`, `flapping` |
| `outcome` | of a message of a pipeline: `delivered` (all sinks have it), `filtered` (a step has left it out), `failed` (a step or a sink did not take it), `dropped` (its queue was full, it expired, it had QoS 0 and no room, a bus removed it, or `from` does not have its topic); of a request: `answered`, `refused` (HTTP status 400 to 499, CoAP code 4.xx), `failed` (from 500 on, 5.xx) |
| `pipeline` | the name of a pipeline |
| `qos` | `0`, `1`, `2` |
| `reason` | one of [the reasons](reasons.md) |
| `result` | of a connection: `accepted`, or the reason of the refusal; of an event: `recorded`, `counted` |
| `route` | the first part of a path: `topics`, `queue`, `subscribe`, `history`, `other` |
| `broker` | the name of a broker in an orchestrator's fleet |
| `state` | of a session: `connected`, `disconnected`; of a broker of a fleet: `connecting`, `subscribing`, `serving`, `draining`, `drained`, `down`; of the store: `ok`, `full`, `failing` |
| `type` | the packet type in lower case, `connect` to `auth` |
| `way` | how an HTTP client is sent messages: `events` (Server-Sent Events), `websocket`, `queue`, `history` |
| `version` | the version of the broker |

## Metrics

| metric | type | labels | meaning |
| --- | --- | --- | --- |
";

/// The labels and all metrics, as Markdown.
pub fn page() -> String {
    let mut out = LABELS.to_owned();
    for metric in all() {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let _ =
            writeln!(out, "| `{}` | {} | {} | {} |", metric.name, metric.kind.name(), labels.join(", "), metric.help);
    }
    out
}
