//! The token of an admin listener.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, io};

use crate::read_token;

/// Shortest token, bytes. A shorter one can be guessed.
pub const MIN_TOKEN_LEN: usize = 16;

/// A token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It can be guessed.
    #[error(
        "the token is shorter than {MIN_TOKEN_LEN} characters: write a random one, such as of `openssl rand -hex 32`"
    )]
    Short,
    /// It cannot stand in a header.
    #[error("the token has characters that are no visible ASCII, so no request could bring it")]
    Characters,
}

/// The file of a listener's token cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the token in {} (admin.token_file): {fault}", .path.display())]
pub struct TokenFileError {
    path: PathBuf,
    fault: TokenFault,
}

#[derive(Debug, thiserror::Error)]
enum TokenFault {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// A token of an admin listener: visible ASCII, of [`MIN_TOKEN_LEN`] bytes at least. As text for people it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ListenerToken(String);

impl ListenerToken {
    /// The token.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ListenerToken {
    type Err = TokenError;

    fn from_str(token: &str) -> Result<Self, TokenError> {
        if token.len() < MIN_TOKEN_LEN {
            return Err(TokenError::Short);
        }
        if token.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(token.to_owned()))
        } else {
            Err(TokenError::Characters)
        }
    }
}

impl fmt::Debug for ListenerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerToken").finish_non_exhaustive()
    }
}

/// The token of an admin listener in a file.
///
/// # Errors
/// When the file cannot be read, or holds no single word that is a [`ListenerToken`].
pub fn read_listener_token(path: &Path) -> Result<ListenerToken, TokenFileError> {
    let read = || -> Result<ListenerToken, TokenFault> { Ok(read_token(path)?.parse()?) };
    read().map_err(|fault| TokenFileError { path: path.to_owned(), fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_and_visible() {
        let fault = |token: &str| token.parse::<ListenerToken>().err();
        assert_eq!(fault("0123456789abcdef"), None);
        assert_eq!(fault("0123456789abcde"), Some(TokenError::Short));
        assert_eq!(fault("0123456789 abcdef"), Some(TokenError::Characters));
    }

    #[test]
    fn the_fault_of_a_file_names_its_key_and_no_token() {
        let path = std::env::temp_dir().join(format!("tidegate-token-{}", std::process::id()));
        let missing = read_listener_token(&path).unwrap_err().to_string();
        assert!(missing.contains("admin.token_file") && missing.contains("tidegate-token-"), "{missing}");
        std::fs::write(&path, "secret\n").unwrap();
        let short = read_listener_token(&path).unwrap_err().to_string();
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let read = read_listener_token(&path);
        std::fs::remove_file(&path).unwrap();
        assert!(short.contains("shorter than 16") && !short.contains("secret"), "{short}");
        assert_eq!(read.unwrap().as_str(), "0123456789abcdef");
    }
}
