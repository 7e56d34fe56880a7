//! Alerts, and who is told of them.

use super::Sections;
use super::keys::{ALERT, NOTIFY, choose};
use super::reader::{Located, TableReader};
use crate::alert::condition::AlertCondition;
use crate::alert::rule::{
    AlertRule, AlertRules, AlertSeverity, DEFAULT_BASELINE, NotifyChannel, NotifyMethod, RuleKind,
};
use crate::model::{Host, MonitoredCapture, MonitoredTest};
use crate::window::TimeWindow;
use jitlat_core::{Span, quantity};

/// Most tests that a rule looks back at.
const MAX_TESTS: u32 = 1000;

pub fn alerts(
    file: &Sections<'_>,
    hosts: &[Host],
    tests: &[MonitoredTest],
    captures: &[MonitoredCapture],
    has_https: bool,
) -> AlertRules {
    let reader = AlertReader { file, hosts, tests, captures };
    let mut rules: Vec<AlertRule> = Vec::new();
    for table in file.tables(&ALERT) {
        let Some(rule) = reader.rule(&table) else { continue };
        if rules.iter().any(|r| r.name == rule.name) {
            table.fault("name", format!("there is an alert '{}' already", rule.name.escape_debug()));
        }
        rules.push(rule);
    }
    let mut channels: Vec<NotifyChannel> = Vec::new();
    for table in file.tables(&NOTIFY) {
        let Some(channel) = channel(&table, has_https) else { continue };
        if channels.iter().any(|c| c.name == channel.name) {
            table.fault("name", format!("there is a channel '{}' already", channel.name.escape_debug()));
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
}

impl AlertReader<'_, '_> {
    fn rule(&self, table: &TableReader<'_>) -> Option<AlertRule> {
        let name = name(table, "name = \"loss\"")?;
        let severity = match table.text("severity") {
            None => AlertSeverity::default(),
            Some(word) => match AlertSeverity::WORDS.iter().find(|(known, _)| known == word.get_ref()) {
                Some((_, severity)) => *severity,
                None => {
                    let words = AlertSeverity::WORDS.map(|(word, _)| word);
                    let meant = choose(word.get_ref(), &words);
                    table.fault("severity", format!("there is no such severity: {meant}"));
                    AlertSeverity::default()
                }
            },
        };
        let targets = self.tests.iter().flat_map(|t| &t.pairs.targets).map(String::as_str);
        let far = self.captures.iter().filter(|c| c.towards.is_none()).map(|c| c.far(self.hosts));
        let all: Vec<&str> = self.hosts.iter().map(|h| h.name.as_str()).chain(targets).chain(far).collect();
        let own: Vec<&str> = self.hosts.iter().map(|h| h.name.as_str()).collect();
        let tests: Vec<&str> = self.made_every().map(|(name, _)| name).collect();
        let rule = AlertRule {
            name,
            severity,
            tests: self.names(table, "test", "test", &tests),
            hosts: self.names(table, "host", "host", &all),
            at: self.names(table, "at", "host", &own),
            quiet: self.quiet(table),
            kind: self.kind(table)?,
        };
        self.check(table, &rule);
        Some(rule)
    }

    /// Every test and capture, with the time between two results of a path.
    fn made_every(&self) -> impl Iterator<Item = (&str, Span)> {
        let tests = self.tests.iter().map(|t| (t.name.as_str(), t.every));
        tests.chain(self.captures.iter().map(|c| (c.name.as_str(), c.every)))
    }

    /// Names of a list that are known.
    fn names(&self, table: &TableReader<'_>, key: &str, what: &str, known: &[&str]) -> Vec<String> {
        let given = table.texts(key).unwrap_or_default();
        for name in given.iter().filter(|name| !known.contains(&name.get_ref().as_str())) {
            let meant = choose(name.get_ref(), known);
            let message = format!("there is no {what} '{}': {meant}", name.get_ref().escape_debug());
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
            table.missing("if", "if = \"loss>1%\", \"changed\", \"worse\" or \"silent>15min\"");
            return None;
        }
        let conditions = self.conditions(table, "if");
        let of_silence = conditions.iter().find_map(|condition| match condition {
            AlertCondition::Silent(after) => Some(*after),
            _ => None,
        });
        if let Some(after) = of_silence {
            if conditions.len() > 1 {
                table.fault("if", "silence is no property of a result: write an [[alert]] of its own for it");
            }
            for key in ["until", "of", "clear", "against"].into_iter().filter(|key| table.has(key)) {
                table.fault(key, format!("silence has no '{key}': it is over with the next result"));
            }
            let by_host = match table.text("by") {
                None => false,
                Some(word) => match word.get_ref().as_str() {
                    "path" => false,
                    "host" => true,
                    other => {
                        let meant = choose(other, &["path", "host"]);
                        table.fault("by", format!("'by' is not '{}': {meant}", other.escape_debug()));
                        false
                    }
                },
            };
            return Some(RuleKind::Silence { after, by_host });
        }
        if table.has("by") {
            table.fault("by", "only silence is of a path or a host: leave 'by' out");
        }
        if conditions.is_empty() {
            return None;
        }
        let until = self.conditions(table, "until");
        if until.iter().any(|c| !matches!(c, AlertCondition::Figure(_))) {
            table.fault("until", "'until' is about figures: write until = \"loss<0.5%\"");
        }
        let (bad, of) = table.quantity("of", part).map_or((1, 1), Located::into_inner);
        let clear = table.number("clear").unwrap_or(bad);
        if clear > MAX_TESTS {
            table.fault("clear", format!("a rule looks at {MAX_TESTS} tests at most"));
        }
        let against =
            table.quantity("against", quantity::duration).map_or(DEFAULT_BASELINE, Located::into_inner);
        let kind = RuleKind::Results { conditions, until, bad, of, clear, against };
        Some(kind)
    }

    /// Names what can never, or always, be.
    fn check(&self, table: &TableReader<'_>, rule: &AlertRule) {
        if table.has("against") && rule.compares_with().is_none() {
            table.fault("against", "nothing is compared: 'against' belongs to if = \"changed\" or \"worse\"");
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
                    "'{}' is made every {}, and so silent for longer than {} between two tests: wait longer, or name other \
                     tests with 'test'",
                    name,
                    super::text_of(every.0),
                    super::text_of(after.0)
                ),
            );
        }
    }
}

