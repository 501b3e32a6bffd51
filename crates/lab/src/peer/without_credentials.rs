//! Addresses as they are shown.

/// Replaces a user name and a password.
const HIDDEN: &str = "***";

/// An address as reports, results and messages may show it: without the user name and the password that it may have.
/// The text before the last `@` counts as credentials, so that a password with a slash does not show either.
pub fn without_credentials(address: &str) -> String {
    let Some((before, host)) = address.rsplit_once('@') else { return address.to_owned() };
    let scheme = before.find("://").map_or("", |end| &before[..end + 3]);
    format!("{scheme}{HIDDEN}@{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        let shown = [
            ("mqtt://h:1883", "mqtt://h:1883"),
            ("mqtt://user:secret@h:1883", "mqtt://***@h:1883"),
            ("edge=mqtts://secret@h/path", "edge=mqtts://***@h/path"),
            ("ws://user:se/c@ret@h,i:2/mqtt", "ws://***@h,i:2/mqtt"),
            ("user:secret@h", "***@h"),
        ];
        for (address, expected) in shown {
            assert_eq!(without_credentials(address), expected);
        }
    }
}
