//! Files with and without faults.

use crate::common;
use crate::common::{Simple, model};
use jitlat_core::Span;
use jitlat_monitor::file::{keys::SECTIONS, read};
use jitlat_monitor::model::{CollectorQuota, CollectorTrust, KeySource, Readers, SendingHosts};
use jitlat_monitor::{MonitorPlan, Timetable};

const MESH: &str = r#"host = [
  { name = "berlin", address = "192.0.2.1" },
  { name = "madrid", address = "192.0.2.2" },
  { name = "oslo", address = "2001:db8::3" },
  { name = "paris", address = "192.0.2.4" },
  { name = "rome", address = "rome.example", concurrent = 2, key-file = "rome.key" },
]

[[test]]
name = "delay"
every = "5min"
for = "10s"

[serve]
key-file = "mesh.key"

[archive]
folder = "archive"
packets = "90d"
size = "20G"
"#;

#[test]
fn twenty_lines_are_enough_for_five_hosts() {
    assert!(MESH.lines().count() <= 20);
    let model = model(MESH);
    assert_eq!((model.hosts.len(), model.tests[0].pairs.list.len()), (5, 10));
    assert_eq!(model.tests[0].work.direction, SendingHosts::Both);
    assert_eq!(model.tests[0].every, Span::seconds(300));
    assert_eq!(model.hosts[4].key, Some(KeySource::File("rome.key".to_owned())));
    assert_eq!((model.archive.packets, model.archive.size), (Some(90), Some(20 << 30)));
    let timetable = Timetable::new(&model);
    assert_eq!(timetable.tests[0].rounds.len(), 5);
    let plan = MonitorPlan::new(&model, &timetable);
    assert_eq!(plan.shortfalls, Vec::<String>::new());
    assert_eq!(plan.tests[0].tests_a_day, 2880.0);
    for host in &plan.hosts {
        assert_eq!(host.started_a_day + host.answered_a_day, 4.0 * 288.0);
        assert_eq!(host.bytes_in_a_day, 4.0 * 288.0 * 63_000.0);
        // A test has two directions, of 500 packets each.
        assert_eq!(host.archive_bytes_a_day, host.started_a_day * (2.0 * 2850.0 + 1000.0 * (3.0 + 9.5)));
    }
    // Rome may be in two tests at the same time, its partners in one.
    let peaks: Vec<u64> = plan.hosts.iter().map(|h| h.peak_out_bits).collect();
    assert_eq!(peaks, [50_400, 50_400, 50_400, 50_400, 100_800]);
}

#[test]
fn everything_wrong_is_named_with_its_place() {
    let text = r#"[[host]]
nmae = "a"
address = "192.0.2.1"
[[host]]
name = "b"
address = 7
concurrent = 0
[[host]]
name = "b"
address = "x"
key = "0123456789abcdef"
key-file = "k"
[[grup]]
[[group]]
name = "g"
kind = "rign"
[[group]]
name = "s"
kind = "star"
centre = "c"
lists = []
[[test]]
name = "t"
group = "q"
every = "7min"
options = { rate = "1M", interval = "1ms" }
[[test]]
name = "u"
instrument = "pong"
group = "s"
every = "5min"
[[ping]]
name = "p"
every = "10s"
days = "monday"
hours = ["8-9"]
[archive]
packets = "36h"
[serve]
on = 1
options = { bnid = "::" }
[timetable]
guard = "2 fortnights"
"#;
    let faults = read(text, &Simple).unwrap_err();
    let printed_faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let expected = [
        "1:1: [[host]] needs 'name': write name = \"berlin\"",
        "2:1: [[host]] has no key 'nmae': did you mean 'name'? (choose name, address, site, labels, key, key-file, certificate, pin, bandwidth, concurrent)",
        "6:11: 'address' must be a string, not a TOML integer",
        "7:14: 'concurrent' must be a number of 1 or more, not a TOML integer",
        "9:8: another host has the name 'b': choose another name",
        "11:7: 'key' and 'key-file' cannot be combined: leave one of them out",
        "13:3: unknown section 'grup': did you mean 'group'? (choose host, group, test, ping, capture, route, archive, collector, serve, timetable, web, alert, maintenance, notify)",
        "16:8: unknown kind 'rign': choose mesh, star, pairs, disjoint",
        "20:10: unknown host 'c': did you mean 'b'? (choose b, b)",
        "21:9: a group of kind star has no 'lists': leave it out",
        "24:9: unknown group 'q': did you mean 'g'? (choose g, s)",
        "25:9: 'every' must divide a day, because the timetable restarts at midnight UTC: write 400s or 432s",
        "26:26: there is no option --interval",
        "29:14: unknown instrument 'pong': did you mean 'ping'? (choose one-way, ping)",
        "32:1: [[ping]] needs 'targets': write targets = [\"192.0.2.1\", \"router.example\"]",
        "34:9: one test takes 25s in total (packets 20s, setup and guard 5s, spread 0.000s), but restarts after 10s: make 'every' longer, or 'for' shorter",
        "35:8: 'monday' is not a day: write mon, tue, wed, thu, fri, sat, sun, or mon-fri",
        "36:10: '8-9' is not a range of hours: write 08:00-18:00, in UTC; 24:00 ends a day",
        "37:1: [archive] needs 'folder': write folder = \"/var/lib/jitlat\"",
        "38:11: 'packets': '36h' is not a whole number of days: write 90d",
        "40:6: 'on' must be true or false, not a TOML integer",
        "41:13: no --bnid",
        "43:9: 'guard': 'fortnights' is not a unit of time: use ns, us, ms, s, m, h or d",
    ];
    assert_eq!(printed_faults, expected, "{}", printed_faults.join("\n"));
}

