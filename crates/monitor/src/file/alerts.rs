//! Sections of the file about alerts and notifications.

use super::Sections;
use super::hosts::selected;
use super::keys::{ALERT, NOTIFY, choose};
use super::reader::{Located, TableReader};
use crate::alert::condition::AlertCondition;
use crate::alert::rule::{
    AlertRule, AlertRules, AlertSeverity, DEFAULT_BASELINE, NotifyChannel, NotifyMethod, RuleKind,
};
use crate::model::{Host, MonitoredCapture, MonitoredRoute, MonitoredTest};
use crate::window::TimeWindow;
use jitlat_core::{Span, quantity};

/// Maximum number of consecutive tests in a rule.
const MAX_TESTS: u32 = 1000;

pub fn alerts(
    file: &Sections<'_>,
    hosts: &[Host],
    tests: &[MonitoredTest],
    (captures, routes): (&[MonitoredCapture], &[MonitoredRoute]),
    has_https: bool,
) -> AlertRules {
    let reader = AlertReader { file, hosts, tests, captures, routes };
    let mut rules: Vec<AlertRule> = Vec::new();
    for table in file.tables(&ALERT) {
        let Some(rule) = reader.rule(&table) else { continue };
        if rules.iter().any(|r| r.name == rule.name) {
            table.fault(
                "name",
                format!("another alert has the name '{}': choose another name", rule.name.escape_debug()),
            );
        }
        rules.push(rule);
    }
    let mut channels: Vec<NotifyChannel> = Vec::new();
    for table in file.tables(&NOTIFY) {
        let Some(channel) = channel(&table, has_https) else { continue };
        if channels.iter().any(|c| c.name == channel.name) {
            table.fault(
                "name",
                format!(
                    "another [[notify]] has the name '{}': choose another name",
                    channel.name.escape_debug()
                ),
            );
        }
        channels.push(channel);
    }
    AlertRules { rules, channels }
}

struct AlertReader<'a, 'b> {
    file: &'a Sections<'b>,
    hosts: &'a [Host],
    tests: &'a [MonitoredTest],
    captures: &'a [MonitoredCapture],
    routes: &'a [MonitoredRoute],
}

impl AlertReader<'_, '_> {
    fn rule(&self, table: &TableReader<'_>) -> Option<AlertRule> {
        let name = table.name("name = \"loss\"")?.into_inner();
        let severity = match table.text("severity") {
            None => AlertSeverity::default(),
            Some(word) => match AlertSeverity::WORDS.iter().find(|(known, _)| known == word.get_ref()) {
                Some((_, severity)) => *severity,
                None => {
                    let words = AlertSeverity::WORDS.map(|(word, _)| word);
                    let meant = choose(word.get_ref(), &words);
                    table.fault("severity", format!("unknown severity: {meant}"));
                    AlertSeverity::default()
                }
            },
        };
        let targets = self.tests.iter().flat_map(|t| &t.pairs.targets).map(String::as_str);
        let far = self.captures.iter().filter(|c| c.towards.is_none()).map(|c| c.far(self.hosts));
        let all: Vec<&str> = self.hosts.iter().map(|h| h.name.as_str()).chain(targets).chain(far).collect();
        let own: Vec<&str> = self.hosts.iter().map(|h| h.name.as_str()).collect();
        let routes = self.routes.iter().map(|route| route.name.as_str());
        let tests: Vec<&str> = self.made_every().map(|(name, _)| name).chain(routes).collect();
        let rule = AlertRule {
            name,
            severity,
            tests: self.names(table, "test", "test", &tests),
            hosts: selected(self.file, table, self.hosts, &all),
            at: self.names(table, "at", "host", &own),
            quiet: self.quiet(table),
            kind: self.kind(table)?,
        };
        self.check(table, &rule);
        Some(rule)
    }

