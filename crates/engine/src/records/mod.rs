//! Messages and deliveries as bytes: in the store, and in images of partitions.

pub(crate) mod image;
pub(crate) mod stored;
