//! Metrics of lists of revoked certificates.

metrics! { |it, out|
    /// Every metric of these lists, in the order in which they are written.
    Gauge "tidegate_tls_revocation_lists" ["state"] => {
        let shell = &it.status.shell;
        out.add(&["current"], shell.crls.saturating_sub(shell.crls_outdated));
        out.add(&["outdated"], shell.crls_outdated);
    }, "Lists of revoked certificates in use; `outdated` are those older than their own next update.";
    Gauge "tidegate_tls_revocation_lists_next_update_seconds" [] => {
        if it.status.shell.crls > 0 {
            out.one(it.status.shell.crl_next_update);
        }
    }, "When the first of the lists of revoked certificates is outdated, seconds since 1970; no sample without lists.";
}