    /// Returns every test and capture with the time between two results on the same path.
    fn made_every(&self) -> impl Iterator<Item = (&str, Span)> {
        let tests = self.tests.iter().map(|t| (t.name.as_str(), t.every));
        tests.chain(self.captures.iter().map(|c| (c.name.as_str(), c.every)))
    }

    /// Reads a list of names and reports unknown ones.
    fn names(&self, table: &TableReader<'_>, key: &str, what: &str, known: &[&str]) -> Vec<String> {
        let given = table.texts(key).unwrap_or_default();
        for name in given.iter().filter(|name| !known.contains(&name.get_ref().as_str())) {
            let meant = choose(name.get_ref(), known);
            let message = format!("unknown {what} '{}': {meant}", name.get_ref().escape_debug());
            self.file.faults.add(&name.span(), message);
        }
        given.into_iter().map(Located::into_inner).collect()
    }

    fn quiet(&self, table: &TableReader<'_>) -> Option<TimeWindow> {
        let mut window = TimeWindow::default();
        let mut add = |key: &str, add: fn(&mut TimeWindow, &str) -> Result<(), String>| {
            for text in table.texts(key).unwrap_or_default() {
                if let Err(message) = add(&mut window, text.get_ref()) {
                    self.file.faults.add(&text.span(), message);
                }
            }
        };
        add("quiet-days", TimeWindow::add_days);
        add("quiet-hours", TimeWindow::add_hours);
        (!window.is_always()).then_some(window)
    }

    fn conditions(&self, table: &TableReader<'_>, key: &str) -> Vec<AlertCondition> {
        let mut list = Vec::new();
        for text in table.texts(key).unwrap_or_default() {
            match text.get_ref().parse() {
                Ok(condition) => list.push(condition),
                Err(message) => self.file.faults.add(&text.span(), message),
            }
        }
        list
    }

    fn kind(&self, table: &TableReader<'_>) -> Option<RuleKind> {
        if !table.has("if") {
            table.missing(
                "if",
                "if = \"loss>1%\", \"verdict>=poor\", \"changed\", \"worse\" or \"silent>15min\"",
            );
            return None;
        }
        let conditions = self.conditions(table, "if");
        let of_silence = conditions.iter().find_map(|condition| match condition {
            AlertCondition::Silent(after) => Some(*after),
            _ => None,
        });
        if let Some(after) = of_silence {
            if conditions.len() > 1 {
                table.fault(
                    "if",
                    "silent cannot be combined with other conditions: write a separate [[alert]] for it",
                );
            }
            for key in ["until", "of", "clear", "against"].into_iter().filter(|key| table.has(key)) {
                table.fault(key, format!("an alert with silent has no '{key}': the next result resolves it"));
            }
            let by_host = match table.text("by") {
                None => false,
                Some(word) => match word.get_ref().as_str() {
                    "path" => false,
                    "host" => true,
                    other => {
                        let meant = choose(other, &["path", "host"]);
                        table.fault("by", format!("'by' cannot be '{}': {meant}", other.escape_debug()));
                        false
                    }
                },
            };
            return Some(RuleKind::Silence { after, by_host });
        }
        if table.has("by") {
            table.fault("by", "'by' is only for silent: leave it out");
        }
        if conditions.is_empty() {
            return None;
        }
        let until = self.conditions(table, "until");
        if until.iter().any(|c| !matches!(c, AlertCondition::Figure(_))) {
            table.fault("until", "'until' accepts only conditions on figures: write until = \"loss<0.5%\"");
        }
        let (bad, of) = table.quantity("of", part).map_or((1, 1), Located::into_inner);
        let clear = table.number("clear").unwrap_or(bad);
        if clear > MAX_TESTS {
            table.fault("clear", format!("a rule can count at most {MAX_TESTS} tests"));
        }
        let against =
            table.quantity("against", quantity::duration).map_or(DEFAULT_BASELINE, Located::into_inner);
        let kind = RuleKind::Results { conditions, until, bad, of, clear, against };
        Some(kind)
    }

