//! Metrics of lists of revoked certificates.

metrics! { |it, out|
    /// Every metric of these lists, in the order in which they are written.
    Gauge "tidegate_tls_revocation_lists" ["state"] => {
        let lists = &it.status.revocation;
        out.add(&["current"], lists.lists.saturating_sub(lists.outdated));
        out.add(&["outdated"], lists.outdated);
    }, "Lists of revoked certificates in use; `outdated` are those older than their own next update.";
    Gauge "tidegate_tls_revocation_lists_next_update_seconds" [] => {
        if it.status.revocation.lists > 0 {
            out.one(it.status.revocation.next_update);
        }
    }, "When the first of the lists of revoked certificates is outdated, seconds since 1970; no sample without lists.";
}
