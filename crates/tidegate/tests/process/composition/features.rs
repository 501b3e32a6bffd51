//! The features, in the order of the page.

/// A feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Feature {
    Store,
    Tls,
    Users,
    Rules,
    Tenants,
    Quic,
    WebSocket,
    Bridges,
    Embedded,
    Nats,
    Kafka,
    Orchestrator,
    Manager,
    Kubernetes,
    Dns,
    Addresses,
    Points,
    Groups,
    Applications,
    Pipelines,
    Console,
    Why,
    Ban,
    Clients,
    Reload,
}

impl Feature {
    /// All of them.
    pub(super) const ALL: [Self; 25] = [
        Self::Store,
        Self::Tls,
        Self::Users,
        Self::Rules,
        Self::Tenants,
        Self::Quic,
        Self::WebSocket,
        Self::Bridges,
        Self::Embedded,
        Self::Nats,
        Self::Kafka,
        Self::Orchestrator,
        Self::Manager,
        Self::Kubernetes,
        Self::Dns,
        Self::Addresses,
        Self::Points,
        Self::Groups,
        Self::Applications,
        Self::Pipelines,
        Self::Console,
        Self::Why,
        Self::Ban,
        Self::Clients,
        Self::Reload,
    ];

    /// Its name on the page.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Store => "durable store",
            Self::Tls => "TLS",
            Self::Users => "users",
            Self::Rules => "rules",
            Self::Tenants => "tenants and quotas",
            Self::Quic => "QUIC",
            Self::WebSocket => "WebSocket",
            Self::Bridges => "bridges",
            Self::Embedded => "cluster on the embedded bus",
            Self::Nats => "cluster on NATS",
            Self::Kafka => "cluster on Kafka",
            Self::Orchestrator => "orchestrator",
            Self::Manager => "manager with processes",
            Self::Kubernetes => "Kubernetes manifests",
            Self::Dns => "DNS",
            Self::Addresses => "addresses",
            Self::Points => "points of access",
            Self::Groups => "groups",
            Self::Applications => "applications on the bus",
            Self::Pipelines => "pipelines of the hub",
            Self::Console => "console",
            Self::Why => "`why`",
            Self::Ban => "`ban`",
            Self::Clients => "`clients`",
            Self::Reload => "reload",
        }
    }
}
