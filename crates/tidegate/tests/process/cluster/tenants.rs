//! Tenants on the nodes of a cluster.

use serde_json::{Value, json};
use tidegate_engine::{TenantId, partition_of};

use super::{A, B, Cluster, NAMES, connect, until};
use crate::broker::{Broker, Folder, run};
use crate::nats::Nats;

/// Two nodes whose listeners lead to tenants; each names them in another order.
struct Nodes {
    cluster: Cluster,
    folder: Folder,
    /// Keys of the sections of both tenants.
    quotas: &'static str,
}

/// The listeners of a node in the order of their addresses: of the default tenant, of `acme` and of `bolt`.
const DEFAULT: usize = 0;
const ACME: usize = 1;
const BOLT: usize = 2;

impl Nodes {
    fn start() -> Self {
        Self::with_quotas("")
    }

    fn with_quotas(quotas: &'static str) -> Self {
        let folder = Folder::new();
        let cluster = Cluster {
            bus: Box::new(Nats::start()),
            nodes: Vec::new(),
            lease: "10s",
            data: Some(Folder::new()),
            settings: Vec::new(),
        };
        let mut nodes = Self { cluster, folder, quotas };
        for (which, tenants) in [["acme", "bolt"], ["bolt", "acme"]].into_iter().enumerate() {
            nodes.cluster.nodes.push(None);
            nodes.run(which, tenants);
        }
        nodes.cluster.wait_even();
        nodes
    }

    /// Writes the configuration of a node; returns its file.
    fn write(&self, which: usize, tenants: [&str; 2]) -> String {
        let listeners = ["default", "acme", "bolt"].map(|name| {
            format!("[[listener]]\nname = '{name}'\naddress = 'tcp://127.0.0.1:0'\nallow_anonymous = true\n")
        });
        let tenants =
            tenants.map(|name| format!("[[tenant]]\nname = '{name}'\nlisteners = ['{name}']\n{}", self.quotas));
        let text =
            format!("[node]\nshards = 1\n[access]\ndefault = 'allow'\n{}{}", listeners.concat(), tenants.concat());
        self.folder.write(&format!("{}.toml", NAMES[which]), &text)
    }

    fn run(&mut self, which: usize, tenants: [&str; 2]) {
        let config = self.write(which, tenants);
        let (bus, data) = (self.cluster.bus.address(), self.cluster.data.as_ref().unwrap().file(NAMES[which]));
        let arguments = ["--config", &config, "--node", NAMES[which], "--bus", &bus, "--data", &data];
        let arguments = [&arguments[..], &["--admin", "127.0.0.1:0", "--set", "mirror.max_bytes=256MiB"]].concat();
        self.cluster.nodes[which] = Some(Broker::start_with(&arguments));
    }

    /// The sections that the other node and this one do not have alike.
    fn differs(&self, which: usize) -> Value {
        let view = self.cluster.view(which);
        let nodes = view["nodes"].as_array().into_iter().flatten();
        nodes.filter(|node| node["name"] != NAMES[which]).map(|node| node["differs"].clone()).collect()
    }

    fn port(&self, which: usize, listener: usize) -> u16 {
        let ready = &self.cluster.node(which).ready;
        let mut addresses = ready.split_whitespace().filter(|word| word.starts_with("mqtt"));
        addresses.nth(listener).and_then(|address| address.rsplit_once(':')).unwrap().1.parse().unwrap()
    }

    /// A client at a listener of a node; returns its output.
    fn client(&self, which: usize, listener: usize, arguments: &[&str]) -> String {
        let port = &self.port(which, listener).to_string();
        let ended = run(&[&arguments[..1], &["-h", "127.0.0.1", "-p", port], &arguments[1..]].concat());
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
        ended.out
    }

    /// A client id that is at home at a node for a tenant of this number.
    fn id_at(&self, which: usize, tenant: u16) -> String {
        self.ids_at(which, tenant)[0].clone()
    }

    /// Two of them.
    fn ids_at(&self, which: usize, tenant: u16) -> [String; 2] {
        let view = self.cluster.view(which);
        let home = |id: &String| &view["homes"][usize::from(partition_of(TenantId(tenant), id).0)];
        let mut ids = (0..10_000).map(|number| format!("c-{number}")).filter(|id| home(id) == NAMES[which]);
        [ids.next().unwrap(), ids.next().unwrap()]
    }
}