#[test]
fn what_is_no_toml_and_an_empty_file_say_so() {
    let printed_faults =
        |text: &str| read(text, &Simple).unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(printed_faults("[[host]\nname")[0].starts_with("1:"), "{:?}", printed_faults("[[host]\nname"));
    assert_eq!(printed_faults("").len(), 2);
    assert!(
        printed_faults("host = 3\n[[test]]\nname = \"t\"\nevery = \"1min\"")
            .iter()
            .any(|t| t.starts_with("1:8: this section can be repeated"))
    );
}

#[test]
fn alerts_say_what_is_wrong_with_them_and_where() {
    let with = |alert: &str| read(&format!("{MESH}[[alert]]\nname = \"x\"\n{alert}"), &Simple);
    let rules =
        with("if = [\"loss>1%\", \"worse\"]\nof = \"3 of 5\"\nquiet-hours = \"22:00-06:00\"").unwrap().alerts;
    assert_eq!(rules.rules[0].compares_with(), Some(Span::seconds(7 * 86_400)));
    assert!(rules.rules[0].quiet.is_some() && rules.channels.is_empty());
    for (alert, wrong) in [
        ("", "21:1: [[alert]] needs 'if'"),
        ("if = \"los>1%\"", "23:6: 'los' is not a figure"),
        ("if = \"loss>1\"", "23:6: '1' is not a percentage"),
        ("if = \"loss\"", "23:6: 'loss' is not a condition"),
        ("if = \"silent\"", "23:6: silent needs a time"),
        ("if = \"silent>4min\"", "23:6: 'delay' runs every 5min"),
        ("if = \"silent>1h\"\nof = \"3 of 5\"", "24:6: an alert with silent has no 'of'"),
        ("if = \"silent>1h\"\nby = \"hots\"", "24:6: 'by' cannot be 'hots': did you mean 'host'?"),
        ("if = \"loss>1%\"\nof = \"5 of 3\"", "24:6: 'of': '5 of 3' is not a number of tests"),
        ("if = \"loss>1%\"\nby = \"host\"", "24:6: 'by' is only for silent"),
        ("if = \"loss>1%\"\nuntil = \"worse\"", "24:9: 'until' accepts only conditions on figures"),
        ("if = \"loss>1%\"\nagainst = \"7d\"", "24:11: 'against' has no effect"),
        ("if = \"loss>1%\"\ntest = \"dely\"", "24:8: unknown test 'dely': did you mean 'delay'?"),
        ("if = \"loss>1%\"\nat = [\"roma\"]", "24:7: unknown host 'roma': did you mean 'rome'?"),
        ("if = \"loss>1%\"\nseverity = \"bad\"", "24:12: unknown severity"),
        ("if = \"loss>1%\"\nquiet-days = \"night\"", "24:14: 'night' is not a day"),
        ("if = \"loss>1%\"\n[[notify]]\nname = \"n\"", "25:8: a channel needs exactly one of"),
        (
            "if = \"loss>1%\"\n[[notify]]\nname = \"n\"\nwebhook = \"ftp://h/\"",
            "26:11: this is not an http://",
        ),
        ("if = \"loss>1%\"\n[[notify]]\nname = \"n\"\ncommand = []", "26:11: the command is empty"),
    ] {
        let faults: Vec<String> = with(alert).unwrap_err().iter().map(ToString::to_string).collect();
        assert!(faults.len() == 1 && faults[0].starts_with(wrong), "{alert}: {faults:?}");
    }
}

