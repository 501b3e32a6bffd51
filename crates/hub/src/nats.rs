//! How sources and sinks connect to NATS.

use async_nats::{ConnectOptions, ServerAddr};
use tidegate_units::percent::unescape;

/// The login in an address, which the library leaves out: a user with a password, or a token.
#[derive(Debug, PartialEq, Eq)]
enum Login {
    User(String, String),
    Token(String),
}

/// Options with the login of `nats://USER:PASSWORD@HOST:PORT` or `nats://TOKEN@HOST:PORT`.
pub(crate) fn options(url: &str) -> ConnectOptions {
    match login(url) {
        Some(Login::User(user, password)) => ConnectOptions::new().user_and_password(user, password),
        Some(Login::Token(token)) => ConnectOptions::new().token(token),
        None => ConnectOptions::new(),
    }
}

/// That of the first server that has one.
fn login(url: &str) -> Option<Login> {
    let read = |text: &str| unescape(text).unwrap_or_else(|| text.to_owned());
    url.split(',').filter_map(|server| server.parse::<ServerAddr>().ok()).find_map(|server| {
        let user = read(server.username()?);
        Some(match server.password() {
            Some(password) => Login::User(user, read(password)),
            None => Login::Token(user),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_user_or_a_token() {
        let user = |user: &str, password: &str| Some(Login::User(user.to_owned(), password.to_owned()));
        assert_eq!(login("nats://hub:h%40x@127.0.0.1:4222"), user("hub", "h@x"));
        assert_eq!(login("nats://a:1,nats://u:p@b:2"), user("u", "p"));
        assert_eq!(login("nats://secret@a"), Some(Login::Token("secret".to_owned())));
        assert_eq!(login("nats://127.0.0.1:4222"), None);
    }
}
