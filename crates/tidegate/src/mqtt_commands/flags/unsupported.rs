//! Flags of mosquitto's clients for what these clients cannot do yet. They are known, so that nobody takes a connection
//! for safer than it is.

use clap::Args;

use super::UsageError;

/// What is said to everybody who asks for TLS.
pub(super) const TLS: &str = "TLS comes with a later version; connect without it, or through a tunnel such as stunnel";

/// Flags that end the command with an explanation.
#[derive(Clone, Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct UnsupportedFlags {
    #[arg(long, hide = true)]
    cafile: Option<String>,
    #[arg(long, hide = true)]
    capath: Option<String>,
    #[arg(long, hide = true)]
    cert: Option<String>,
    #[arg(long, hide = true)]
    key: Option<String>,
    #[arg(long, hide = true)]
    keyform: Option<String>,
    #[arg(long, hide = true)]
    ciphers: Option<String>,
    #[arg(long, hide = true)]
    tls_version: Option<String>,
    #[arg(long, hide = true)]
    tls_alpn: Option<String>,
    #[arg(long, hide = true)]
    tls_engine: Option<String>,
    #[arg(long, hide = true)]
    tls_engine_kpass_sha1: Option<String>,
    #[arg(long, hide = true)]
    tls_keylog: Option<String>,
    #[arg(long, hide = true)]
    tls_use_os_certs: bool,
    #[arg(long, hide = true)]
    insecure: bool,
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
    /// Says that the port of TLS is meant though there is no TLS.
    #[arg(long, hide = true)]
    pub(super) no_tls: bool,
    /// Everything that is due is written at once anyway.
    #[arg(long, hide = true)]
    nodelay: bool,
}

impl UnsupportedFlags {
    /// # Errors
    /// When one of the flags is there.
    pub(super) fn check(&self) -> Result<(), UsageError> {
        let texts = [
            ("--cafile", &self.cafile),
            ("--capath", &self.capath),
            ("--cert", &self.cert),
            ("--key", &self.key),
            ("--keyform", &self.keyform),
            ("--ciphers", &self.ciphers),
            ("--tls-version", &self.tls_version),
            ("--tls-alpn", &self.tls_alpn),
            ("--tls-engine", &self.tls_engine),
            ("--tls-engine-kpass-sha1", &self.tls_engine_kpass_sha1),
            ("--tls-keylog", &self.tls_keylog),
            ("--psk", &self.psk),
            ("--psk-identity", &self.psk_identity),
        ];
        let switches = [("--tls-use-os-certs", self.tls_use_os_certs), ("--insecure", self.insecure)];
        let texts = texts.into_iter().map(|(flag, value)| (flag, value.is_some()));
        if let Some((flag, _)) = texts.chain(switches).find(|(_, given)| *given) {
            return Err(UsageError::new(format!("{flag}: {TLS}")));
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
