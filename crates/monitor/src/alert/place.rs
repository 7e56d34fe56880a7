//! [`AlertSubject`]: subject of an alert: a path, a pair of hosts, a host or a site. [`Places`]: the hosts of the file and their
//! sites.

use crate::model::Model;
use std::collections::BTreeMap;

/// Size of the part of the network that an alert is about, the smallest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlertScope {
    /// One direction of a pair, in one test.
    #[default]
    Path,
    /// Two hosts: both directions, or several tests.
    Pair,
    /// Paths with one host at an end.
    Host,
    /// Paths with a host of a site at an end.
    Site,
}

impl AlertScope {
    /// All scopes with their names in the archive.
    pub const WORDS: [(&'static str, AlertScope); 4] = [
        ("path", AlertScope::Path),
        ("pair", AlertScope::Pair),
        ("host", AlertScope::Host),
        ("site", AlertScope::Site),
    ];

    /// Returns the name in the archive.
    pub fn word(self) -> &'static str {
        AlertScope::WORDS.iter().find(|(_, scope)| *scope == self).map_or("path", |(word, _)| word)
    }

    /// Returns the scope with this name; `None` if there is none.
    pub fn named(word: &str) -> Option<AlertScope> {
        AlertScope::WORDS.iter().find(|(known, _)| *known == word).map(|(_, scope)| *scope)
    }
}

/// Subject of an alert.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AlertSubject {
    /// Name of the rule.
    pub rule: String,
    /// Size of the subject.
    pub scope: AlertScope,
    /// Name of the test; empty for several tests.
    pub test: String,
    /// Name of the sender, or of the host or the site. For missing results of a path: the host that starts the tests.
    pub src: String,
    /// Name of the receiver; empty for a host and a site.
    pub dst: String,
}

impl AlertSubject {
    /// Creates the subject of a rule about one path.
    pub fn path(rule: &str, test: &str, ends: [&str; 2]) -> AlertSubject {
        let [src, dst] = ends.map(str::to_owned);
        AlertSubject { rule: rule.to_owned(), scope: AlertScope::Path, test: test.to_owned(), src, dst }
    }

    /// Creates the subject of a rule about a whole host.
    pub fn host(rule: &str, host: &str) -> AlertSubject {
        AlertSubject { scope: AlertScope::Host, ..AlertSubject::path(rule, "", [host, ""]) }
    }

    /// Creates the subject of a rule about a whole site.
    pub fn site(rule: &str, site: &str) -> AlertSubject {
        AlertSubject { scope: AlertScope::Site, ..AlertSubject::path(rule, "", [site, ""]) }
    }

    /// Returns the hosts at the ends of a path or pair; for a host or a site, only its own name.
    pub fn ends(&self) -> impl Iterator<Item = &str> {
        [self.src.as_str(), self.dst.as_str()].into_iter().filter(|end| !end.is_empty())
    }

    fn has_end(&self, host: &str) -> bool {
        self.ends().any(|end| end == host)
    }
}

/// Hosts of the file and their sites.
#[derive(Clone, Debug, Default)]
pub struct Places {
    hosts: Vec<String>,
    /// Site of each host that has one.
    sites: BTreeMap<String, String>,
}

impl Places {
    /// Reads the hosts and sites of a file.
    pub fn new(model: &Model) -> Places {
        let site = |host: &crate::model::Host| Some((host.name.clone(), host.site.clone()?));
        Places {
            hosts: model.hosts.iter().map(|host| host.name.clone()).collect(),
            sites: model.hosts.iter().filter_map(site).collect(),
        }
    }

    /// Returns the names of all hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.iter().map(String::as_str)
    }

    /// Returns the site of a host; `None` if it has none.
    pub fn site(&self, host: &str) -> Option<&str> {
        self.sites.get(host).map(String::as_str)
    }

    /// Returns the hosts of a site.
    pub fn hosts_of<'a>(&'a self, site: &'a str) -> impl Iterator<Item = &'a str> {
        self.hosts().filter(move |host| self.site(host) == Some(site))
    }

    /// True if `path`, a path or a host, belongs to `whole`.
    pub fn contains(&self, whole: &AlertSubject, path: &AlertSubject) -> bool {
        if whole.rule != path.rule {
            return false;
        }
        match whole.scope {
            AlertScope::Path => whole == path,
            AlertScope::Pair => {
                path.scope == AlertScope::Path
                    && (whole.test.is_empty() || whole.test == path.test)
                    && path.has_end(&whole.src)
                    && path.has_end(&whole.dst)
            }
            AlertScope::Host => path.scope <= AlertScope::Host && path.has_end(&whole.src),
            AlertScope::Site => path.ends().any(|end| self.site(end) == Some(whole.src.as_str())),
        }
    }

    /// Returns the smallest subject that contains all `paths`, which belong to one rule; `None` if they have neither host nor site in
    /// common.
    pub fn cover<'a>(
        &self,
        mut paths: impl Iterator<Item = &'a AlertSubject> + Clone,
    ) -> Option<AlertSubject> {
        let first = paths.next()?;
        if paths.clone().all(|path| path == first) {
            return Some(first.clone());
        }
        let common: Vec<&str> =
            first.ends().filter(|end| paths.clone().all(|path| path.has_end(end))).collect();
        match common[..] {
            [src, dst] => {
                let test = if paths.all(|path| path.test == first.test) { first.test.as_str() } else { "" };
                Some(AlertSubject {
                    scope: AlertScope::Pair,
                    ..AlertSubject::path(&first.rule, test, [src, dst])
                })
            }
            [host] => Some(AlertSubject::host(&first.rule, host)),
            _ => {
                let is_common = |site: &&str| {
                    paths.clone().all(|path| path.ends().any(|end| self.site(end) == Some(site)))
                };
                let site = first.ends().filter_map(|end| self.site(end)).find(is_common)?;
                Some(AlertSubject::site(&first.rule, site))
            }
        }
    }
}