const CAPTURES: &str = r#"
[[capture]]
name = "office"
host = ["berlin", "madrid"]
interface = "eth0"
towards = "oslo"
far-interface = "wan1"
options = { only = "udp" }
every = "5min"

[[capture]]
name = "downloads"
host = "oslo"
instrument = "tcp"
interface = "wan1"
every = "1h"

[[alert]]
name = "silent"
if = "silent>2h"
test = ["office", "downloads"]
"#;

#[test]
fn captures_are_read_planned_and_watched() {
    let model = model(&format!("{MESH}{CAPTURES}"));
    let [office, downloads] = &model.captures[..] else { panic!("{:?}", model.captures) };
    assert_eq!((office.hosts.as_slice(), office.towards, office.two_points), (&[0, 1][..], Some(2), true));
    assert_eq!([office, downloads].map(|c| c.far(&model.hosts)), ["oslo", "wan1"]);
    assert_eq!((model.far_interfaces(2), model.far_interfaces(0)), (vec!["wan1".to_owned()], Vec::new()));
    assert_eq!(model.captures_of(2).map(|c| c.name.as_str()).collect::<Vec<_>>(), ["downloads"]);
    let plan = MonitorPlan::new(&model, &Timetable::new(&model));
    let results: Vec<f64> = plan.captures.iter().map(|c| c.results_a_day).collect();
    assert_eq!(results, [576.0, 24.0]);
    let without = MonitorPlan::new(&self::model(MESH), &Timetable::new(&self::model(MESH)));
    let more: Vec<f64> = plan
        .hosts
        .iter()
        .zip(&without.hosts)
        .map(|(a, b)| a.archive_bytes_a_day - b.archive_bytes_a_day)
        .collect();
    assert_eq!(more, [576.0 * 1600.0, 576.0 * 1600.0, 24.0 * 1600.0, 0.0, 0.0]);
    // Silence is also detected for captures.
    let text = format!("{MESH}{CAPTURES}").replace("silent>2h", "silent>30min");
    let faults = read(&text, &Simple).unwrap_err();
    assert!(faults[0].message.contains("'downloads' runs every 1h"), "{faults:?}");
}

