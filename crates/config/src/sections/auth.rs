//! Authentication: the providers, and their resources.

use std::time::Duration;

use crate::key::{Key, Section, SectionKeys, section};
use crate::list::Texts;
use crate::value::{Kind, Problem, Range, Raw, Value, Words, words};
use tidegate_units::size::{Bytes, KIB, MIB, TIB};

/// Longest path of a file or name of a claim, bytes.
const MAX_TEXT: usize = 4096;
/// One second, in the milliseconds that ranges of durations count.
const SECOND: u64 = 1_000;
const DAY: u64 = 24 * 3_600 * SECOND;

words! {
    /// The kind of a provider.
    pub enum AuthKind {
        PasswordFile => "password-file", "user names and passwords in a file, as `tidegate passwd` and `mosquitto_passwd` write it";
        ApiKey => "api-key", "API keys in a file, as `tidegate key` writes it";
        Jwt => "jwt", "signed tokens as passwords";
        Http => "http", "a server that is asked about each client";
        Certificate => "certificate", "the client's certificate";
        Fleet => "fleet", "a broker of the fleet, which is shown user name and password; for orchestrators";
        Scram => "scram", "SCRAM-SHA-256, the enhanced authentication of MQTT 5";
    }
}

words! {
    /// The field of CONNECT that holds a token.
    pub enum TokenField {
        Password => "password", "the password";
        UserName => "username", "the user name";
    }
}

words! {
    /// The treatment of clients while a server is unreachable.
    pub enum Unreachable {
        Deny => "deny", "they are refused as \"server unavailable\" and may try again";
        Ignore => "ignore", "the next provider is asked";
    }
}

words! {
    /// A part of a certificate that becomes a name.
    pub enum CertificateField {
        None => "none", "none";
        CommonName => "cn", "the common name of the subject";
        Dns => "san-dns", "the first DNS name among the alternative names";
        Email => "san-email", "the first email address among them";
        Uri => "san-uri", "the first URI among them";
        Fingerprint => "fingerprint", "SHA-256 of the certificate, hexadecimal";
    }
}

section! {
    /// Authentication. Each provider says yes, no, or that it does not know the client; they are asked in their order,
    /// and the first that says yes or no decides. A client that no provider knows is refused. With at least one provider
    /// no client connects without a name, except on listeners with `allow_anonymous`. See authentication.md.
    "auth" [repeated = true] => Auth, AUTH {
        /// The kind of the provider.
        kind: AuthKind = AuthKind::PasswordFile, in Kind::OneOf(<AuthKind as Words>::WORDS);
        /// Its name in logs and metrics; without one it is that of its kind, such as `jwt`.
        name: String = String::new(), in Kind::Name { empty: true };
        /// Names of the listeners that it is asked for; none for all.
        listeners: Texts = Texts::default(), in Kind::Texts;
        /// The file of users, for `password-file` and `scram`: one file may serve both; or the file of keys, for `api-key`.
        file: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// The server that is asked, `http://` or `https://`; for `http`.
        url: Option<String> = None, in Kind::Text { max_len: MAX_TEXT }, credentials = true;
        /// A file whose content is sent to that server as a bearer token; for `http`.
        bearer_token_file: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// The treatment of clients while that server is unreachable; for `http`.
        unreachable: Unreachable = Unreachable::Deny, in Kind::OneOf(<Unreachable as Words>::WORDS);
        /// Questions to that server, or to brokers, that are under way at once; for `http` and `fleet`.
        concurrency: u16 = 8, in Kind::Integer(Range::of(1, 64));
        /// Failures in a row after which that server is left alone for `breaker_pause`; for `http`.
        breaker_failures: u16 = 5, in Kind::Integer(Range::of(1, 1_000));
        /// How long; then one question tries again. For `http`.
        breaker_pause: Duration = Duration::from_secs(10), in Kind::Duration(Range::of(100, 3_600 * SECOND));
        /// How long its yes is remembered, at most `authentication.cache_ttl`; for `http` and `fleet`.
        cache_ttl: Duration = Duration::from_secs(60), in Kind::Duration(Range::of(1, DAY).or_zero("each connection is asked about"));
        /// How long a server may take for an answer; for `http` and `fleet`, and for the keys of `jwks_url`.
        timeout: Duration = Duration::from_secs(5), in Kind::Duration(Range::of(10, 60 * SECOND));
        /// The authorities (PEM) that a server's certificate is checked with, instead of the system's; for `http`, and
        /// for `jwks_url`.
        ca_file: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// A file whose content is the secret of HS256, HS384 and HS512, at least 32 bytes; for `jwt`, which has one
        /// source of keys.
        secret_file: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// A file of public keys or certificates (PEM); for `jwt`.
        public_key_file: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// A file with a JWK set; for `jwt`.
        jwks_file: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// A server with a JWK set, `http://` or `https://`; for `jwt`.
        jwks_url: Option<String> = None, in Kind::Text { max_len: MAX_TEXT }, credentials = true;
        /// How old the keys of that server may be before they are fetched again; for `jwt`.
        jwks_refresh: Duration = Duration::from_secs(600), in Kind::Duration(Range::of(SECOND, 7 * DAY));
        /// How soon they are fetched again because of a token that names a key that is not known; for `jwt`.
        jwks_refresh_min: Duration = Duration::from_secs(30), in Kind::Duration(Range::of(SECOND, DAY));
        /// Algorithms that are taken, such as `"ES256"`; none for all that the keys are for. For `jwt`.
        algorithms: Texts = Texts::default(), in Kind::Texts;
        /// Field of CONNECT that holds the token; for `jwt`.
        token_from: TokenField = TokenField::Password, in Kind::OneOf(<TokenField as Words>::WORDS);
        /// The required `iss` of a token; for `jwt`.
        issuer: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// A required member of a token's `aud`; for `jwt`.
        audience: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// Whether a token without `exp` is refused; for `jwt`.
        require_expiry: bool = true, in Kind::Boolean;
        /// Allowed difference between our clock and the clock of the signer of tokens; for `jwt`.
        leeway: Duration = Duration::from_secs(30), in Kind::Duration(Range::of(0, 600 * SECOND));
        /// The claim that becomes the user name, by name or by a path with dots; empty leaves the user name as the
        /// client says it, unchecked. For `jwt`.
        user_claim: Option<String> = Some("sub".to_owned()), in Kind::Text { max_len: MAX_TEXT };
        /// The claim that the client id must be equal to; for `jwt`.
        client_id_claim: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// The claim that says what the client may do; a token without it leaves that to the rules. For `jwt`.
        acl_claim: Option<String> = Some("acl".to_owned()), in Kind::Text { max_len: MAX_TEXT };
        /// The claim that says, with `true`, that no rules hold for the client; for `jwt`.
        superuser_claim: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// The claim that must be the name of the client's tenant; for `jwt`.
        tenant_claim: Option<String> = None, in Kind::Text { max_len: MAX_TEXT };
        /// Part of a certificate that becomes the user name; for `certificate`.
        user_name_from: CertificateField = CertificateField::CommonName, in Kind::OneOf(<CertificateField as Words>::WORDS);
        /// Part of a certificate that the client id must be equal to; for `certificate`.
        client_id_from: CertificateField = CertificateField::None, in Kind::OneOf(<CertificateField as Words>::WORDS);
    }
}

