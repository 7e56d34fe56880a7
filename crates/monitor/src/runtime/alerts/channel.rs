//! [`ChannelSender`]: sends the messages of a channel in order. Each is sent again until it is accepted, with
//! growing pauses after failures.

use super::Outlets;
use crate::alert::rule::{NotifyChannel, NotifyMethod};
use jitlat_archive::{Alert, AlertMessage, Archive, ArchiveError, SharedMessage, utc};
use jitlat_core::{Span, WallTime};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

/// Maximum number of messages in one request. A command gets one message at a time, so that its acceptance is stored before the
/// next one.
const MAX_MESSAGES_PER_REQUEST: usize = 64;
/// Pause before the second attempt. It doubles after each further failure, up to [`MAX_RETRY_PAUSE`].
const FIRST_RETRY_PAUSE: Span = Span::seconds(5);
const MAX_RETRY_PAUSE: Span = Span::seconds(600);
/// Number of attempts (about a day) after which a message is given up.
const MAX_ATTEMPTS: u32 = 150;
/// Timeout for an HTTP answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which Alertmanager ends a firing alert on its own. It is long, because the monitor resolves
/// alerts itself.
const MAX_ALERT_AGE: Span = Span::seconds(366 * 86_400);

/// Another judge of the same tests.
pub trait JudgePeer: Send + Sync {
    /// Asks which messages it has sent; `None` if it cannot be reached.
    fn has_sent(&self, messages: &[SharedMessage]) -> Option<Vec<bool>>;

    /// Reports which messages were sent from here, so that the other judge does not send them if this host fails. Does nothing if the
    /// other judge cannot be reached.
    fn report_sent(&self, messages: &[SharedMessage]);
}

/// Another judge, for several threads.
pub type Peer = Arc<dyn JudgePeer>;

/// Sends the messages of a channel.
pub struct ChannelSender {
    channel: NotifyChannel,
    root: PathBuf,
    /// Folder that relative paths in the channel's settings refer to.
    folder: PathBuf,
    outlets: Outlets,
    /// Address of the page that messages link to; `None`: no links.
    link: Option<String>,
    /// Other judges of the same tests, which may have sent a message already.
    peers: Vec<Peer>,
    archive: Option<Archive>,
    /// True if the last attempt failed, so that failures are logged only once.
    failing: bool,
}

impl ChannelSender {
    /// Creates a sender for the messages in the archive in the folder `root`; `folder` is that of the monitor's file.
    pub fn new(channel: NotifyChannel, root: PathBuf, folder: PathBuf, outlets: Outlets) -> ChannelSender {
        ChannelSender {
            channel,
            root,
            folder,
            outlets,
            link: None,
            peers: Vec::new(),
            archive: None,
            failing: false,
        }
    }

    /// Sets the other judges.
    pub fn with_peers(self, peers: Vec<Peer>) -> ChannelSender {
        ChannelSender { peers, ..self }
    }

    /// Sets the address of the page that messages link to.
    pub fn with_link(self, link: Option<String>) -> ChannelSender {
        ChannelSender { link, ..self }
    }

    /// Sends the messages that are due. Returns the time at which the next message is due; `None` if no message
    /// is waiting.
    pub fn step(&mut self, now: WallTime) -> Option<WallTime> {
        // Errors of the archive are ignored here, because the judging thread reports them.
        let again = Some(now + FIRST_RETRY_PAUSE);
        let archive = self.archive.take().map_or_else(|| Archive::open_to_write(&self.root), Ok);
        let Ok(archive) = archive else { return again };
        let sent = self.send(&archive, now).and_then(|()| archive.message_due(&self.channel.name, now.0));
        let Ok(due) = sent else { return again };
        self.archive = Some(archive);
        due.map(WallTime)
    }

