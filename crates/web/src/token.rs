//! [`Token`]: a secret by which people are known.

use sha2::{Digest, Sha256};
use std::fmt;

/// A secret that people show. Only its checksum is kept.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What a file has is no token: too easy to guess, or it cannot be sent in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a token has {MIN} to {MAX} characters of ASCII without spaces, in the first line; `openssl rand -hex 24` makes one",
    MIN = Token::LENGTHS.start(), MAX = Token::LENGTHS.end()
)]
pub struct UnfitToken;

impl Token {
    const LENGTHS: std::ops::RangeInclusive<usize> = 16..=512;

    /// The first line of what a file has.
    ///
    /// # Errors
    /// [`UnfitToken`].
    pub fn of_file_contents(contents: &[u8]) -> Result<Token, UnfitToken> {
        let line = contents.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
        let line = std::str::from_utf8(line).map_err(|_| UnfitToken)?;
        let fit = Token::LENGTHS.contains(&line.len()) && line.bytes().all(|b| b.is_ascii_graphic());
        if fit { Ok(Token::new(line)) } else { Err(UnfitToken) }
    }

    /// A token that the caller knows to be hard to guess.
    pub fn new(secret: &str) -> Token {
        Token(checksum(&[secret.as_bytes()]))
    }

    /// Whether `shown` is it; in a time that does not depend on how much of it is right.
    pub(crate) fn is(&self, shown: &str) -> bool {
        equal(&self.0, &checksum(&[shown.as_bytes()]))
    }

    /// What a browser keeps in its place, as long as this process runs with this `salt`.
    pub(crate) fn cookie(&self, salt: &[u8]) -> String {
        hexadecimal(&checksum(&[salt, &self.0]))
    }
}

/// Bytes as text.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The checksum of all parts.
pub fn checksum(parts: &[&[u8]]) -> [u8; 32] {
    let mut sum = Sha256::new();
    parts.iter().for_each(|part| sum.update(part));
    sum.finalize().into()
}

/// Whether both are the same; in a time that does not depend on how much of them is.
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
