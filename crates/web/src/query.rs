//! [`Query`]: parameters of an address or a form.

use crate::change::cookies;
use crate::problem::Problem;
use crate::zone::PageZone;
use axum::http::HeaderMap;

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

    /// Returns the time zone that the parameter `zone` names; UTC if there is none.
    ///
    /// # Errors
    /// [`Problem::Wrong`] for a zone that this system does not know.
    pub fn zone(&self) -> Result<PageZone, Problem> {
        let unknown = || {
            Problem::Wrong(
                "zone must be a time zone that this system knows, such as UTC or Europe/Oslo.".to_owned(),
            )
        };
        self.get(ZONE)
            .map_or_else(|| Ok(PageZone::default()), |name| PageZone::named(name).ok_or_else(unknown))
    }

    /// Adds the zone of the browser, from its cookie, if no parameter names one and this system knows it.
    pub fn with_zone_of(mut self, headers: &HeaderMap) -> Query {
        if self.get(ZONE).is_none() {
            let zone = cookies(headers, ZONE_COOKIE).next().map(decoded);
            let zone = zone.filter(|name| PageZone::named(name).is_some());
            self.0.extend(zone.map(|zone| (ZONE.to_owned(), zone)));
        }
        self
    }
}

/// Name of the parameter with the time zone.
pub const ZONE: &str = "zone";
/// Name of the cookie with the time zone of the browser, which the pages' script sets.
const ZONE_COOKIE: &str = "jitlat-zone";

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

    #[test]
    fn an_unknown_zone_is_an_error_unless_only_the_cookie_names_it() {
        let name = |query: &Query| query.zone().map(|zone| zone.name).ok();
        assert!(matches!(Query::parse("zone=Mars/X").zone(), Err(Problem::Wrong(_))));
        let mut headers = HeaderMap::new();
        headers.insert("cookie", format!("{ZONE_COOKIE}=Mars/X").parse().unwrap());
        assert_eq!(name(&Query::default().with_zone_of(&headers)).as_deref(), Some("UTC"));
        assert_eq!(name(&Query::parse("zone=Mars/X").with_zone_of(&headers)), None);
    }
}