    fn send(&mut self, archive: &Archive, now: WallTime) -> Result<(), ArchiveError> {
        loop {
            let name = &self.channel.name;
            let at_once = if matches!(self.channel.method, NotifyMethod::Webhook { .. }) {
                MAX_MESSAGES_PER_REQUEST
            } else {
                1
            };
            let due = archive.waiting(name, now.0, at_once)?;
            if due.is_empty() {
                return Ok(());
            }
            let due = self.not_sent_elsewhere(archive, due)?;
            if due.is_empty() {
                continue;
            }
            let mut to_report = self.shared(archive, &due)?;
            for (message, shared) in due.iter().zip(&mut to_report) {
                // A message that still waits for another channel does not count as sent, and is not reported.
                if !archive.is_last_channel(message)? {
                    shared.paths.clear();
                }
            }
            let (due, failure) = self.deliver(due);
            // The other judges are informed before the archive is updated, because this host may be killed at any time. Messages are sent
            // in order, so that those that were sent come first in the list.
            to_report.truncate(due.taken.len());
            to_report.retain(|message| !message.paths.is_empty());
            for peer in self.peers.iter().filter(|_| !to_report.is_empty()) {
                peer.report_sent(&to_report);
            }
            archive.sent(&due.taken)?;
            let Some(why) = failure else {
                if std::mem::replace(&mut self.failing, false) {
                    info!("[[notify]] {name}: messages are delivered again");
                }
                continue;
            };
            if !std::mem::replace(&mut self.failing, true) {
                warn!("[[notify]] {name}: {why}; retrying at growing intervals");
            }
            let (hopeless, again): (Vec<&AlertMessage>, Vec<&AlertMessage>) =
                due.left.iter().partition(|message| message.tries + 1 >= MAX_ATTEMPTS);
            if !hopeless.is_empty() {
                warn!(
                    "[[notify]] {name}: {} messages could not be delivered and were dropped",
                    hopeless.len()
                );
                archive.give_up(&hopeless.iter().map(|m| m.id).collect::<Vec<_>>())?;
            }
            let tries = again.first().map_or(0, |message| message.tries);
            let pause = FIRST_RETRY_PAUSE.0.saturating_mul(1 << tries.min(16)).min(MAX_RETRY_PAUSE.0);
            return archive.not_sent(&again.iter().map(|m| m.id).collect::<Vec<_>>(), now.0 + pause);
        }
    }

    /// Removes the messages that another judge has sent; a judge that cannot be reached counts as having sent none.
    fn not_sent_elsewhere(
        &self,
        archive: &Archive,
        due: Vec<AlertMessage>,
    ) -> Result<Vec<AlertMessage>, ArchiveError> {
        let mut left = due;
        let remove = |left: &mut Vec<AlertMessage>, sent: Vec<bool>| {
            let all = std::mem::take(left).into_iter().zip(sent);
            let (gone, rest): (Vec<_>, Vec<_>) = all.partition(|(_, sent)| *sent);
            *left = rest.into_iter().map(|(message, _)| message).collect();
            archive.sent(&gone.iter().map(|(message, _)| message.id).collect::<Vec<_>>())
        };
        let sent = self.shared(archive, &left)?;
        if !sent.is_empty() {
            let sent = sent
                .iter()
                .map(|message| archive.was_sent_elsewhere(message))
                .collect::<Result<Vec<_>, _>>()?;
            remove(&mut left, sent)?;
        }
        for peer in &self.peers {
            if left.is_empty() {
                break;
            }
            let shared = self.shared(archive, &left)?;
            if let Some(sent) = peer.has_sent(&shared).filter(|sent| sent.len() == left.len()) {
                remove(&mut left, sent)?;
            }
        }
        Ok(left)
    }

    /// Returns messages in the form that other judges recognise; none if there are no other judges.
    fn shared(
        &self,
        archive: &Archive,
        messages: &[AlertMessage],
    ) -> Result<Vec<SharedMessage>, ArchiveError> {
        let messages = messages.iter().filter(|_| !self.peers.is_empty());
        messages.map(|message| archive.shared(message)).collect()
    }

