//! The page `docs/metrics.md`, made from the table.

use std::fmt::Write;

use super::all;

const INTRODUCTION: &str = "\
# Metrics

<!-- Made from the table in crates/console/src/metrics/table.rs; a test keeps it current. -->

`/metrics` on the admin address (`http://127.0.0.1:18083` by default) answers in the text format of Prometheus:

```yaml
scrape_configs:
  - job_name: tidegate
    static_configs:
      - targets: [\"127.0.0.1:18083\"]
```

`deploy/monitoring` has a board for Grafana (`grafana.json`: Dashboards, New, Import) and rules for alarms (`alerts.yml`, under `rule_files` of Prometheus). Neither was loaded into those programs
here; a test holds both to the names and labels below.

`/healthz` answers 200 while the process works. `/readyz` answers 200 while clients are taken in, and 503 before that, while the broker
is stopping, while the store takes nothing, and while the clients of an orchestrator are sent elsewhere; the body says which, and what the disk said. Others than this machine reach them only when that is asked for: `admin.address`, `admin.allow_anonymous` and
`admin.token_file` in [the configuration](configuration.md).

The sets of labels are closed; no client and no topic is a label, so the number of series does not grow with the load. Names that begin
with `mqtt_` count what the protocol knows, those with `tidegate_` what this broker does, those with `process_` what the system says.

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
| `outcome` | of a message of a pipeline: `delivered` (all sinks have it), `filtered` (a step has left it out), `failed` (a step or a sink did not take it), `dropped` (QoS 0, without room); of a request: `answered`, `refused` (HTTP status 400 to 499, CoAP code 4.xx), `failed` (from 500 on, 5.xx) |
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

| metric | type | labels | meaning |
| --- | --- | --- | --- |
";

/// The whole page, Markdown.
pub fn page() -> String {
    let mut out = INTRODUCTION.to_owned();
    for metric in all() {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let _ =
            writeln!(out, "| `{}` | {} | {} | {} |", metric.name, metric.kind.name(), labels.join(", "), metric.help);
    }
    out
}
