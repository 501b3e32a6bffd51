//! Another actor's changes to the cluster, with all rights.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_fleet::level::Level;
use tidegate_fleet::provider::kubernetes::{SetSettings, Settings};

/// Pauses between two looks at something that has to come.
const LOOKS: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

/// Tests share the cluster, and take turns.
static TURN: Mutex<()> = Mutex::new(());

/// The cluster, as long as it is one's turn.
pub(crate) struct Cluster {
    directory: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Cluster {
    /// Waits for its turn, and puts the StatefulSet back to one pod.
    pub(crate) fn take() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = std::env::var_os("TIDEGATE_KUBERNETES").expect("run e2e/kubernetes/run.sh").into();
        let cluster = Self { directory, _turn: turn };
        for pod in cluster.pods() {
            cluster.let_go(&pod);
        }
        cluster.scale(1);
        until("one pod is left", || cluster.pods() == ["tidegate-broker-0"]);
        cluster
    }

    /// The settings of a manager with the shipped rights, for a StatefulSet.
    pub(crate) fn settings(&self, stateful_set: &str) -> Settings {
        let set = SetSettings {
            stateful_set: stateful_set.to_owned(),
            container: Some("broker".to_owned()),
            port: 1883,
            admin_port: None,
            decided_elsewhere: false,
            login: None,
        };
        Settings {
            namespace: None,
            kubeconfig: Some(self.directory.join("manager.kubeconfig")),
            context: None,
            cluster_domain: "cluster.local".to_owned(),
            sets: BTreeMap::from([(Level::Broker, set)]),
        }
    }

    /// Asks the API server.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let server = std::fs::read_to_string(self.directory.join("server")).unwrap();
        let mut curl = Command::new("curl");
        curl.current_dir(&self.directory).args(["-s", "--max-time", "10", "--cacert", "ca.crt", "--cert", "admin.crt"]);
        curl.args(["--key", "admin.key", "-X", method]).arg(format!("{}{path}", server.trim()));
        if let Some(body) = body {
            let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            curl.args(["-H", &format!("content-type: {kind}"), "-d", &body.to_string()]);
        }
        let output = curl.output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{path}: {output:?}"))
    }

    const SET: &str = "/apis/apps/v1/namespaces/messaging/statefulsets/tidegate-broker";

    /// An autoscaler, or a person with `kubectl scale`.
    pub(crate) fn scale(&self, replicas: u64) {
        let scaled = self.ask("PATCH", &format!("{}/scale", Self::SET), Some(&json!({"spec": {"replicas": replicas}})));
        assert_eq!(scaled["kind"], "Scale", "{scaled}");
    }

    pub(crate) fn replicas(&self) -> u64 {
        self.ask("GET", Self::SET, None)["spec"]["replicas"].as_u64().unwrap()
    }

    /// An empty change, which makes a new version.
    pub(crate) fn touch(&self, count: u32) {
        let body = json!({"metadata": {"annotations": {"touched": count.to_string()}}});
        self.ask("PATCH", Self::SET, Some(&body));
    }

    pub(crate) fn pods(&self) -> Vec<String> {
        let path = "/api/v1/namespaces/messaging/pods?labelSelector=app.kubernetes.io%2Fname%3Dtidegate-broker";
        let list = self.ask("GET", path, None);
        let names =
            list["items"].as_array().unwrap().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    fn finalizers(&self, pod: &str, finalizers: &Value) {
        let path = format!("/api/v1/namespaces/messaging/pods/{pod}");
        self.ask("PATCH", &path, Some(&json!({"metadata": {"finalizers": finalizers}})));
    }

    /// Simulated nodes run no preStop hooks: a finalizer holds a pod in their place.
    pub(crate) fn hold(&self, pod: &str) {
        self.finalizers(pod, &json!(["tidegate.test/hold"]));
    }

    pub(crate) fn let_go(&self, pod: &str) {
        self.finalizers(pod, &Value::Null);
    }

    /// Sets the measurements of a metrics server.
    pub(crate) fn measure(&self, pod: &str, cpu: &str) {
        let base = "/apis/metrics.k8s.io/v1beta1/namespaces/messaging/pods";
        self.ask("DELETE", &format!("{base}/{pod}"), None);
        let metrics = json!({
            "apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics",
            "metadata": {"name": pod, "labels": {"app.kubernetes.io/name": "tidegate-broker"}},
            "timestamp": humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(), "window": "15s",
            "containers": [{"name": "broker", "usage": {"cpu": cpu, "memory": "10Mi"}}],
        });
        let made = self.ask("POST", base, Some(&metrics));
        assert_eq!(made["kind"], "PodMetrics", "{made}");
    }
}

/// Looks until something has come.
pub(crate) fn until(awaited: &str, mut come: impl FnMut() -> bool) {
    let (_never, nothing) = mpsc::channel::<()>();
    for _ in 0..LOOKS {
        if come() {
            return;
        }
        let _ = nothing.recv_timeout(PAUSE);
    }
    panic!("it did not come that {awaited}");
}