    /// Reports rules that can never fire, or always fire.
    fn check(&self, table: &TableReader<'_>, rule: &AlertRule) {
        if table.has("against") && rule.compares_with().is_none() {
            table.fault(
                "against",
                "'against' has no effect here: it belongs to if = \"changed\" or \"worse\"",
            );
        }
        let RuleKind::Silence { after, .. } = rule.kind else { return };
        let is_covered = |name: &str| rule.tests.is_empty() || rule.tests.iter().any(|known| known == name);
        let covered = self.made_every().filter(|(name, _)| is_covered(name));
        if let Some((name, every)) =
            covered.filter(|(_, every)| *every >= after).max_by_key(|(_, every)| *every)
        {
            table.fault(
                "if",
                format!(
                    "'{}' runs every {}, so it is always silent for longer than {} between two tests: allow \
                     a longer silence, or choose other tests with 'test'",
                    name,
                    super::text_of(every.0),
                    super::text_of(after.0)
                ),
            );
        }
    }
}

/// Parses `3 of 5`.
fn part(text: &str) -> Result<(u32, u32), quantity::QuantityError> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| (1..=MAX_TESTS).contains(n));
    let read = text.split_once("of").and_then(|(bad, of)| number(bad).zip(number(of)));
    read.filter(|(bad, of)| bad <= of).ok_or_else(|| {
        quantity::QuantityError::new(format!(
            "'{}' is not a number of tests: write of = \"3 of 5\" (at most {MAX_TESTS})",
            text.escape_debug()
        ))
    })
}

fn channel(table: &TableReader<'_>, has_https: bool) -> Option<NotifyChannel> {
    let name = table.name("name = \"chat\"")?.into_inner();
    let ways = ["webhook", "command", "print"];
    let given: Vec<&str> = ways.into_iter().filter(|key| table.has(key)).collect();
    if table.has("ca-file") && !table.has("webhook") {
        table.fault("ca-file", "'ca-file' is only for webhooks: leave it out");
    }
    let method = match given[..] {
        ["webhook"] => {
            let example = "webhook = \"https://alerts.example/api/v2/alerts\"";
            let address = table.needed("webhook", example)?.into_inner();
            let is_secure = address.starts_with("https://");
            let rest = address.strip_prefix("https://").or(address.strip_prefix("http://"));
            if rest.and_then(|rest| rest.split('/').next()).is_none_or(str::is_empty)
                || address.contains(|c: char| c.is_whitespace() || c.is_control())
            {
                let instead = "for other protocols give a 'command'";
                table.fault(
                    "webhook",
                    format!("this is not an http:// or https:// address: write {example} ({instead})"),
                );
            } else if is_secure && !has_https {
                table.fault(
                    "webhook",
                    "this jitlat was built without https: build it with --features tls, take a released package, or give a \
                     'command' such as curl",
                );
            }
            let ca_file = table.needed_if_there("ca-file", "ca-file = \"ca.pem\"");
            if ca_file.is_some() && !is_secure {
                table.fault("ca-file", "'ca-file' is only for https:// addresses: leave it out");
            }
            NotifyMethod::Webhook { address, ca_file }
        }
        ["command"] => {
            let command: Vec<String> =
                table.texts("command").unwrap_or_default().into_iter().map(Located::into_inner).collect();
            if command.first().is_none_or(String::is_empty) {
                table.fault(
                    "command",
                    "the command is empty: write command = [\"/usr/local/bin/notify\", \"argument\"]",
                );
            }
            NotifyMethod::Command(command)
        }
        ["print"] => {
            if table.truth("print") != Some(true) {
                table.fault("print", "write print = true, or leave this channel out");
            }
            NotifyMethod::Print
        }
        _ => {
            let message =
                "a channel needs exactly one of webhook = \"https://…\", command = [\"…\"] and print = true";
            table.fault(given.first().unwrap_or(&"name"), message);
            return None;
        }
    };
    Some(NotifyChannel { name, method })
}
