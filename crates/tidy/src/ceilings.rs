//! Counts above a limit of [`structure`](crate::rules::structure). The numbers can only fall.

/// The count that something above a limit has today.
#[derive(Clone, Copy, Debug)]
pub struct Ceiling {
    /// The crate, or the crate and the type.
    pub of: &'static str,
    /// The count.
    pub count: usize,
}

/// The order of a crate's top-level modules, and the imports against it.
#[derive(Clone, Copy, Debug)]
pub struct Arrows {
    /// The crate.
    pub of: &'static str,
    /// Its top-level modules, the uppermost first.
    pub order: &'static [&'static str],
    /// Pairs of a file and a module above it that the file imports.
    pub count: usize,
}

/// Types with more than 40 functions.
pub const METHODS: &[Ceiling] = &[];

/// Crates whose top-level modules import each other in circles.
pub const CIRCLES: &[Ceiling] = &[];

/// Results with a text as their error, by crate.
pub const TEXT_ERRORS: &[Ceiling] = &[];

/// Crates whose files import each other in circles.
pub const FILE_CIRCLES: &[Ceiling] = &[Ceiling { of: "engine", count: 8 }];

/// Crates whose modules have an order.
pub const ARROWS: &[Arrows] = &[Arrows {
    of: "engine",
    order: &[
        "engine",
        "audit",
        "flows",
        "sys",
        "image",
        "principals",
        "service",
        "observers",
        "retained",
        "orchestrator",
        "groups",
        "access",
        "state",
        "durable",
        "cluster",
        "publish",
        "connection",
        "subscribe",
        "limits",
        "addresses",
        "records",
        "session",
        "journal",
        "link",
        "roster",
        "topics",
        "event",
        "identity",
        "timers",
        "memory",
        "settings",
        "events",
        "message",
        "slab",
        "ids",
        "partitions",
        "hash",
        "now",
        "wire",
    ],
    count: 0,
}];
