//! [`Query`]: parameters of an address or a form.

/// Names and values, in order.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses `text`, such as `a=1&b=two+words`.
    pub fn parse(text: &str) -> Query {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        Query(text.split('&').filter(|pair| !pair.is_empty()).map(pair).collect())
    }

    /// Returns the value of the parameter `name`; `None` if it is missing or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.trim());
        value.filter(|value| !value.is_empty())
    }
}

/// Decodes a value of a form.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|d| char::from(d).to_digit(16)).unwrap_or(0) as u8;
                (digit() << 4) | digit()
            }
            other => other,
        });
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_decoded() {
        assert_eq!(decoded("a+b%2Bc%e2%9c%93%"), "a b+c✓\0");
        let query = Query::parse("from=2026-11-01T10%3A00%3A00Z&&to=&x");
        assert_eq!(query.get("from"), Some("2026-11-01T10:00:00Z"));
        assert_eq!((query.get("to"), query.get("x"), query.get("y")), (None, None, None));
    }
}
