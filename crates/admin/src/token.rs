//! The token of an admin listener.

use std::io;
use std::path::{Path, PathBuf};

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

/// Checks a token of an admin listener.
///
/// # Errors
/// When it is shorter than [`MIN_TOKEN_LEN`], or has other characters than visible ASCII.
pub fn check_token(token: &str) -> Result<(), TokenError> {
    if token.len() < MIN_TOKEN_LEN {
        return Err(TokenError::Short);
    }
    if token.bytes().all(|byte| byte.is_ascii_graphic()) { Ok(()) } else { Err(TokenError::Characters) }
}

/// The token of an admin listener in a file.
///
/// # Errors
/// When the file cannot be read, holds no single word, or [`check_token`] refuses the word.
pub fn read_listener_token(path: &Path) -> Result<String, TokenFileError> {
    let read = || -> Result<String, TokenFault> {
        let token = read_token(path)?;
        check_token(&token)?;
        Ok(token)
    };
    read().map_err(|fault| TokenFileError { path: path.to_owned(), fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_and_visible() {
        assert_eq!(check_token("0123456789abcdef"), Ok(()));
        assert_eq!(check_token("0123456789abcde"), Err(TokenError::Short));
        assert_eq!(check_token("0123456789 abcdef"), Err(TokenError::Characters));
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
        assert_eq!(read.unwrap(), "0123456789abcdef");
    }
}
