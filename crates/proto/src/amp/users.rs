//! Users of the keyed modes, with their passphrases.

use core::fmt;

/// Maximum length of a user name, in bytes.
pub(crate) const NAME_LEN: usize = 80;

/// Users and their passphrases.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Users(Vec<(String, Vec<u8>)>);

/// Reason why a file of users could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct UserFileError {
    /// Line number, counted from 1.
    pub line: usize,
    /// Description of the error.
    pub what: &'static str,
}

impl Users {
    /// Parses a file in the format of perfSONAR (`.pfs`): one user per line, with a name and a passphrase in
    /// hexadecimal. Empty lines and lines that begin with `#` are ignored; a passphrase that consists of one
    /// repeated byte is refused.
    pub fn parse(text: &str) -> Result<Users, UserFileError> {
        let mut users = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line_fault = |what| UserFileError { line: i + 1, what };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let mut fields = line.split_whitespace();
            let (Some(name), Some(digits), None) = (fields.next(), fields.next(), fields.next()) else {
                return Err(line_fault("expected a name and a passphrase in hexadecimal"));
            };
            if name.len() > NAME_LEN {
                return Err(line_fault("the name is longer than 80 bytes"));
            }
            let passphrase = unhex(digits).ok_or(line_fault("the passphrase is not in hexadecimal"))?;
            if passphrase.iter().all(|byte| *byte == passphrase[0]) {
                return Err(line_fault("the passphrase repeats one byte, which is easy to guess"));
            }
            users.push((name.to_owned(), passphrase));
        }
        Ok(Users(users))
    }

    /// Creates a list with a single user.
    pub fn one(name: &str, passphrase: &[u8]) -> Users {
        Users(vec![(name.to_owned(), passphrase.to_vec())])
    }

    /// True if there are no users.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the users.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the passphrase of `name`; `None` if there is no such user.
    pub fn passphrase(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, p)| p.as_slice())
    }

    /// Returns the passphrase of the user named in a message field, which is padded with zeros; `None` if
    /// there is no such user.
    pub(crate) fn of_field(&self, field: &[u8; NAME_LEN]) -> Option<&[u8]> {
        self.passphrase(name_in(field)?)
    }
}

/// Returns the name in a message field, which is padded with zeros; `None` if the name is not UTF-8.
pub(crate) fn name_in(field: &[u8; NAME_LEN]) -> Option<&str> {
    let end = field.iter().position(|b| *b == 0).unwrap_or(NAME_LEN);
    core::str::from_utf8(&field[..end]).ok()
}

/// Returns the message field for `name`, which is truncated if it is too long.
pub fn field(name: &str) -> [u8; NAME_LEN] {
    let mut field = [0; NAME_LEN];
    let bytes = &name.as_bytes()[..name.len().min(NAME_LEN)];
    field[..bytes.len()].copy_from_slice(bytes);
    field
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|p| Some(digit(p[0])? << 4 | digit(*p.get(1)?)?)).collect()
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_perfsonar_are_read() {
        let users = Users::parse("# comment\n\ntester\t696e7465726f702d736563726574\nother 00ff\n").unwrap();
        assert_eq!(users.passphrase("tester"), Some(&b"interop-secret"[..]));
        assert_eq!(users.of_field(&field("other")), Some(&[0, 255][..]));
        assert_eq!(users.passphrase("nobody"), None);
        assert_eq!(format!("{users:?}"), r#"["tester", "other"]"#, "no passphrase is shown");
        for (bad, line) in [("a b c", 1), ("ok 00ff\nx", 2), ("a 0", 1), ("a zz", 1), ("a 000000", 1)] {
            assert_eq!(Users::parse(bad).unwrap_err().line, line, "{bad}");
        }
    }

    #[test]
    fn a_name_has_at_most_eighty_bytes() {
        let line = |length: usize| Users::parse(&format!("{} 00ff", "n".repeat(length))).map(drop);
        assert!(line(1).is_ok() && line(79).is_ok() && line(80).is_ok());
        for length in [81, 82, 200] {
            assert_eq!(line(length).unwrap_err().what, "the name is longer than 80 bytes", "{length}");
        }
    }
}
