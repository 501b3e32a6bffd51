//! Unsupported flags of mosquitto's clients. They are known, so that no user takes a connection for safer than it is.

use clap::Args;

use super::UsageError;

/// The hints for unsupported kinds of TLS.
const PEM: &str = "keys and certificates are PEM files without a passphrase: --cert and --key";
const MODERN: &str = "TLS 1.2 and 1.3 choose among safe ciphers automatically; leave the flag out";
const PSK: &str = "TLS with pre-shared keys is not supported; use certificates: --cafile, --cert, --key";
const KEYLOG: &str = "keys of connections are not written to files; look at packets with --debug";

/// Flags that end the command with an explanation.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct UnsupportedFlags {
    #[arg(long, hide = true)]
    keyform: Option<String>,
    #[arg(long, hide = true)]
    ciphers: Option<String>,
    #[arg(long, hide = true)]
    tls_engine: Option<String>,
    #[arg(long, hide = true)]
    tls_engine_kpass_sha1: Option<String>,
    #[arg(long, hide = true)]
    tls_keylog: Option<String>,
    #[arg(long, hide = true)]
    psk: Option<String>,
    #[arg(long, hide = true)]
    psk_identity: Option<String>,
    #[arg(long, hide = true)]
    proxy: Option<String>,
    #[arg(short = 'S', hide = true)]
    srv: bool,
    #[arg(long, hide = true)]
    mptcp: bool,
    /// Everything that is due is written at once anyway.
    #[arg(long, hide = true)]
    nodelay: bool,
}

impl UnsupportedFlags {
    /// # Errors
    /// When one of the flags is there.
    pub(super) fn check(&self) -> Result<(), UsageError> {
        let texts = [
            ("--keyform", &self.keyform, PEM),
            ("--ciphers", &self.ciphers, MODERN),
            ("--tls-engine", &self.tls_engine, PEM),
            ("--tls-engine-kpass-sha1", &self.tls_engine_kpass_sha1, PEM),
            ("--tls-keylog", &self.tls_keylog, KEYLOG),
            ("--psk", &self.psk, PSK),
            ("--psk-identity", &self.psk_identity, PSK),
        ];
        if let Some((flag, _, text)) = texts.into_iter().find(|(_, value, _)| value.is_some()) {
            return Err(UsageError::new(format!("{flag}: {text}")));
        }
        let others = [
            (self.proxy.is_some(), "--proxy: proxies are not supported; connect directly"),
            (self.srv, "-S: SRV lookups are not supported; name the server with -h"),
            (self.mptcp, "--mptcp: multipath TCP is not supported; leave the flag out"),
        ];
        match others.into_iter().find(|(given, _)| *given) {
            Some((_, text)) => Err(UsageError::new(text)),
            None => Ok(()),
        }
    }
}