section! {
    /// The resources of the providers of `[[auth]]`: threads of their own, bounds, and a cache of decisions.
    "authentication" => Authentication, AUTHENTICATION {
        /// Threads that ask providers; most of the time they wait for other servers. A change needs a restart.
        threads: u16 = 8, in Kind::Integer(Range::of(1, 256));
        /// Passwords that are hashed at once. Each takes a core, and 19 MiB for Argon2.
        max_hashing: u16 = 0, in Kind::Integer(Range::of(1, 256).or_zero("half of the cores"));
        /// Memory of all passwords that are hashed at once; beyond it a client waits. A file of users with a hash that
        /// needs more than this alone is refused, with the line. It is part of `limits.memory_ceiling`.
        hash_memory: Bytes = Bytes(0), in Kind::Size(Range::of(MIB, TIB).or_zero("an eighth of `limits.memory_ceiling`, 32MiB to 256MiB"));
        /// Clients that wait for an answer at once; further clients are refused: server unavailable.
        max_waiting: u32 = 16_384, in Kind::Integer(Range::of(1, 10_000_000));
        /// Bytes of the CONNECTs of these clients (ids, names, passwords, certificates); beyond it a client is refused
        /// with "server unavailable". It is part of `limits.memory_ceiling`.
        max_waiting_bytes: Bytes = Bytes(16 * MIB), in Kind::Size(Range::of(256 * KIB, TIB));
        /// Time for an answer; a later client is refused: server unavailable.
        timeout: Duration = Duration::from_secs(8), in Kind::Duration(Range::of(100, 600 * SECOND));
        /// Clients that were let in and are remembered, so that they return without being hashed or asked about
        /// again.
        cache_entries: u32 = 100_000, in Kind::Integer(Range::of(1, 10_000_000).or_zero("none"));
        /// How long. A reload forgets all of them.
        cache_ttl: Duration = Duration::from_secs(300), in Kind::Duration(Range::of(100, DAY).or_zero("not at all"));
        /// Refusals that are remembered, apart from the others.
        refused_entries: u32 = 10_000, in Kind::Integer(Range::of(1, 10_000_000).or_zero("none"));
        /// How long.
        refused_ttl: Duration = Duration::from_secs(5), in Kind::Duration(Range::of(100, 3_600 * SECOND).or_zero("not at all"));
        /// Whether a reload ends the connections of users that are removed from a file, or have another password there.
        /// Users that are still allowed connect again.
        disconnect_on_reload: bool = true, in Kind::Boolean;
    }
}

impl Auth {
    /// Whether the rights of a client can come from this provider.
    pub fn brings_rules(&self) -> bool {
        match self.kind {
            AuthKind::Jwt => self.acl_claim.is_some(),
            AuthKind::Http => true,
            AuthKind::PasswordFile | AuthKind::ApiKey | AuthKind::Certificate | AuthKind::Scram | AuthKind::Fleet => {
                false
            }
        }
    }
}