/// `3 of 5`.
fn part(text: &str) -> Result<(u32, u32), quantity::QuantityError> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| (1..=MAX_TESTS).contains(n));
    let read = text.split_once("of").and_then(|(bad, of)| number(bad).zip(number(of)));
    read.filter(|(bad, of)| bad <= of).ok_or_else(|| {
        quantity::QuantityError::new(format!(
            "'{}' is no part of some tests: write of = \"3 of 5\", {MAX_TESTS} at most",
            text.escape_debug()
        ))
    })
}

fn name(table: &TableReader<'_>, example: &str) -> Option<String> {
    let name = table.needed("name", example)?;
    if name.get_ref().contains(char::is_control) {
        table.fault("name", "a name is one line");
    }
    Some(name.into_inner())
}

fn channel(table: &TableReader<'_>, has_https: bool) -> Option<NotifyChannel> {
    let name = name(table, "name = \"chat\"")?;
    let ways = ["webhook", "command", "print"];
    let given: Vec<&str> = ways.into_iter().filter(|key| table.has(key)).collect();
    if table.has("ca-file") && !table.has("webhook") {
        table.fault("ca-file", "'ca-file' belongs to a webhook: leave it out");
    }
    let way = match given[..] {
        ["webhook"] => {
            let example = "webhook = \"https://alerts.example/api/v2/alerts\"";
            let address = table.needed("webhook", example)?.into_inner();
            let is_secure = address.starts_with("https://");
            let rest = address.strip_prefix("https://").or(address.strip_prefix("http://"));
            if rest.and_then(|rest| rest.split('/').next()).is_none_or(str::is_empty)
                || address.contains(|c: char| c.is_whitespace() || c.is_control())
            {
                let instead = "for anything but http:// and https:// give a 'command'";
                table.fault(
                    "webhook",
                    format!("this is no address that can be used: write {example} ({instead})"),
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
                table.fault("ca-file", "only https:// has certificates: leave 'ca-file' out");
            }
            NotifyMethod::Webhook { address, ca_file }
        }
        ["command"] => {
            let command: Vec<String> =
                table.texts("command").unwrap_or_default().into_iter().map(Located::into_inner).collect();
            if command.first().is_none_or(String::is_empty) {
                table.fault(
                    "command",
                    "there is no program: write command = [\"/usr/local/bin/tell\", \"argument\"]",
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
            let message = "a channel has one of webhook = \"https://…\", command = [\"…\"] and print = true";
            table.fault(given.first().unwrap_or(&"name"), message);
            return None;
        }
    };
    Some(NotifyChannel { name, way })
}