#[test]
fn a_tenant_that_differs_at_a_node_is_shown() {
    let mut nodes = Nodes::start();
    for (quotas, differs) in [("max_sessions = 5\n", json!([["tenant"]])), ("", json!([[]]))] {
        nodes.quotas = quotas;
        nodes.write(B, ["bolt", "acme"]);
        let reloaded = run(&["reload", "--admin", nodes.cluster.node(A).address("admin=")]);
        assert_eq!(reloaded.code, Some(0), "{}", reloaded.err);
        for which in [A, B] {
            until("both nodes show it", || (nodes.differs(which) == differs).then_some(()));
        }
    }
}

#[test]
fn tenants_of_a_cluster_are_the_same_at_each_node() {
    let mut nodes = Nodes::start();
    // `acme` has the number 1 in the cluster, although the second node names it last.
    for home in [A, B] {
        let id = nodes.id_at(home, 1);
        for by in [A, B] {
            nodes.client(by, ACME, &["sub", "-i", &id, "-c", "-q", "1", "-t", "in/#", "-E"]);
        }
        // Clients of the same name in other tenants have sessions of their own.
        for listener in [DEFAULT, BOLT] {
            nodes.client(A, listener, &["sub", "-i", &id, "-c", "-q", "1", "-t", "in/#", "-E"]);
        }
        for (by, listener, text) in
            [(A, BOLT, "bolt"), (B, DEFAULT, "default"), (B, ACME, "acme-1"), (A, ACME, "acme-2")]
        {
            nodes.client(by, listener, &["pub", "-q", "1", "-t", "in/x", "-m", text]);
        }
        for (by, listener, count, expected) in
            [(A, ACME, "2", "acme-1\nacme-2\n"), (B, BOLT, "1", "bolt\n"), (B, DEFAULT, "1", "default\n")]
        {
            let take = ["sub", "-i", &id, "-c", "-q", "1", "-t", "in/#", "-C", count, "-W", "120"];
            assert_eq!(nodes.client(by, listener, &take), expected, "home {home}");
        }
    }
    for (by, listener) in [(A, BOLT), (B, ACME)] {
        nodes.client(by, listener, &["pub", "-q", "1", "-r", "-t", "kept", "-m", &listener.to_string()]);
    }
    for (by, listener) in [(A, ACME), (B, BOLT), (B, ACME), (A, BOLT)] {
        let kept = nodes.client(by, listener, &["sub", "-t", "kept", "-C", "1", "-W", "120"]);
        assert_eq!(kept, format!("{listener}\n"));
    }
    // A restart with the data directory, and the sections in the other order.
    let id = nodes.id_at(B, 1);
    nodes.client(A, ACME, &["sub", "-i", &id, "-c", "-q", "1", "-t", "later", "-E"]);
    let node = nodes.cluster.nodes[B].take().unwrap();
    node.signal("KILL");
    drop(node);
    nodes.run(B, ["acme", "bolt"]);
    nodes.cluster.wait_even();
    nodes.client(A, ACME, &["pub", "-q", "1", "-t", "later", "-m", "acme"]);
    let take = ["sub", "-i", &id, "-c", "-q", "1", "-t", "later", "-C", "1", "-W", "120"];
    assert_eq!(nodes.client(B, ACME, &take), "acme\n");
}

#[test]
fn a_quota_of_a_tenant_counts_clients_of_all_nodes() {
    let nodes = Nodes::with_quotas("max_connections = 2\n");
    let ids = [A, B].map(|at| nodes.ids_at(at, 1));
    let connect_at = |at: usize, id: &str| connect(nodes.port(at, ACME), id);
    let first = connect_at(A, &ids[A][0]).unwrap();
    let second = connect_at(B, &ids[B][0]).unwrap();
    for at in [A, B] {
        until("a refusal by the quota", || connect_at(at, &ids[at][1]).is_none().then_some(()));
        drop(connect(nodes.port(at, BOLT), &ids[at][1]).unwrap());
    }
    drop(second);
    let third = until("room for another client", || connect_at(A, &ids[A][1]));
    until("a refusal by the quota", || connect_at(B, &ids[B][1]).is_none().then_some(()));
    drop((first, third));
}