#[test]
fn captures_say_what_is_wrong_with_them_and_where() {
    let faults = |from: &str, to: &str| {
        let text = format!("{MESH}{CAPTURES}").replacen(from, to, 1);
        let faults = read(&text, &Simple).expect_err(to);
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    for (from, to, message) in [
        ("name = \"downloads\"", "name = \"office\"", "another test or capture has the name 'office'"),
        ("name = \"downloads\"", "name = \"delay\"", "another test or capture has the name 'delay'"),
        ("host = \"oslo\"", "host = \"olso\"", "unknown host 'olso': did you mean 'oslo'?"),
        ("host = \"oslo\"\ninstr", "instr", "[[capture]] needs 'host'"),
        ("\"tcp\"", "\"tpc\"", "unknown capture instrument 'tpc': did you mean 'tcp'?"),
        ("far-interface = \"wan1\"\n", "", "[[capture]] needs 'far-interface'"),
        (
            "instrument = \"tcp\"",
            "instrument = \"tcp\"\nfar-interface = \"x\"",
            "this instrument has only one capture point",
        ),
        ("towards = \"oslo\"", "towards = \"berlin\"", "'towards' is one of the capturing hosts"),
        ("only = \"udp\"", "onyl = \"udp\"", "no --onyl"),
        ("every = \"1h\"", "every = \"7h\"", "must divide a day"),
        ("every = \"1h\"", "every = \"1s\"", "write 5s or 6s"),
        (
            "key-file = \"mesh.key\"",
            "on = true",
            "a host sends digests of its packets only to hosts with a key",
        ),
        ("key-file = \"mesh.key\"", "key-file = \"mesh.key\"\non = false", "[serve] is off"),
        ("test = [\"office\"", "test = [\"ofice\"", "unknown test 'ofice': did you mean 'office'?"),
    ] {
        let found = faults(from, to);
        assert!(found.contains(message), "{to}: {found}");
    }
    // A file with only a capture is valid.
    let begin = MESH.find("[[test]]").unwrap();
    let end = MESH.find("[serve]").unwrap();
    assert!(read(&format!("{}{}{CAPTURES}", &MESH[..begin], &MESH[end..]), &Simple).is_ok());
}

#[test]
fn a_page_for_other_hosts_says_who_may_read_it() {
    let with = |web: &str| read(&format!("{MESH}[web]\n{web}"), &Simple);
    assert_eq!(model(MESH).web, None);
    assert_eq!(with("on = false").unwrap().web, None);
    let local = with("listen = \"[::1]:80\"\nhosts = [\"rome\"]").unwrap().web.unwrap();
    assert_eq!(local.readers, Readers::Local);
    assert_eq!((local.listen.1, local.is_of(4), local.is_of(0)), (Some(80), true, false));
    let token = with("listen = \"0.0.0.0\"\ntoken-file = \"t\"").unwrap().web.unwrap();
    assert_eq!((token.readers, token.hosts), (Readers::Token("t".to_owned()), None));
    for (web, wrong) in [
        ("listen = \"0.0.0.0\"", "22:10: other hosts can reach this address"),
        ("listen = \"example.org\"", "22:10: 'listen': write an address, a port, or both"),
        (
            "token-file = \"t\"\nbehind-proxy = true",
            "23:16: 'token-file' and 'behind-proxy' cannot be combined",
        ),
        ("hosts = [\"roma\"]", "22:10: unknown host 'roma': did you mean 'rome'?"),
    ] {
        let faults: Vec<String> = with(web).unwrap_err().iter().map(ToString::to_string).collect();
        assert!(faults.len() == 1 && faults[0].starts_with(wrong), "{web}: {faults:?}");
    }
}

#[test]
fn names_and_addresses_that_could_be_mistaken_are_refused_where_they_are() {
    let fault = |text: &str| -> String {
        let faults: Vec<String> = read(text, &Simple).unwrap_err().iter().map(ToString::to_string).collect();
        faults.join("\n")
    };
    for (address, why) in [
        ("192.0.2.1", "192.0.2.1 is also the address of berlin"),
        ("::ffff:192.0.2.1", "192.0.2.1 is also the address of berlin"),
        ("ROME.example.", "ROME.example. is also the address of rome"),
        ("224.0.0.1", "224.0.0.1 is the address of a group of hosts (multicast)"),
        ("ff02::1", "ff02::1 is the address of a group of hosts (multicast)"),
        ("255.255.255.255", "255.255.255.255 is the address of every host of a network (broadcast)"),
        ("0.0.0.0", "0.0.0.0 is the address of no host (unspecified)"),
        ("224.1", "'224.1' is not an address"),
        ("a/b", "'a/b' is a network or a file"),
        ("a\\u001b[2J", "write the name or address of a host"),
    ] {
        let second =
            MESH.replacen("\n]", &format!("\n  {{ name = \"evil\", address = \"{address}\" }},\n]"), 1);
        let found = fault(&second);
        assert!(found.starts_with(&format!("7:30: {why}")), "{address}: {found}");
    }
    for name in ["a/b", "a\\nb", "a\\u001b[2J", "a\\u202eb"] {
        for section in [
            "[[test]]\nname = NAME\nevery = \"1h\"\n",
            "[[ping]]\nname = NAME\ntargets = [\"192.0.2.9\"]\nevery = \"1h\"\n",
            "[[group]]\nname = NAME\nkind = \"mesh\"\n",
            "[[alert]]\nname = NAME\nif = \"loss>1%\"\n",
            "[[notify]]\nname = NAME\nprint = true\n",
            "[[capture]]\nname = NAME\nhost = \"oslo\"\ninterface = \"eth0\"\nevery = \"1h\"\ninstrument = \"tcp\"\n",
        ] {
            let text = format!("{MESH}{}", section.replace("NAME", &format!("\"{name}\"")));
            let found = fault(&text);
            assert!(found.contains("22:8: a name must be one line without '/'"), "{section}: {found}");
        }
    }
    for (target, why) in [("239.1.1.1", "multicast"), ("0", "not an address"), ("a/b", "network or a file")] {
        let found = fault(&format!(
            "{MESH}[[ping]]\nname = \"p\"\ntargets = [\"192.0.2.9\", \"{target}\"]\nevery = \"1h\"\n"
        ));
        assert!(found.starts_with("23:25: ") && found.contains(why), "{target}: {found}");
    }
}

#[test]
fn a_collector_behind_a_proxy_has_an_address_of_its_own() {
    let with = |url: &str, more: &str| {
        let hosts = "host = [{ name = \"a\", address = \"192.0.2.1\", key-file = \"a.key\" }, { name = \"b\", address = \"192.0.2.2\", key-file = \"b.key\" }]\n";
        let test = "[[test]]\nname = \"t\"\nevery = \"1h\"\n[archive]\nfolder = \"x\"\n";
        read(&format!("{hosts}{test}[[collector]]\nhost = \"b\"\nurl = \"{url}\"\n{more}"), &Simple)
    };
    for (url, more, host, port, prefix) in [
        ("https://push.example", "", "push.example", 443, ""),
        ("https://push.example:8443/jitlat/", "", "push.example", 8443, "/jitlat"),
        ("https://[2001:db8::7]/a/b", "", "2001:db8::7", 443, "/a/b"),
        ("http://push.example", "plain = true", "push.example", 80, ""),
    ] {
        let url = with(url, more).unwrap().collectors[0].url.clone().unwrap();
        assert_eq!((url.host.as_str(), url.port, url.prefix.as_str()), (host, port, prefix));
    }
    for url in [
        "push.example",
        "http://push.example",
        "https://",
        "https://a/?b",
        "https://a b",
        "https://224.0.0.1",
        "ftp://a",
        "https://a/\\u001b",
    ] {
        let faults = with(url, "").unwrap_err();
        assert!(
            faults.len() == 1 && faults[0].message.contains("not the address of a proxy"),
            "{url}: {faults:?}"
        );
    }
}

#[test]
fn pairs_are_counted_before_they_take_memory() {
    let many = common::hosts(20_000, "");
    let test = "[[test]]\nname = \"t\"\nevery = \"24h\"\nfor = \"1s\"\n";
    let faults = read(&format!("{many}{test}"), &Simple).unwrap_err();
    assert!(
        faults.iter().any(|f| f.message.contains("199990000 pairs of hosts, more than the limit")),
        "{faults:?}"
    );
    let group = |kind: &str| format!("{many}[[group]]\nname = \"g\"\n{kind}\n{test}");
    let names = |k: std::ops::Range<usize>| k.map(|k| format!("\"h{k}\"")).collect::<Vec<_>>().join(",");
    let lists = format!("kind = \"disjoint\"\nlists = [[{}], [{}]]", names(0..10_000), names(10_000..20_000));
    for kind in ["kind = \"mesh\"", &lists] {
        let faults = read(&group(kind), &Simple).unwrap_err();
        assert!(faults.len() == 1 && faults[0].message.contains("more than the limit"), "{faults:?}");
    }
    let star = model(&group("kind = \"star\"\ncentre = \"h0\""));
    assert_eq!(star.tests[0].pairs.list.len(), 19_999);
}

#[test]
fn sites_labels_maintenance_and_routes_are_read_or_corrected() {
    let hosts = "host = [{ name = \"a\", address = \"192.0.2.1\", site = \"x\", labels = { role = \"edge\" } }, \
                 { name = \"b\", address = \"192.0.2.2\", site = \"x\" }, { name = \"c\", address = \"192.0.2.3\" }]\n\
                 [[test]]\nname = \"t\"\nevery = \"5min\"\n";
    let file = read(
        &format!(
            "{hosts}[[alert]]\nname = \"l\"\nif = [\"verdict>=poor\", \"host>=poor\", \"local-queue-p99>100ms\", \"qoo.voice<80\"]\n\
             site = \"x\"\n[[alert]]\nname = \"r\"\nif = \"route-changed\"\ntest = \"ways\"\nlabel = \"role=edge\"\n\
             [[maintenance]]\nsite = \"x\"\nfrom = 2026-12-24T22:00:00Z\nto = \"2026-12-25T02:00:00+01:00\"\n\
             [[route]]\nname = \"ways\"\nfrom = \"a\"\nto = [\"b\", \"192.0.2.9\"]\nproto = \"tcp\"\nport = 443\nevery = \"1min\"\n"
        ),
        &Simple,
    )
    .unwrap();
    assert_eq!(file.alerts.rules[0].hosts, ["a", "b"]);
    assert_eq!(file.alerts.rules[1].hosts, ["a"]);
    let maintenance = &file.maintenance[0];
    let at = |hour: i64| jitlat_core::WallTime(1_798_149_600_000_000_000 + hour * 3_600_000_000_000);
    assert_eq!((maintenance.from, maintenance.to), (Some(at(0)), Some(at(3))));
    assert!(maintenance.covers("t", ["c", "b"]) && !maintenance.covers("t", ["c", "d"]));
    assert!(!maintenance.is_open(at(-1)) && maintenance.is_open(at(2)) && !maintenance.is_open(at(3)));
    assert_eq!((file.routes[0].to.len(), file.routes[0].port), (2, Some(443)));
    for (more, wrong) in [
        ("[[alert]]\nname = \"l\"\nif = \"worse\"\nsite = \"y\"", "unknown site 'y'"),
        (
            "[[alert]]\nname = \"l\"\nif = \"worse\"\nlabel = \"role\"",
            "a label is written as label = \"role=edge\"",
        ),
        (
            "[[alert]]\nname = \"l\"\nif = \"worse\"\nlabel = \"role=core\"",
            "no host has the label 'role=core'",
        ),
        ("[[maintenance]]\nhost = \"a\"", "[[maintenance]] needs 'from'"),
        ("[[maintenance]]\nfrom = \"tomorrow\"", "'from' must be a time in UTC"),
        ("[[maintenance]]\nfrom = 2026-12-24T22:00:00Z\nto = 2026-12-24T21:00:00Z", "ends before it begins"),
        ("[[route]]\nname = \"t\"\nevery = \"1min\"", "another route has this name"),
        ("[[route]]\nname = \"w\"\nevery = \"1min\"\nproto = \"icmp\"", "'proto' cannot be 'icmp'"),
        (
            "[[host]]\nname = \"d\"\naddress = \"192.0.2.4\"\nlabels = { site = \"x\" }",
            "is the key site of [[host]]",
        ),
    ] {
        let text = if more.starts_with("[[host]]") {
            format!("{more}\n[[test]]\nname = \"t\"\nevery = \"5min\"\n")
        } else {
            format!("{hosts}{more}\n")
        };
        let faults = read(&text, &Simple).unwrap_err();
        assert!(faults.iter().any(|fault| fault.message.contains(wrong)), "{more}: {faults:?}");
    }
}

#[test]
fn the_guide_has_every_key() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/monitoring.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = page.split_once("## Every key").unwrap().1;
    for section in SECTIONS {
        let rows = table.split_once(&format!("| `{}` |", section.title)).unwrap().1;
        let end = SECTIONS.iter().filter_map(|s| rows.find(&format!("| `{}` |", s.title))).min();
        let rows = &rows[..end.unwrap_or(rows.len())];
        for key in section.keys {
            assert!(rows.contains(&format!("`{key}`")), "{} `{key}` has no row", section.title);
        }
    }
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_file_or_has_faults(at in 0usize..400, cut in 0usize..8, put in "[\\PC\n\"=\\[\\]{}]{0,6}") {
        let mut chars: Vec<char> = MESH.chars().collect();
        let at = at.min(chars.len());
        let end = (at + cut).min(chars.len());
        chars.splice(at..end, put.chars());
        let text: String = chars.into_iter().collect();
        if let Ok(model) = read(&text, &Simple) {
            MonitorPlan::new(&model, &Timetable::new(&model));
        }
    }
}

