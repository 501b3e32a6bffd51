//! Numbers outside their range.

/// Why a number is invalid.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum NumberError {
    /// A load outside 0 to 1.
    #[error("{0} is not a load: write a part of 1, such as 0.25")]
    Load(f64),
    /// A latitude outside -90 to 90.
    #[error("{0} is not a latitude: write degrees from -90 to 90")]
    Latitude(f64),
    /// A longitude outside -180 to 180.
    #[error("{0} is not a longitude: write degrees from -180 to 180")]
    Longitude(f64),
    /// A TTL outside 5 to 30 s.
    #[error(
        "a TTL of {0} s is outside 5 to 30 s: a longer one delays every drain, a shorter one makes resolvers ask for each client"
    )]
    Ttl(u32),
}
