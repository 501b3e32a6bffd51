//! "Did you mean ...?"

/// The nearest of some names to the written one, if it is near enough to be meant: up to a third of its letters wrong,
/// missing, too many or swapped.
pub fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = normal(written);
    let distance = |name: &str| strsim::osa_distance(&written, &normal(name));
    let (distance, name) =
        names.into_iter().map(|name| (distance(name), name)).min_by_key(|(distance, _)| *distance)?;
    (distance <= name.len().div_ceil(3)).then_some(name)
}

/// Case and the choice between `-` and `_` are the commonest slips; they count nothing.
fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised() {
        let names = ["max_packet_size", "max_connections", "address"];
        assert_eq!(nearest("max_packet_sise", names), Some("max_packet_size"));
        assert_eq!(nearest("maxconnections", names), Some("max_connections"));
        assert_eq!(nearest("MAX-CONNECTIONS", names), Some("max_connections"));
        assert_eq!(nearest("adress", names), Some("address"));
    }

    #[test]
    fn something_else_is_not() {
        assert_eq!(nearest("colour", ["address", "name"]), None);
        assert_eq!(nearest("x", []), None);
    }
}
