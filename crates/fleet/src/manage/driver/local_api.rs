//! The manager's answers: its status and plan for this machine, its metrics for other machines as well.
//!
//! | path | answer | where |
//! | --- | --- | --- |
//! | `/api/v1/status` | the fleet as it is | this machine |
//! | `/api/v1/plan` | the actions that would begin now, with the reason against each | this machine |
//! | `/metrics` | metrics for Prometheus | everywhere |
//! | `/healthz` | `{}` while the manager observes its fleet, else 503 | everywhere |
//! | `/apis/external.metrics.k8s.io/v1beta1` | metrics for autoscalers ([`external_metrics`](super::external_metrics)) | other machines |

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use tidegate_admin::Request;
use tidegate_admin::manager::{GetHealth, GetPlan, GetStatus};

use super::super::metrics::ScalingNumbers;
use super::endpoint::{Answers, Head, HttpAnswer};
use super::external_metrics;

/// The answers: the newest status, plan and metrics, and the time of the manager's last look at its fleet.
#[derive(Clone, Debug)]
pub(super) struct Shown(Arc<Mutex<Page>>);

#[derive(Debug)]
struct Page {
    status: Value,
    plan: Value,
    metrics: String,
    numbers: ScalingNumbers,
    beat: Instant,
    /// The wall clock at `beat`.
    at: SystemTime,
    /// Time without a look after which the manager counts as hanging.
    patience: Duration,
}

impl Shown {
    /// An empty page, of a manager with this time between two looks.
    pub(super) fn new(patience: Duration) -> Self {
        Self(Arc::new(Mutex::new(Page {
            status: Value::Null,
            plan: Value::Null,
            metrics: String::new(),
            numbers: ScalingNumbers::default(),
            beat: Instant::now(),
            at: SystemTime::now(),
            patience,
        })))
    }

    fn page(&self) -> std::sync::MutexGuard<'_, Page> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, status: Value, plan: Value, metrics: String, numbers: ScalingNumbers) {
        let mut page = self.page();
        (page.status, page.plan, page.metrics, page.numbers) = (status, plan, metrics, numbers);
        (page.beat, page.at) = (Instant::now(), SystemTime::now());
    }
}

impl Page {
    /// `/metrics` and `/healthz`.
    fn monitoring(&self, path: &str) -> Option<HttpAnswer> {
        match path {
            "/metrics" => Some(HttpAnswer {
                status: "200 OK",
                content_type: "text/plain; version=0.0.4; charset=utf-8",
                body: self.metrics.clone(),
            }),
            GetHealth::ROUTE => Some(self.hanging().unwrap_or_else(|| HttpAnswer::json("200 OK", &json!({})))),
            _ => None,
        }
    }

    /// The error while the manager does not observe its fleet.
    fn hanging(&self) -> Option<HttpAnswer> {
        let silent = self.beat.elapsed();
        let why = format!("the manager has not observed its fleet for {} s: restart it", silent.as_secs());
        (silent > self.patience).then(|| HttpAnswer::error("503 Service Unavailable", &why))
    }
}

/// The answers to this machine.
#[derive(Debug)]
pub(super) struct LocalApi(pub(super) Shown);

impl Answers for LocalApi {
    fn answer(&self, head: &Head) -> HttpAnswer {
        let page = self.0.page();
        // A page in a browser whose name leads here must not read this.
        if !head.host.as_deref().is_some_and(names_loopback) {
            return HttpAnswer::error("403 Forbidden", "the request must name a loopback host, such as 127.0.0.1");
        }
        let found = match head.path.as_str() {
            GetStatus::ROUTE => Some(HttpAnswer::json("200 OK", &page.status)),
            GetPlan::ROUTE => Some(HttpAnswer::json("200 OK", &page.plan)),
            path => page.monitoring(path),
        };
        only_get(head, found, "there is /api/v1/status, /api/v1/plan, /metrics and /healthz")
    }
}

/// The answers to other machines: numbers, and nothing that names a client.
#[derive(Debug)]
pub(super) struct MetricsApi(pub(super) Shown);

impl Answers for MetricsApi {
    fn answer(&self, head: &Head) -> HttpAnswer {
        let page = self.0.page();
        let found = page.monitoring(&head.path).or_else(|| {
            let answer = external_metrics::answer(head, &page.numbers, page.at)?;
            // An autoscaler must not act on old numbers.
            Some(page.hanging().unwrap_or(answer))
        });
        only_get(head, found, "there is /metrics, /healthz and /apis/external.metrics.k8s.io/v1beta1")
    }
}

fn only_get(head: &Head, found: Option<HttpAnswer>, known: &str) -> HttpAnswer {
    match found {
        _ if head.method != "GET" => HttpAnswer::error("405 Method Not Allowed", "this endpoint only answers GET"),
        Some(found) => found,
        None => HttpAnswer::error("404 Not Found", known),
    }
}

fn names_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "localhost" || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpStream};

    use super::super::endpoint::HttpEndpoint;
    use super::super::endpoint::tests::ask;
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    fn shown() -> Shown {
        let shown = Shown::new(HOUR);
        let metrics = "tidegate_fleet_clients 3\n".to_owned();
        shown.set(json!({"fleet": "a"}), json!({"plan": 1}), metrics, ScalingNumbers::default());
        shown
    }

    #[test]
    fn local_clients_read_and_no_client_writes() {
        let api = HttpEndpoint::start(ANY, Arc::new(LocalApi(shown())), None).unwrap();
        let ask = |request: &str| ask(api.address(), request);
        let status = ask("GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n");
        assert!(status.starts_with("HTTP/1.1 200") && status.ends_with("{\"fleet\":\"a\"}\n"), "{status}");
        assert!(ask("GET /api/v1/plan HTTP/1.1\r\nHost: localhost\r\n\r\n").contains("\"plan\":1"));
        let metrics = ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(metrics.contains("text/plain") && metrics.ends_with("tidegate_fleet_clients 3\n"), "{metrics}");
        assert!(ask("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask("POST /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask("GET /api/v1/status HTTP/1.1\r\nHost: evil.example\r\n\r\n").starts_with("HTTP/1.1 403"));
        assert!(ask("GET /api/v1/status HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 403"));
        let address = api.address();
        drop(api);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn other_machines_read_metrics_and_no_status() {
        let api = HttpEndpoint::start(ANY, Arc::new(MetricsApi(shown())), None).unwrap();
        let ask = |path: &str| ask(api.address(), &format!("GET {path} HTTP/1.1\r\nHost: manager:18084\r\n\r\n"));
        assert!(ask("/metrics").ends_with("tidegate_fleet_clients 3\n"));
        assert!(ask("/apis/external.metrics.k8s.io/v1beta1").contains("APIResourceList"));
        assert!(ask("/api/v1/status").starts_with("HTTP/1.1 404"));
    }

    #[test]
    fn a_manager_that_hangs_is_not_healthy() {
        let shown = shown();
        let get = |path: &str| {
            let head = Head { method: "GET".to_owned(), path: path.to_owned(), ..Head::default() };
            MetricsApi(shown.clone()).answer(&head)
        };
        let external = "/apis/external.metrics.k8s.io/v1beta1/namespaces/a/tidegate_fleet_clients";
        assert_eq!((get("/healthz").status, get(external).status), ("200 OK", "200 OK"));
        shown.page().patience = Duration::ZERO;
        assert!(get("/healthz").body.contains("has not observed its fleet"));
        assert!(get(external).status.starts_with("503"));
    }
}