    /// Sends messages. Returns which of them were accepted, and the reason why the others were not.
    fn deliver(&self, messages: Vec<AlertMessage>) -> (DeliveryOutcome, Option<String>) {
        let mut delivered = DeliveryOutcome { taken: Vec::new(), left: messages };
        let failure = loop {
            if delivered.left.is_empty() {
                break None;
            }
            let sent = match &self.channel.method {
                NotifyMethod::Webhook { address, ca_file } => {
                    let alerts: Vec<Value> = delivered
                        .left
                        .iter()
                        .map(|m| for_alertmanager(&m.alert, self.link_to(&m.alert)))
                        .collect();
                    let body = Value::Array(alerts).to_string();
                    let ca_file = ca_file.as_ref().map(|file| self.folder.join(file));
                    jitlat_web::post(address, body, ca_file.as_deref(), ANSWER_TIMEOUT)
                        .map(|()| delivered.left.len())
                        .map_err(|e| format!("{address}: {e}"))
                }
                NotifyMethod::Command(command) => {
                    let first = &delivered.left[0];
                    let link = self.link_to(&first.alert);
                    self.outlets.commands.run(&self.channel.name, command, first, link).map(|()| 1)
                }
                NotifyMethod::Print => {
                    let alert = &delivered.left[0].alert;
                    let text = with_link(line(alert), self.link_to(alert));
                    (self.outlets.print)(&format!("{text}\n")).map(|()| 1).map_err(|e| e.to_string())
                }
            };
            match sent {
                Ok(n) => delivered.taken.extend(delivered.left.drain(..n).map(|m| m.id)),
                Err(why) => break Some(why),
            }
        };
        (delivered, failure)
    }

    /// Returns the address of an alert on the page.
    fn link_to(&self, alert: &Alert) -> Option<String> {
        self.link.as_ref().map(|link| format!("{link}/alerts#alert-{}", alert.id))
    }
}

/// Appends an address to a line.
pub(super) fn with_link(line: String, link: Option<String>) -> String {
    match link {
        Some(link) => format!("{line} {link}"),
        None => line,
    }
}

/// Outcome of sending messages.
struct DeliveryOutcome {
    taken: Vec<i64>,
    left: Vec<AlertMessage>,
}

/// Formats what an alert is about: a path, two hosts, a host or a site.
fn path(alert: &Alert) -> String {
    let Alert { test, src, dst, paths, .. } = alert;
    let test = if test.is_empty() { String::new() } else { format!("{test}, ") };
    let several = if *paths > 1 { format!(" ({paths} paths)") } else { String::new() };
    match alert.scope.as_str() {
        "pair" => format!("{test}{src} ↔ {dst}{several}"),
        "site" => format!("site {src}{several}"),
        "host" => format!("{src}{several}"),
        _ => format!("{test}{src} → {dst}"),
    }
}

/// Formats an alert as one line.
pub fn line(alert: &Alert) -> String {
    let Alert { alert: name, severity, reason, .. } = alert;
    let about = path(alert);
    match alert.resolved_ns.zip(alert.resolution.as_ref()) {
        None => format!("{} FIRING {severity} {name}: {about}: {reason}", utc(alert.fired_ns)),
        Some((at, why)) => {
            let since = utc(alert.fired_ns);
            format!("{} RESOLVED {severity} {name}: {about}: {why}; it fired at {since}", utc(at))
        }
    }
}