const KEYED: &str = r#"host = [
  { name = "berlin", address = "192.0.2.1", key-file = "berlin.key" },
  { name = "madrid", address = "192.0.2.2", key-file = "madrid.key" },
  { name = "oslo", address = "2001:db8::3", key-file = "oslo.key" },
]
[archive]
folder = "archive"
[[test]]
name = "delay"
every = "5min"
for = "10s"
"#;

#[test]
fn hosts_push_to_collectors() {
    let text = format!(
        "{KEYED}[[collector]]\nhost = \"oslo\"\n[[collector]]\nhost = \"berlin\"\nport = 9000\nfrom = [\"oslo\"]\nspool = \"5G\"\n"
    );
    let model = model(&text);
    let [oslo, berlin] = &model.collectors[..] else { panic!("{:?}", model.collectors) };
    assert_eq!((oslo.host, oslo.port, &oslo.from[..], oslo.spool), (2, 2670, &[0, 1][..], 1_000_000_000));
    assert_eq!((berlin.host, berlin.port, &berlin.from[..], berlin.spool), (0, 9000, &[2][..], 5 << 30));
    assert_eq!(
        (&oslo.trust, &oslo.certificate, oslo.skew),
        (&CollectorTrust::System, &None, Span::seconds(3600))
    );
    let pin = format!("sha256:{}", "0A:".repeat(31) + "ff");
    let keys = format!(
        "host = \"oslo\"\npin = \"{pin}\"\nskew = \"0\"\ntests-per-second = 5\nbytes-per-day = \"1G\"\nbytes = \"2G\"\n"
    );
    let more = common::model(&format!("{KEYED}[[collector]]\n{keys}")).collectors.remove(0);
    assert_eq!((more.trust, more.skew), (CollectorTrust::Pin(pin), Span::ZERO));
    let quota =
        CollectorQuota { tests_per_second: Some(5), bytes_per_day: Some(1 << 30), bytes: Some(2 << 30) };
    assert_eq!(more.quota, quota);
    let with = MonitorPlan::new(&model, &Timetable::new(&model));
    let alone = common::model(KEYED);
    let without = MonitorPlan::new(&alone, &Timetable::new(&alone));
    let started: f64 = without.hosts[..2].iter().map(|h| h.started_a_day).sum();
    assert_eq!((with.hosts[2].collected_a_day, with.hosts[1].collected_a_day), (started, 0.0));
    let grows = |plan: &MonitorPlan, k: usize| plan.hosts[k].archive_bytes_a_day;
    let all: f64 = (0..3).map(|k| grows(&without, k)).sum();
    assert_eq!(grows(&with, 2), all);
    assert_eq!(grows(&with, 1), grows(&without, 1));
    // Two directions of 500 packets in each test.
    let each = 1_500.0 + 20.0 * 1000.0;
    assert_eq!(with.hosts[1].pushed_bytes_a_day, without.hosts[1].started_a_day * each);
    assert_eq!(with.hosts[2].pushed_bytes_a_day, without.hosts[2].started_a_day * each);
    assert_eq!(without.hosts[2].pushed_bytes_a_day, 0.0);
}

