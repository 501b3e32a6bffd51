use std::fs;

use rcgen::{CertifiedKey, generate_simple_self_signed};

use super::*;

/// A directory of this test.
fn directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("tidegate-kubernetes-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn pair() -> (String, String) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    (cert.pem(), signing_key.serialize_pem())
}

fn kubeconfig(cluster: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: one\ncontexts:\n- name: one\n  context: {{cluster: c, user: u, namespace: messaging}}\n\
         clusters:\n- name: c\n  cluster:\n    server: https://127.0.0.1:6443/\n{cluster}users:\n- name: u\n  user:\n{user}"
    )
}

#[test]
fn a_kubeconfig_has_files_or_data() {
    let directory = directory("kubeconfig");
    let (certificate, key) = pair();
    fs::write(directory.join("ca.crt"), &certificate).unwrap();
    let encode = |text: &str| data_encoding::BASE64.encode(text.as_bytes());
    let user =
        format!("    client-certificate-data: {}\n    client-key-data: {}\n", encode(&certificate), encode(&key));
    let path = directory.join("config");
    fs::write(&path, kubeconfig("    certificate-authority: ca.crt\n", &user)).unwrap();
    let access = kubeconfig::read(&path, None).unwrap();
    assert_eq!((access.server.as_str(), access.namespace.as_deref()), ("https://127.0.0.1:6443", Some("messaging")));
    assert!(matches!(&access.identity, Identity::Certificate(chain, _) if chain.len() == 1));
    assert_eq!(access.identity.bearer().unwrap(), None);

    let token = "    token: very-secret-token\n";
    fs::write(&path, kubeconfig("    certificate-authority: ca.crt\n", token)).unwrap();
    let access = kubeconfig::read(&path, Some("one")).unwrap();
    assert_eq!(access.identity.bearer().unwrap().as_deref(), Some("Bearer very-secret-token"));
    assert!(!format!("{access:?}").contains("very-secret"), "{access:?}");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_kubeconfig_that_cannot_be_used_says_why() {
    let directory = directory("wrong");
    let path = directory.join("config");
    fs::write(directory.join("ca.crt"), pair().0).unwrap();
    let authority = "    certificate-authority: ca.crt\n";
    let why = |text: &str, context: Option<&str>| {
        fs::write(&path, text).unwrap();
        kubeconfig::read(&path, context).unwrap_err().to_string()
    };
    let exec = "    exec: {command: aws, args: [eks, get-token]}\n";
    for (text, expected) in [
        (String::new(), "it is empty"),
        ("a: [".to_owned(), "cannot be used"),
        ("a: &a [1]\nb: *a\n".to_owned(), "aliases"),
        ("kind: Config\n".to_owned(), "no current-context"),
        (kubeconfig(authority, exec), "programs and providers"),
        (kubeconfig("", "    token: t\n"), "names no certificate-authority"),
        (kubeconfig("    insecure-skip-tls-verify: true\n", "    token: t\n"), "to anybody"),
        (kubeconfig("    certificate-authority: none.crt\n", "    token: t\n"), "cannot read"),
        (kubeconfig("    certificate-authority-data: '*'\n", "    token: t\n"), "no base64"),
        (kubeconfig(authority, "    token: t\n").replace("https:", "http:"), "no https://"),
        (kubeconfig(authority, "    token: t\n").replace("user: u,", "user: x,"), "have none called \"x\""),
    ] {
        let said = why(&text, None);
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(why(&kubeconfig(authority, "    token: t\n"), Some("two")).contains("have none called \"two\""));
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_key_of_another_certificate_is_refused_and_does_not_panic() {
    let ((certificate, _), (_, key)) = (pair(), pair());
    let access = Access {
        server: "https://127.0.0.1:1".to_owned(),
        authorities: certificates("a", certificate.as_bytes()).unwrap(),
        identity: Identity::Certificate(certificates("a", certificate.as_bytes()).unwrap(), KeyPem(key.into_bytes())),
        namespace: None,
    };
    let error = super::super::client::Client::new(access).unwrap_err().to_string();
    assert!(error.contains("the client's certificate cannot be used"), "{error}");
}

#[test]
fn a_service_account_is_read_again_for_each_request() {
    let directory = directory("account");
    let environment = |name: &str| match name {
        "KUBERNETES_SERVICE_HOST" => Some("fd00::1".to_owned()),
        "KUBERNETES_SERVICE_PORT" => Some("443".to_owned()),
        _ => None,
    };
    fs::write(directory.join("ca.crt"), pair().0).unwrap();
    fs::write(directory.join("namespace"), "messaging\n").unwrap();
    assert!(service_account::read(&directory, environment).unwrap_err().to_string().contains("token"));
    fs::write(directory.join("token"), "first\n").unwrap();
    let access = service_account::read(&directory, environment).unwrap();
    assert_eq!((access.server.as_str(), access.namespace.as_deref()), ("https://[fd00::1]:443", Some("messaging")));
    assert_eq!(access.identity.bearer().unwrap().as_deref(), Some("Bearer first"));
    fs::write(directory.join("token"), "second\n").unwrap();
    assert_eq!(access.identity.bearer().unwrap().as_deref(), Some("Bearer second"));
    let nowhere = service_account::read(&directory, |_| None).unwrap_err().to_string();
    assert!(nowhere.contains("KUBERNETES_SERVICE_HOST is not set"), "{nowhere}");
    fs::remove_dir_all(directory).unwrap();
}
