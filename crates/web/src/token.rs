//! [`Token`]: a secret that authenticates clients.

use sha2::{Digest, Sha256};
use std::fmt;

/// Secret that clients send. Only its checksum is stored.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The file does not contain a valid token: it is too easy to guess, or not allowed in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the first line must be a token of {MIN} to {MAX} ASCII characters without spaces: create one with `openssl rand -hex 24`",
    MIN = Token::LENGTHS.start(), MAX = Token::LENGTHS.end()
)]
pub struct UnfitToken;

impl Token {
    const LENGTHS: std::ops::RangeInclusive<usize> = 16..=512;

    /// Reads a token from the first line of a file's contents.
    ///
    /// # Errors
    /// [`UnfitToken`].
    pub fn of_file_contents(contents: &[u8]) -> Result<Token, UnfitToken> {
        let line = contents.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        let line = std::str::from_utf8(line).map_err(|_| UnfitToken)?;
        let fit = Token::LENGTHS.contains(&line.len()) && line.bytes().all(|b| b.is_ascii_graphic());
        if fit { Ok(Token::new(line)) } else { Err(UnfitToken) }
    }

    /// Creates a token that the caller knows to be hard to guess.
    pub fn new(secret: &str) -> Token {
        Token(checksum(&[secret.as_bytes()]))
    }

    /// Compares the checksum of what a client showed with the token's, in constant time.
    pub(crate) fn has(&self, sum: &[u8; 32]) -> bool {
        equal(&self.0, sum)
    }

    /// Compares `shown` with the token, in constant time.
    pub(crate) fn is(&self, shown: &str) -> bool {
        equal(&self.0, &checksum(&[shown.as_bytes()]))
    }

    /// Returns the value of the cookie that stands for the token in a browser. It is valid as long as this process
    /// runs, because `salt` is new in each process.
    pub(crate) fn cookie(&self, salt: &[u8]) -> String {
        hexadecimal(&checksum(&[salt, &self.0]))
    }
}

/// Formats bytes in hexadecimal.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the checksum of all parts.
pub fn checksum(parts: &[&[u8]]) -> [u8; 32] {
    let mut sum = Sha256::new();
    parts.iter().for_each(|part| sum.update(part));
    sum.finalize().into()
}

/// Compares two checksums in constant time.
pub fn equal(a: &[u8; 32], b: &[u8; 32]) -> bool {
    std::hint::black_box(a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b))) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_the_first_line_of_a_file() {
        let token = Token::new("correct-horse-battery");
        assert_ne!(token.cookie(b"salt"), token.cookie(b"pepper"));
        for file in ["", "short", "with a space in it somewhere", "tr\u{e4}ger-in-latin-or-utf8"] {
            assert!(Token::of_file_contents(file.as_bytes()).is_err(), "{file}");
        }
        assert!(
            Token::of_file_contents(b"correct-horse-battery \nand more").unwrap().is("correct-horse-battery")
        );
    }
}