#[test]
fn what_is_wrong_with_collectors_is_named_with_its_place() {
    let printed_faults = |text: &str| -> Vec<String> {
        read(text, &Simple).unwrap_err().iter().map(ToString::to_string).collect()
    };
    let with = |rest: &str| printed_faults(&format!("{KEYED}[[collector]]\n{rest}"));
    let cases = [
        ("", vec!["12:1: [[collector]] needs 'host': write host = \"berlin\""]),
        (
            "host = \"osol\"",
            vec!["13:8: unknown host 'osol': did you mean 'oslo'? (choose berlin, madrid, oslo)"],
        ),
        ("host = \"oslo\"\nport = 70000", vec!["14:8: port 70000 does not exist: write 1 to 65535"]),
        (
            "host = \"oslo\"\nfrom = [\"berlin\", \"rome\", \"oslo\"]",
            vec![
                "14:8: oslo is the collector itself: leave it out",
                "14:19: unknown host 'rome': choose berlin, madrid, oslo",
            ],
        ),
        ("host = \"oslo\"\n[[collector]]\nhost = \"oslo\"", vec!["15:8: oslo is already a collector"]),
        (
            "host = \"oslo\"\npin = \"12:34\"",
            vec![
                "14:7: write the fingerprint that the collector prints at its start: sha256: and 64 hexadecimal digits",
            ],
        ),
        (
            "host = \"oslo\"\nca-file = \"a.pem\"\nplain = true",
            vec!["14:11: 'pin', 'ca-file' and 'plain' cannot be combined: choose one"],
        ),
        (
            "host = \"oslo\"\nspol = \"1G\"",
            vec![
                "14:1: [[collector]] has no key 'spol': did you mean 'spool'? (choose host, port, url, from, spool, pin, ca-file, plain, certificate, host-ca-file, behind-proxy, skew, tests-per-second, bytes-per-day, bytes)",
            ],
        ),
    ];
    for (rest, expected) in cases {
        assert_eq!(with(rest), expected, "{rest}");
    }
    let collector = "[[collector]]\nhost = \"oslo\"\n";
    let no_folder =
        printed_faults(&format!("{}{collector}", KEYED.replace("[archive]\nfolder = \"archive\"\n", "")));
    assert_eq!(no_folder, ["10:1: pushing and collecting need an archive: write [archive] with a folder"]);
    let keyless =
        KEYED.replace(", key-file = \"madrid.key\"", "") + "[serve]\nkey-file = \"all.key\"\n" + collector;
    assert_eq!(
        printed_faults(&keyless),
        [
            "14:1: a collector identifies hosts by their keys: give madrid its own key (key-file = \"NAME.key\" in [[host]])"
        ]
    );
    let same = KEYED.replace("madrid.key", "berlin.key") + collector;
    assert_eq!(
        printed_faults(&same),
        [
            "12:1: berlin and madrid have the same key, so each could push as the other: give each host its own key"
        ]
    );
}

