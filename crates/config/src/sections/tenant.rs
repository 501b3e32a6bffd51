//! Tenants: brokers of their own within the broker.

use crate::key::{Key, Section, SectionKeys, section};
use crate::list::Texts;
use crate::value::{Kind, Problem, Range, Raw, Value};

/// Highest value of limits that count clients of a tenant.
const MILLIONS: u64 = 100_000_000;

section! {
    /// A tenant: a broker of its own within the broker, with its own topics, client ids, retained messages, groups and
    /// `$SYS`. Clients of two tenants never see each other. Who belongs to it is said by listener, by the server name
    /// that a TLS client asks for (SNI), by user name or by the common name of a certificate; of several tenants that
    /// say so the one by certificate wins, then by user name, then by SNI, then by listener. Who belongs to none is in
    /// the default tenant. Its limits hold for all shards together. See tenants.md.
    "tenant" [repeated = true] => Tenant, TENANT {
        /// Its name, in logs, metrics and rules.
        name: String = String::new(), in Kind::Name { empty: true };
        /// Names of listeners whose clients belong to it.
        listeners: Texts = Texts::default(), in Kind::Texts;
        /// Server names that a TLS client asks for, such as `"acme.example.org"` or `"*.acme.example.org"`; case does
        /// not matter.
        sni: Texts = Texts::default(), in Kind::Texts;
        /// User names that belong to it; a `*` at the end matches any rest, also none. Needs an `[[auth]]`, or a listener that
        /// takes the user name from certificates.
        users: Texts = Texts::default(), in Kind::Texts;
        /// Common names of certificates that belong to it; a `*` at the end matches any rest, also none.
        certificate_cn: Texts = Texts::default(), in Kind::Texts;
        /// Clients connected at once, without idle clients of HTTP and CoAP; beyond it CONNECT is refused.
        max_connections: u32 = 0, in Kind::Integer(Range::of(1, MILLIONS).or_zero("no limit but the broker's"));
        /// Sessions, connected or not; beyond it a CONNECT that needs a new one is refused.
        max_sessions: u32 = 0, in Kind::Integer(Range::of(1, MILLIONS).or_zero("no limit but the broker's"));
        /// Retained messages; beyond it messages of new topics are not retained.
        max_retained: u32 = 0, in Kind::Integer(Range::of(1, MILLIONS).or_zero("no limit but the broker's"));
        /// Subscriptions of all its clients; beyond it new ones are refused.
        max_subscriptions: u32 = 0, in Kind::Integer(Range::of(1, MILLIONS).or_zero("no limit but the broker's"));
        /// Messages that all its clients publish in a second; beyond it they wait.
        max_message_rate: u32 = 0, in Kind::Integer(Range::of(1, MILLIONS).or_zero("no limit but the broker's"));
        /// Client ids of its clients that are banned.
        banned_clients: Texts = Texts::default(), in Kind::Texts;
        /// User names of its clients that are banned.
        banned_users: Texts = Texts::default(), in Kind::Texts;
    }
}
