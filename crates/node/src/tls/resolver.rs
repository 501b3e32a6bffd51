//! The certificate that a client is shown.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

thread_local! {
    /// The name in the last `ClientHello` of this thread. A session does not expose it afterwards. The resolver is
    /// called inside the call that reads the `ClientHello`, on the same thread.
    static SERVER_NAME: RefCell<Option<Box<str>>> = const { RefCell::new(None) };
}

/// The name that the `ClientHello` asked for which was read on this thread since the last call.
pub(crate) fn take_server_name() -> Option<Box<str>> {
    SERVER_NAME.with(|name| name.borrow_mut().take())
}

/// Picks by the name that the client asks for.
pub(super) struct ByServerName {
    /// Never empty. The names are in lower case; one may begin with `*.`.
    certificates: Vec<(Vec<Box<str>>, Arc<CertifiedKey>)>,
}

impl ByServerName {
    pub(super) fn new(certificates: Vec<(Vec<Box<str>>, Arc<CertifiedKey>)>) -> Self {
        let lower = |names: Vec<Box<str>>| names.iter().map(|name| name.to_ascii_lowercase().into()).collect();
        Self { certificates: certificates.into_iter().map(|(names, key)| (lower(names), key)).collect() }
    }

    fn pick(&self, server_name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let named = server_name.and_then(|wanted| {
            self.certificates.iter().find(|(names, _)| names.iter().any(|name| matches(name, wanted)))
        });
        named.or_else(|| self.certificates.first()).map(|(_, key)| Arc::clone(key))
    }
}

/// Whether a name of a certificate matches another; `*` is one label [RFC 6125, section 6.4.3].
fn matches(name: &str, wanted: &str) -> bool {
    match name.strip_prefix("*.") {
        None => name == wanted,
        Some(parent) => wanted.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest == parent),
    }
}

impl ResolvesServerCert for ByServerName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let wanted = hello.server_name().map(str::to_ascii_lowercase);
        let picked = self.pick(wanted.as_deref());
        SERVER_NAME.with(|name| *name.borrow_mut() = wanted.map(String::into_boxed_str));
        picked
    }
}

impl fmt::Debug for ByServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.certificates.iter().map(|(names, _)| names)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_is_one_label() {
        assert!(matches("a.example", "a.example"));
        assert!(matches("*.example", "a.example"));
        for wanted in ["example", ".example", "a.b.example", "a.example.org"] {
            assert!(!matches("*.example", wanted), "{wanted}");
        }
    }
}