#[test]
fn hosts_push_with_certificates() {
    let pin = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let with = |madrid: &str, collector: &str| {
        let hosts =
            KEYED.replace("key-file = \"madrid.key\"", &format!("key-file = \"madrid.key\", {madrid}"));
        read(&format!("{hosts}[[collector]]\nhost = \"oslo\"\n{collector}"), &Simple)
    };
    let own = "certificate = \"own.pem\"";
    let both = format!("{own}, pin = [\"{}\", \"{}\"]", pin("a"), pin("B"));
    let model = with(&both, "behind-proxy = [\"127.0.0.1\", \"2001:db8::/64\"]").unwrap();
    let certificate = model.hosts[1].certificate.as_ref().unwrap();
    assert_eq!((certificate.file.as_str(), &certificate.pins[..]), ("own.pem", &[pin("a"), pin("B")][..]));
    let collector = &model.collectors[0];
    assert_eq!(
        (collector.proxies.len(), &collector.host_ca_file, &collector.from[..]),
        (2, &None, &[0, 1][..])
    );
    let model = with(own, "host-ca-file = \"hosts.pem\"").unwrap();
    assert_eq!(model.collectors[0].host_ca_file.as_deref(), Some("hosts.pem"));
    for (madrid, collector, wrong) in [
        (own.to_owned(), "", "the collector cannot recognise the certificate of madrid"),
        (both.clone(), "plain = true", "without TLS the certificate of madrid cannot be checked"),
        (format!("pin = \"{}\"", pin("a")), "", "name its file, too"),
        (format!("{own}, pin = \"12:34\""), "", "write the fingerprint that the host prints"),
        (both.clone(), "behind-proxy = true", "name the addresses of the proxy"),
        (both.clone(), "behind-proxy = [\"proxy.example\"]", "'behind-proxy': "),
        (both.clone(), "behind-proxy = []", "'behind-proxy': name an address or a network"),
        (both.clone(), "behind-proxy = [\"0.0.0.0/0\"]", "'0.0.0.0/0' contains every address"),
    ] {
        let faults: Vec<String> =
            with(&madrid, collector).unwrap_err().iter().map(ToString::to_string).collect();
        assert!(faults.iter().any(|fault| fault.contains(wrong)), "{madrid}, {collector}: {faults:?}");
    }
    // A certificate belongs to one host only, however its fingerprint is written.
    let colons = format!("sha256:{}AA", "AA:".repeat(31));
    let same =
        KEYED.replace("key-file = \"madrid.key\"", &format!("key-file = \"madrid.key\", {both}")).replace(
            "key-file = \"berlin.key\"",
            &format!("key-file = \"berlin.key\", {own}, pin = \"{colons}\""),
        );
    let faults = read(&same, &Simple).unwrap_err();
    assert!(faults[0].to_string().contains("another host has this pin"), "{faults:?}");
}

#[test]
fn addresses_are_written_as_hosts_without_ports() {
    let printed_faults = |text: &str| match read(text, &Simple) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
    };
    for (address, wrong) in [
        ("http://192.0.2.9/", "write the host alone, 192.0.2.9"),
        ("192.0.2.9:2666", "write 192.0.2.9 without :2666"),
        ("fe80::9%", "is not an address"),
    ] {
        let faults = printed_faults(&MESH.replace("2001:db8::3", address));
        assert!(faults.iter().any(|fault| fault.contains(wrong)), "{address}: {faults:?}");
    }
    for address in ["fe80::9%eth0", "oslo.example.org", "::ffff:192.0.2.9"] {
        assert_eq!(printed_faults(&MESH.replace("2001:db8::3", address)), Vec::<String>::new(), "{address}");
    }
}