/// Formats an alert for Alertmanager's `/api/v2/alerts`.
pub(super) fn for_alertmanager(alert: &Alert, link: Option<String>) -> Value {
    let time = |ns: i64| utc(ns).replace(' ', "T") + "Z";
    let labels = [
        ("alertname", &alert.alert),
        ("severity", &alert.severity),
        ("scope", &alert.scope),
        ("test", &alert.test),
        ("src", &alert.src),
        ("dst", &alert.dst),
    ];
    // Alertmanager treats a label without a value as absent.
    let labels: serde_json::Map<String, Value> = labels
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(key, value)| (key.to_owned(), value.clone().into()))
        .chain([("job".to_owned(), "jitlat".into())])
        .collect();
    let mut annotations = json!({ "summary": format!("{}: {}", path(alert), alert.reason) });
    if let Some(resolution) = &alert.resolution {
        annotations["resolution"] = resolution.clone().into();
    }
    let mut alert = json!({
        "labels": labels,
        "annotations": annotations,
        "startsAt": time(alert.fired_ns),
        "endsAt": time(alert.resolved_ns.unwrap_or(alert.fired_ns.saturating_add(MAX_ALERT_AGE.0))),
    });
    if let Some(link) = link {
        alert["generatorURL"] = link.into();
    }
    alert
}

#[cfg(test)]
mod tests {
    use super::super::{Commands, Print};
    use super::*;
    use jitlat_archive::{AlertAbout, AlertUpdate, Fired, Note};
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    fn silent() -> Outlets {
        let print: Print = std::sync::Arc::new(|_| Ok(()));
        Outlets { print, commands: std::sync::Arc::new(Commands::Here) }
    }

    fn fired(dst: &str) -> AlertUpdate {
        AlertUpdate::Fired(Fired {
            about: about(dst),
            severity: "warning".to_owned(),
            path: ["voice", "a", dst].map(str::to_owned),
            since_ns: 0,
            fired_ns: 1_000_000_000,
            held_until_ns: 0,
            reason: "loss>1% (loss is 2%)".to_owned(),
        })
    }

    fn about(dst: &str) -> AlertAbout {
        let [alert, scope, test, src, dst] = ["loss", "path", "voice", "a", dst].map(str::to_owned);
        AlertAbout { alert, scope, test, src, dst }
    }

    fn resolved(dst: &str) -> AlertUpdate {
        let reason = "a test was good".to_owned();
        AlertUpdate::Resolved { about: about(dst), held_until_ns: 0, at_ns: 61_000_000_000, reason }
    }

    fn archive(root: &std::path::Path, changes: Vec<AlertUpdate>) -> Archive {
        let archive = Archive::make(root).unwrap();
        let channels = vec!["n".to_owned()];
        archive.note(&Note { changes, channels, most_waiting: 100, ..Note::default() }).unwrap();
        archive
    }

    /// A server that gives these answers, one per connection; returns the bodies that it received.
    fn server(answers: &'static [u16]) -> (String, JoinHandle<Vec<Value>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/api/v2/alerts", listener.local_addr().unwrap());
        let run = move || {
            let bodies = answers.iter().map(|status| {
                let mut stream = listener.accept().unwrap().0;
                let (mut got, mut part) = (Vec::new(), [0; 4096]);
                loop {
                    let n = stream.read(&mut part).unwrap();
                    got.extend_from_slice(&part[..n]);
                    let text = String::from_utf8_lossy(&got);
                    if let Some(body) =
                        text.split_once("\r\n\r\n").and_then(|(_, b)| serde_json::from_str(b).ok())
                    {
                        let answer = format!("HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n");
                        stream.write_all(answer.as_bytes()).unwrap();
                        return body;
                    }
                }
            });
            bodies.collect()
        };
        (address, std::thread::spawn(run))
    }

