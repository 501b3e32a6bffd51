//! Metrics of a node's place in its cluster. Where there is no cluster, none has a sample.

macro_rules! rows {
    ($($kind:ident $name:literal $field:ident: $type:ty, $help:literal;)*) => {
        metrics! { |it, out|
            /// Every metric of a cluster, in the order in which they are written.
            $($kind $name [] => out.any(it.status.cluster.map(|cluster| u64::from(cluster.$field))), $help;)*
        }
    };
}

cluster_numbers!(rows);
