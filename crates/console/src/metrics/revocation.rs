//! Metrics of lists of revoked certificates.

use super::Kind::Gauge;
use super::Metric;

/// Every metric of these lists, in the order in which they are written.
pub(super) static METRICS: &[Metric] = &[
    Metric {
        name: "tidegate_tls_revocation_lists",
        kind: Gauge,
        labels: &["state"],
        help: "Lists of revoked certificates in use; `outdated` are those older than their own next update.",
        read: |it, out| {
            let shell = &it.status.shell;
            out.add(&["current"], shell.crls.saturating_sub(shell.crls_outdated));
            out.add(&["outdated"], shell.crls_outdated);
        },
    },
    Metric {
        name: "tidegate_tls_revocation_lists_next_update_seconds",
        kind: Gauge,
        labels: &[],
        help: "When the first of the lists of revoked certificates is outdated, seconds since 1970; no sample without lists.",
        read: |it, out| {
            if it.status.shell.crls > 0 {
                out.add(&[], it.status.shell.crl_next_update);
            }
        },
    },
];