    #[test]
    fn what_is_not_taken_is_sent_again_later_and_nothing_overtakes_it() {
        let folder = tempfile::tempdir().unwrap();
        let archive = archive(folder.path(), vec![fired("b")]);
        let (address, server) = server(&[503, 200]);
        let channel =
            NotifyChannel { name: "n".to_owned(), method: NotifyMethod::Webhook { address, ca_file: None } };
        let mut sender = ChannelSender::new(channel, folder.path().to_owned(), PathBuf::new(), silent());
        let at = |second: i64| WallTime(second * 1_000_000_000);
        sender.step(at(100));
        // A message waits until the previous one is accepted.
        let (changes, channels) = (vec![resolved("b")], vec!["n".to_owned()]);
        archive.note(&Note { changes, channels, most_waiting: 100, ..Note::default() }).unwrap();
        sender.step(at(104));
        assert_eq!(archive.waiting("n", i64::MAX, 9).unwrap().len(), 2);
        sender.step(at(105));
        assert!(archive.waiting("n", i64::MAX, 9).unwrap().is_empty());
        let bodies = server.join().unwrap();
        assert_eq!(bodies[0].as_array().unwrap().len(), 1);
        let both = bodies[1].as_array().unwrap();
        assert_eq!(both[0], bodies[0][0]);
        assert_eq!(both[0]["labels"]["alertname"], "loss");
        assert_eq!(both[0]["startsAt"], "1970-01-01T00:00:01Z");
        assert_eq!(both[0]["endsAt"], "1971-01-02T00:00:01Z");
        assert_eq!(both[0]["annotations"]["summary"], "voice, a → b: loss>1% (loss is 2%)");
        assert_eq!(
            (&both[1]["labels"], &both[1]["endsAt"]),
            (&both[0]["labels"], &"1970-01-01T00:01:01Z".into())
        );
    }

    /// The archive of the other judge, which is one of two.
    struct Other {
        root: PathBuf,
        alive: Arc<std::sync::Mutex<[bool; 2]>>,
        k: usize,
    }

    impl JudgePeer for Other {
        fn has_sent(&self, messages: &[SharedMessage]) -> Option<Vec<bool>> {
            self.alive.lock().unwrap()[self.k].then(|| {
                let archive = Archive::open(&self.root).unwrap();
                messages.iter().map(|message| archive.knows_sent(message).unwrap()).collect()
            })
        }

        fn report_sent(&self, messages: &[SharedMessage]) {
            if self.alive.lock().unwrap()[self.k] {
                Archive::make(&self.root).unwrap().record_sent_elsewhere(messages, 0).unwrap();
            }
        }
    }

