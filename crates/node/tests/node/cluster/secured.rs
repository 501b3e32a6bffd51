//! Links over TLS: by certificates of an authority, and by self-signed certificates.

use std::sync::Arc;

use tidegate_node::{ClusterView, LinkState, LinkTls, Node, PeerNode, Secret};

use super::world::*;
use crate::pki::{Authority, Directory, Issued};

/// Files of a node, whose certificates come from `issuer` and which believes `trusted`.
fn of_files(directory: &Directory, node: &str, issuer: &Authority, trusted: &Authority) -> LinkTls {
    let Issued { certificate, key } = issuer.issue(node, &[node], |_| {});
    let write = |name: &str, text: &str| directory.write(&format!("{node}-{name}"), text);
    let (ca, certificate, key) =
        (write("ca.pem", &trusted.pem()), write("node.pem", &certificate), write("node.key", &key));
    LinkTls::of_authority(&ca, &certificate, &key).unwrap()
}

pub(super) fn self_signed() -> LinkTls {
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(Vec::new()).unwrap();
    LinkTls::self_signed(cert.der().to_vec(), signing_key.serialize_der()).unwrap()
}

/// Two nodes that know each other; `a` connects.
fn two(of_a: Option<LinkTls>, of_b: Option<LinkTls>, secret_of_b: &[u8]) -> (Node, Node) {
    let start = |name: &str, tls, secret: &[u8]| {
        let mut settings = settings_of(name, 1, 1);
        let cluster = settings.cluster.as_mut().unwrap();
        (cluster.tls, cluster.limits, cluster.secret) = (tls, hasty(), Secret::new(secret).unwrap());
        Node::start(settings).unwrap()
    };
    let (a, b) = (start("a", of_a, b"a secret of the tests"), start("b", of_b, secret_of_b));
    let introduce = |node: &Node, other: &str, of: &Node| {
        let address = of.handle().cluster_address().unwrap();
        let peers = vec![PeerNode { name: name(other), incarnation: 1, address }];
        node.handle().set_cluster(Arc::new(ClusterView { peers, ..ClusterView::alone() })).unwrap();
    };
    introduce(&b, "a", &a);
    introduce(&a, "b", &b);
    (a, b)
}

const SECRET: &[u8] = b"a secret of the tests";

fn expect_linked((a, b): &(Node, Node)) {
    for node in [a, b] {
        while node.handle().cluster().peers[0].state != LinkState::Settled {
            std::thread::yield_now();
        }
    }
}

/// Waits until an attempt of `a` has failed in this way, and `b` has refused it.
fn expect_refused((a, b): &(Node, Node), with: &str) {
    while b.handle().cluster().refused == 0 {
        std::thread::yield_now();
    }
    loop {
        let failure = a.handle().cluster().peers[0].last_failure.clone().unwrap_or_default();
        // The other side may close the connection before its refusal is read.
        if failure.contains(with) {
            break;
        }
        std::thread::yield_now();
    }
    assert_eq!(a.handle().cluster().total.sessions, 0);
}

#[test]
fn nodes_with_certificates_of_one_authority_are_linked() {
    let (directory, authority) = (Directory::new(), Authority::new("nodes"));
    let of = |node| Some(of_files(&directory, node, &authority, &authority));
    expect_linked(&two(of("a"), of("b"), SECRET));
}

#[test]
fn nodes_with_self_signed_certificates_are_linked() {
    expect_linked(&two(Some(self_signed()), Some(self_signed()), SECRET));
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let (directory, authority, other) = (Directory::new(), Authority::new("nodes"), Authority::new("others"));
    let of = |node, issuer| Some(of_files(&directory, node, issuer, &authority));
    expect_refused(&two(of("a", &authority), of("b", &other), SECRET), "its certificate is refused (cluster.tls_ca)");
    expect_refused(&two(of("a", &other), of("b", &authority), SECRET), "it refuses the certificate of this node");
}

#[test]
fn a_node_without_tls_is_refused_by_one_with_it() {
    for (of_a, of_b) in [(None, Some(self_signed())), (Some(self_signed()), None)] {
        let nodes = two(of_a, of_b, SECRET);
        while nodes.1.handle().cluster().refused == 0 {
            std::thread::yield_now();
        }
        assert_eq!(nodes.0.handle().cluster().total.sessions, 0);
    }
    expect_refused(&two(Some(self_signed()), None, SECRET), "it does not speak TLS; set cluster.tls");
}

#[test]
fn a_node_with_another_secret_is_refused_over_tls() {
    expect_refused(&two(Some(self_signed()), Some(self_signed()), b"another secret of tests"), "secret");
}
