//! The user name and the password of all clients of a run.

use std::sync::OnceLock;

/// The credentials of every client of this process; none without `--user`.
static LOGIN: OnceLock<Login> = OnceLock::new();

/// The argument of `--user` has no colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected NAME:PASSWORD")]
pub(crate) struct NoPassword;

/// A user name and a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    user: String,
    password: String,
}

impl Login {
    /// Reads `NAME:PASSWORD`.
    pub(crate) fn parse(text: &str) -> Result<Self, NoPassword> {
        let (user, password) = text.split_once(':').ok_or(NoPassword)?;
        Ok(Self { user: user.to_owned(), password: password.to_owned() })
    }

    /// Puts it in force for all clients; only the first call has an effect.
    pub(crate) fn use_for_all(self) {
        let _ = LOGIN.set(self);
    }
}

/// The user name and the password for a CONNECT.
pub(crate) fn shown() -> (Option<&'static str>, Option<&'static [u8]>) {
    LOGIN.get().map(|login| (login.user.as_str(), login.password.as_bytes())).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_has_a_name_and_a_password() {
        let login = Login { user: "ann".to_owned(), password: "a:b".to_owned() };
        assert_eq!(Login::parse("ann:a:b"), Ok(login));
        assert!(Login::parse("ann").is_err());
    }
}