    /// Two judges of the same tests, one of which is killed now and then: each message is sent once, by one of them.
    #[test]
    fn two_judges_send_each_message_once_and_one_alone_sends_all() {
        let folder = tempfile::tempdir().unwrap();
        let roots = ["first", "second"].map(|name| folder.path().join(name));
        let sent: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
        let alive = Arc::new(std::sync::Mutex::new([true, true]));
        let channel = NotifyChannel { name: "n".to_owned(), method: NotifyMethod::Print };
        let senders = [0, 1].map(|k| {
            let (sent, alive, other) = (sent.clone(), alive.clone(), roots[1 - k].clone());
            let print: Print = Arc::new(move |line: &str| {
                sent.lock().unwrap().push(line.split(' ').take(9).skip(2).collect::<Vec<_>>().join(" "));
                Ok(())
            });
            let peer: Peer = Arc::new(Other { root: other, alive, k: 1 - k });
            let outlets = Outlets { print, commands: Arc::new(Commands::Here) };
            let sender = ChannelSender::new(channel.clone(), roots[k].clone(), PathBuf::new(), outlets);
            sender.with_peers(vec![peer])
        });
        let [mut first, mut second] = senders;
        let turn = 30_000_000_000;
        // The second judge holds its messages while it is not its turn; the times of its clock differ a little.
        let judge = |k: usize, change: AlertUpdate, at: i64| {
            let hold = turn * k as i64;
            let change = match change {
                AlertUpdate::Fired(fired) => {
                    AlertUpdate::Fired(Fired { fired_ns: at, held_until_ns: at + hold, ..fired })
                }
                AlertUpdate::Resolved { about, reason, .. } => {
                    AlertUpdate::Resolved { about, reason, at_ns: at, held_until_ns: at + hold }
                }
                other => other,
            };
            archive(&roots[k], vec![change]);
        };
        let at = |second: i64| WallTime(second * 1_000_000_000);
        // Both are alive.
        judge(0, fired("b"), at(100).0);
        judge(1, fired("b"), at(101).0);
        first.step(at(102));
        second.step(at(103));
        second.step(at(140));
        assert_eq!(sent.lock().unwrap().len(), 1, "{sent:?}");
        // The first is killed before the alert is resolved: the second has its turn.
        alive.lock().unwrap()[0] = false;
        judge(1, resolved("b"), at(200).0);
        second.step(at(210));
        assert_eq!(sent.lock().unwrap().len(), 1, "it is not its turn yet");
        second.step(at(231));
        assert_eq!(sent.lock().unwrap().len(), 2, "{sent:?}");
        // The first returns, judges late what the second has sent already, and sends what is new.
        alive.lock().unwrap()[0] = true;
        judge(0, resolved("b"), at(300).0);
        judge(0, fired("c"), at(301).0);
        first.step(at(302));
        judge(1, fired("c"), at(301).0);
        second.step(at(340));
        let lines = sent.lock().unwrap().clone();
        assert_eq!(lines.len(), 3, "{lines:?}");
        // The first is killed as soon as it has sent a message, before the second has decided the same: it is not sent again.
        judge(0, fired("d"), at(350).0);
        first.step(at(351));
        assert_eq!(sent.lock().unwrap().len(), 4);
        alive.lock().unwrap()[0] = false;
        judge(1, fired("d"), at(352).0);
        second.step(at(390));
        assert_eq!(sent.lock().unwrap().len(), 4, "{sent:?}");
        // A later message is another one.
        judge(1, resolved("d"), at(395).0);
        second.step(at(430));
        assert_eq!(sent.lock().unwrap().len(), 5, "{sent:?}");
        alive.lock().unwrap()[0] = true;
        judge(0, resolved("d"), at(395).0);
        first.step(at(431));
        assert_eq!(sent.lock().unwrap().len(), 5, "{sent:?}");
        // The second alone is killed: nothing changes for the first.
        alive.lock().unwrap()[1] = false;
        judge(0, resolved("c"), at(440).0);
        first.step(at(441));
        assert_eq!(sent.lock().unwrap().len(), 6);
    }

    #[test]
    fn a_command_gets_each_message_and_one_that_fails_is_run_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("archive");
        let archive = archive(&root, vec![fired("b"), fired("c"), resolved("b")]);
        let file = folder.path().join("messages");
        // The command fails the first time.
        let script = format!(
            "test -e {0} || {{ touch {0}; exit 3; }}; echo $JITLAT_STATE $JITLAT_DST $JITLAT_MESSAGE >> {0}; head -n 1 >> {0}",
            file.display()
        );
        let command = ["sh", "-c", &script].map(str::to_owned).to_vec();
        let mut sender = ChannelSender::new(
            NotifyChannel { name: "n".to_owned(), method: NotifyMethod::Command(command) },
            root,
            PathBuf::new(),
            silent(),
        );
        sender.step(WallTime(0));
        assert_eq!(archive.waiting("n", i64::MAX, 9).unwrap().len(), 3);
        sender.step(WallTime(FIRST_RETRY_PAUSE.0));
        let messages = std::fs::read_to_string(&file).unwrap();
        let lines: Vec<&str> = messages.lines().collect();
        assert_eq!(
            (lines.len(), lines[0], lines[2], lines[4]),
            (6, "firing b 1", "firing c 2", "resolved b 3")
        );
        assert_eq!(lines[1], "1970-01-01 00:00:01 FIRING warning loss: voice, a → b: loss>1% (loss is 2%)");
        assert_eq!(
            lines[5],
            "1970-01-01 00:01:01 RESOLVED warning loss: voice, a → b: a test was good; it fired at 1970-01-01 00:00:01"
        );
    }
}
