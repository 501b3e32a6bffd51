//! The section [metrics]: where other machines read the manager's metrics.

use std::path::{Path, PathBuf};

use crate::manage::driver::MetricsListener;
use tidegate_document::Keys;

/// The same with its files below a directory.
pub(super) fn below(listener: MetricsListener, parent: &Path) -> MetricsListener {
    let tls = listener.tls.map(|(certificate, key)| (parent.join(certificate), parent.join(key)));
    MetricsListener { tls, ..listener }
}

pub(super) fn read(keys: &mut Keys<'_>) -> Option<MetricsListener> {
    let example = "\"0.0.0.0:18084\"";
    let listen = keys.need("listen", example, Keys::text).and_then(|text| {
        let address = text.parse().ok();
        if address.is_none() {
            keys.refuse("listen", "must be ADDRESS:PORT", &format!("write, for example, listen = {example}"));
        }
        address
    });
    let certificate = keys.text("certificate").map(PathBuf::from);
    let key = keys.text("key").map(PathBuf::from);
    let tls = match (certificate, key) {
        (Some(certificate), Some(key)) if cfg!(feature = "kubernetes") => Some((certificate, key)),
        (Some(_), Some(_)) => {
            let hint = "build with `--features kubernetes`, or leave `certificate` and `key` out for plain HTTP";
            keys.refuse("certificate", "needs a tidegate with the feature `kubernetes`", hint);
            None
        }
        (None, None) => None,
        (Some(_), None) => {
            keys.refuse("certificate", "has no key", "write key = \"FILE\", too");
            None
        }
        (None, Some(_)) => {
            keys.refuse("key", "has no certificate", "write certificate = \"FILE\", too");
            None
        }
    };
    Some(MetricsListener { listen: listen?, tls })
}
