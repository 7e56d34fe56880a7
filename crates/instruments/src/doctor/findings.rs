//! [`judge`]: derives findings from a [`Checkup`], worst first, each with a recommended change. Does no I/O,
//! so that tests can judge simulated hosts.

use super::checkup::Checkup;
use jitlat_core::Span;
use jitlat_core::clock::AdapterClock;
use jitlat_core::summary::Level;
use jitlat_core::units::{bit_rate3, eng4};
use jitlat_net::doctor::clock::MIN_STALL;
use jitlat_net::doctor::interfaces::LaunchTimes;
use jitlat_net::doctor::never_run;
use jitlat_net::pace::PaceMode;
use jitlat_net::privilege::Capability;
use serde::Serialize;
use std::net::IpAddr;

/// A finding and its remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Stable identifier.
    pub code: &'static str,
    /// Severity of the effect on measurements.
    pub level: Level,
    /// Description of the finding, with its evidence.
    pub text: String,
    /// Recommended change; `None` if nothing needs to change.
    pub change: Option<String>,
}

/// Returns all findings, worst first.
pub fn judge(c: &Checkup) -> Vec<Finding> {
    let mut found = FindingList(Vec::new());
    found.system();
    found.clock(c);
    found.synchronisation(c);
    found.waking(c);
    found.loopback(c);
    found.processors(c);
    found.sockets(c);
    found.interfaces(c);
    found.privileges(c);
    let mut all = found.0;
    all.sort_by_key(|f| std::cmp::Reverse(f.level));
    all
}

struct FindingList(Vec<Finding>);

fn times(n: u64) -> String {
    if n == 1 { "once".to_owned() } else { format!("{n} times") }
}

fn processors(n: usize) -> String {
    if n == 1 { "1 processor".to_owned() } else { format!("{n} processors") }
}

/// Largest error of hardware stamps that needs no change.
const MAX_STAMP_ERROR: Span = Span::micros(100);
/// Clock reading time, in ns, above which the clock is assumed to be read by a system call: reading it through the
/// vDSO takes tens of nanoseconds.
const SLOW_CLOCK: Span = Span(200);
/// Minimum length of a stall whose finding is graded poor, because the stall is visible in jitter figures.
const LONG_STALL: Span = Span::millis(1);
/// Wake-up latency of an idle state, in µs, above which the state is visible in one-way jitter.
const DEEP_SLEEP: u64 = 50;
/// Smallest sufficient socket buffer: it holds a tenth of a second of small packets at 10 000 per second.
const MIN_BUFFER_BYTES: u64 = 1 << 20;

impl FindingList {
    fn add(&mut self, code: &'static str, level: Level, text: String, change: Option<String>) {
        self.0.push(Finding { code, level, text, change });
    }

    /// Adds the note that measurements on this system are not verified.
    fn system(&mut self) {
        if let Some(what) = never_run() {
            let text = format!("Measurements on this system are not verified: {what}.");
            let change = "compare with a test from a Linux host on the same path, and report what differs";
            self.add("never_run", Level::Note, text, Some(change.to_owned()));
        }
    }

    fn clock(&mut self, c: &Checkup) {
        let (wall, steady) = (&c.wall_clock, &c.steady_clock);
        if wall.backwards + steady.backwards > 0 {
            let n = wall.backwards + steady.backwards;
            let text = format!(
                "The clock went back {} while it was being read: all timestamps are unreliable.",
                times(n)
            );
            self.add("clock_backwards", Level::Bad, text, Some("use another clock source".into()));
        }
        if wall.p50 > SLOW_CLOCK {
            let source = c.machine.clock_source.as_deref().unwrap_or("unknown");
            let better =
                c.machine.clock_sources.iter().find(|s| ["tsc", "arch_sys_counter"].contains(&s.as_str()));
            let text = format!(
                "Reading the clock takes {}: the clock source {source} is read through the kernel.",
                eng4(wall.p50.0)
            );
            let change = better.map(|b| {
                format!(
                    "echo {b} | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
                )
            });
            self.add("clock_slow", Level::Poor, text, change);
        }
        let stalls = wall.stalls + steady.stalls;
        let max = wall.max.max(steady.max);
        if stalls > 0 {
            let level = if max >= LONG_STALL { Level::Poor } else { Level::Note };
            let text = format!(
                "A program that only reads the clock stalled {} for more than {} in {}, at \
                 most {}: the processor was used by other programs, interrupts or the hypervisor.",
                times(stalls),
                eng4(MIN_STALL.0),
                eng4((wall.watched + steady.watched).0),
                eng4(max.0)
            );
            let change = "stop other programs on this host, or test with --realtime and --cpu N on a \
                          reserved processor (isolcpus=N)";
            self.add("clock_stalls", level, text, Some(change.into()));
        }
        if self.0.is_empty() {
            let text = format!(
                "The clock is read in {} ({}), never slower than {}.",
                eng4(wall.p50.0),
                c.machine.clock_source.as_deref().unwrap_or("source unknown"),
                eng4(max.0)
            );
            self.add("clock", Level::Good, text, None);
        }
    }

    fn synchronisation(&mut self, c: &Checkup) {
        let change = "run chrony or ntpd (milliseconds), or ptp4l and phc2sys (microseconds), on both hosts";
        match c.host.sync_before {
            None => {
                let text = "The kernel does not report the state of its clock.".to_owned();
                self.add("sync_unknown", Level::Note, text, Some(change.into()));
            }
            Some(s) if !s.synchronised => {
                let text =
                    "The kernel reports its clock as not synchronised: one-way latency is only as good as \
                            the estimate of each test (-C). Jitter, loss and round trips do not depend on \
                            it."
                    .to_owned();
                self.add("unsynchronised", Level::Note, text, Some(change.into()));
            }
            Some(s) => {
                let text = format!(
                    "The clock is synchronised; the kernel estimates its error as {}, at most {}.",
                    eng4(s.estimated_error.0),
                    eng4(s.maximum_error.0)
                );
                self.add("synchronised", Level::Good, text, None);
            }
        }
    }

    fn waking(&mut self, c: &Checkup) {
        let Some(sleep) = c.woken(PaceMode::Sleep) else { return };
        let best = c.wake.iter().min_by_key(|w| w.p99);
        let change = best.filter(|b| b.p99.0 * 2 < sleep.p99.0).map(|b| {
            let fifo = if b.realtime { " --realtime" } else { "" };
            format!("--pace {}{fifo} wakes up within {} here", b.mode, eng4(b.p99.0))
        });
        let level = match sleep.p99 {
            late if late.0 * 2 > sleep.period.0 => Level::Bad,
            late if late >= Span::millis(1) => Level::Poor,
            late if late >= Span::micros(200) => Level::Note,
            _ => Level::Good,
        };
        let text = format!(
            "At one packet every {}, {} of {} deadlines are met within {}, all within {} (sleeping).",
            eng4(sleep.period.0),
            if sleep.deadlines < 100 { "most" } else { "99 %" },
            sleep.deadlines,
            eng4(sleep.p99.0),
            eng4(sleep.max.0)
        );
        self.add("waking", level, text, change.filter(|_| level > Level::Good));
    }

    fn loopback(&mut self, c: &Checkup) {
        let b = match (&c.one_way, &c.two_way) {
            (Err(e), _) | (_, Err(e)) => {
                let text = format!("A test over this host's own loopback failed: {e}.");
                return self.add("loopback_failed", Level::Bad, text, Some("sudo ip link set lo up".into()));
            }
            (Ok(b), _) => b,
        };
        if b.received < b.sent {
            let text = format!(
                "{} of {} packets were lost over this host's own loopback.",
                b.sent - b.received,
                b.sent
            );
            self.add("loopback_loss", Level::Bad, text, Some("check the socket buffers and the load".into()));
        }
        let Some(p99) = b.pdv_p99 else { return };
        let level = match p99 {
            0..100_000 => Level::Good,
            100_000..1_000_000 => Level::Note,
            _ => Level::Poor,
        };
        let text = format!(
            "Noise floor: over the loopback, 99 % of packets arrive within {} of the fastest. Jitter below \
             {} comes from this host.",
            eng4(p99),
            eng4(p99.saturating_mul(2))
        );
        self.add("noise_floor", level, text, None);
        if !b.kernel_stamps {
            let text =
                "The kernel does not stamp packets on the loopback: timestamps are taken by this program."
                    .to_owned();
            self.add("no_kernel_stamps", Level::Note, text, None);
        }
    }

    fn processors(&mut self, c: &Checkup) {
        let m = &c.machine;
        if let Some(load) = m.load.filter(|l| *l > m.cpus as f64 * 0.7) {
            let level = if load > m.cpus as f64 { Level::Poor } else { Level::Note };
            let text =
                format!("{load:.2} programs are ready to run on {}: packets will wait.", processors(m.cpus));
            self.add("load", level, text, Some("stop other programs on this host".into()));
        } else if let Some(p) = m.cpu_pressure.filter(|p| *p > 10.0) {
            let text = format!("During {p:.0} % of the last ten seconds, a program waited for a processor.");
            self.add("load", Level::Note, text, Some("stop other programs on this host".into()));
        }
        if let Some(quota) = m.quota.filter(|q| *q < m.cpus as f64) {
            let text = format!(
                "A control group allows {quota:.2} of {} processors: beyond that, all its programs stall \
                 until the next tenth of a second.",
                m.cpus
            );
            self.add("quota", Level::Poor, text, Some("raise cpu.max (docker run --cpus)".into()));
        }
        let saving: Vec<&String> = m.governors.keys().filter(|g| *g != "performance").collect();
        if !saving.is_empty() {
            let names: Vec<&str> = saving.iter().map(|g| g.as_str()).collect();
            let text = format!("The processors change their speed ({}).", names.join(", "));
            self.add(
                "governor",
                Level::Note,
                text,
                Some("sudo cpupower frequency-set -g performance".into()),
            );
        }
        if let Some(deep) = m.idle_states.iter().rev().find(|s| s.exit_us > DEEP_SLEEP) {
            let text = format!(
                "Idle processors enter {}, which takes {} us to wake up from.",
                deep.name, deep.exit_us
            );
            let change = format!("sudo cpupower idle-set -D {DEEP_SLEEP}");
            self.add("idle_states", Level::Note, text, Some(change));
        }
        if let Some(stolen) = m.stolen.filter(|s| *s > 1.0) {
            let text = format!("The hypervisor gave {stolen:.1} % of the processor time to other machines.");
            self.add("stolen", Level::Poor, text, Some("use a machine with dedicated processors".into()));
        } else if let Some(kind) = &m.virtual_machine {
            let text =
                format!("This is a virtual machine ({kind}): its clock and its processors are shared.");
            self.add("virtual", Level::Note, text, None);
        }
        if m.cpus == 1 {
            let text = "This host has only one processor, shared by receiver, sender and kernel.".to_owned();
            self.add("one_processor", Level::Note, text, Some("do not use --pace spin".into()));
        }
    }

    fn sockets(&mut self, c: &Checkup) {
        let s = &c.sockets;
        if let Some(room) = s.receive.filter(|r| *r < MIN_BUFFER_BYTES) {
            let text = format!(
                "The receive buffer of a socket holds only {} KiB: at high rates, packets are lost during a stall.",
                room / 1024
            );
            let change = "sudo sysctl -w net.core.rmem_max=8388608 net.core.wmem_max=8388608";
            self.add("buffers", Level::Note, text, Some(change.into()));
        }
    }

    fn adapter_clock(&mut self, interface: &str, clock: &AdapterClock) {
        let device = format!("{interface}: the adapter's clock (ptp{})", clock.device);
        if clock.is_usable() && clock.stamp_error() <= MAX_STAMP_ERROR {
            let text = format!(
                "{device} is {} from the system clock, +/- {}: hardware stamps are wrong by no more than that.",
                eng4(clock.offset.0),
                eng4(clock.bound.0)
            );
            return self.add("adapter_clock", Level::Good, text, None);
        }
        let text = match clock.is_usable() {
            true => format!(
                "{device} is {} from the system clock: every hardware stamp has this error.",
                eng4(clock.offset.0)
            ),
            false => format!("{device} is not set: hardware stamps cannot be compared with other times."),
        };
        let change = format!("phc2sys -s CLOCK_REALTIME -c {interface} -O 0, or ptp4l and phc2sys");
        self.add("adapter_clock_off", Level::Note, text, Some(change));
    }

    fn interfaces(&mut self, c: &Checkup) {
        for i in c.interfaces.iter().filter(|i| !i.addresses.iter().all(IpAddr::is_loopback)) {
            let speed = i.speed.map(|s| format!(", {}", bit_rate3(s as f64 * 1e6))).unwrap_or_default();
            match i.stamps {
                Some(s) if s.hardware_send && s.hardware_receive => {
                    let text = format!("{}{speed}: the adapter stamps every packet.", i.name);
                    let change =
                        "--stamps hardware, with phc2sys synchronising the adapter's clock".to_owned();
                    self.add("hardware_stamps", Level::Good, text, Some(change));
                }
                Some(s) if s.software_send && s.software_receive => {
                    let text = format!("{}{speed}: the kernel stamps sent and received packets.", i.name);
                    self.add("kernel_stamps", Level::Good, text, None);
                }
                Some(_) => {
                    let text = format!(
                        "{}{speed}: the driver does not stamp sent packets; send times are taken by this program.",
                        i.name
                    );
                    self.add("no_send_stamps", Level::Note, text, None);
                }
                None => {}
            }
            if let Some(clock) = i.clock {
                self.adapter_clock(&i.name, &clock);
            }
            if let Some(who) = i.launch_times {
                let who = match who {
                    LaunchTimes::Kernel => "the kernel's timers",
                    LaunchTimes::Adapter => "the adapter",
                };
                let text = format!("{}: {who} can send packets at their launch times.", i.name);
                self.add("launch_times", Level::Good, text, Some("--pace etf".to_owned()));
            }
            if let Some(us) = i.coalesce_us.filter(|us| *us > 20) {
                let text =
                    format!("{} delays received packets by up to {us} us (interrupt coalescing).", i.name);
                let change = format!("sudo ethtool -C {} rx-usecs 0", i.name);
                self.add("coalescing", Level::Note, text, Some(change));
            }
        }
    }

    fn privileges(&mut self, c: &Checkup) {
        if !c.machine.unreadable.is_empty() {
            let files = c.machine.unreadable.join(", ");
            let text =
                format!("This user may not read {files}: load, power saving and adapters may be unknown.");
            self.add("unreadable", Level::Note, text, None);
        }
        // Only Linux has capabilities, and these remedies.
        if c.capabilities.is_empty() {
            return;
        }
        let lacks = |cap: Capability| c.capabilities.iter().any(|g| g.name == cap.name() && !g.held);
        if !c.machine.realtime_permitted {
            let text = "Real-time scheduling is not permitted: --realtime will have no effect.".to_owned();
            let change = match c.grant.clone().filter(|_| lacks(Capability::SysNice)) {
                Some(grant) => grant,
                None => "the program has CAP_SYS_NICE: allow real-time scheduling in its container or \
                         control group (cpu.rt_runtime_us, docker run --ulimit rtprio=99)"
                    .to_owned(),
            };
            self.add("no_realtime", Level::Note, text, Some(change));
        }
        if lacks(Capability::NetRaw) && !c.sockets.ping {
            let text = "Neither ping sockets nor raw sockets are permitted: `jitlat ping` cannot use ICMP."
                .to_owned();
            let change = "sudo sysctl -w net.ipv4.ping_group_range=\"0 2147483647\", or grant CAP_NET_RAW";
            self.add("no_icmp", Level::Note, text, Some(change.into()));
        }
        if lacks(Capability::NetRaw) {
            let text = "Packets cannot be captured on an interface (CAP_NET_RAW is missing); capture files can be read.";
            self.add("no_capture", Level::Note, text.to_owned(), c.grant.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::checkup::{Baseline, CheckupTraffic, HeldCapability};
    use super::*;
    use jitlat_core::WallTime;
    use jitlat_core::clock::{AdapterTimescale, SyncState};
    use jitlat_core::session::HostFacts;
    use jitlat_net::doctor::clock::ClockReading;
    use jitlat_net::doctor::interfaces::{Abilities, InterfaceReport};
    use jitlat_net::doctor::machine::{IdleState, MachineReport};
    use jitlat_net::doctor::sockets::SocketReport;
    use jitlat_net::doctor::wake::WakeLateness;

    fn reading() -> ClockReading {
        ClockReading {
            reads: 10_000_000,
            resolution: Some(Span(10)),
            p50: Span(22),
            p999: Span(40),
            max: Span::micros(30),
            stalls: 0,
            stalled: Span::ZERO,
            backwards: 0,
            watched: Span::millis(300),
        }
    }

    fn woken(mode: &str, realtime: bool, p99: Span) -> WakeLateness {
        WakeLateness {
            mode: mode.to_owned(),
            realtime,
            period: Span::millis(20),
            deadlines: 200,
            p50: Span::micros(5),
            p99,
            max: p99,
            notes: Vec::new(),
        }
    }

    /// Returns a host with nothing to change.
    fn good() -> Checkup {
        let sync = SyncState {
            synchronised: true,
            offset: Span::ZERO,
            estimated_error: Span::micros(10),
            maximum_error: Span::millis(1),
            frequency_ppb: 0,
        };
        let baseline = Baseline {
            sent: 50,
            received: 50,
            pdv_p99: Some(9_000),
            kernel_stamps: true,
            ..Baseline::default()
        };
        let software = Abilities { software_send: true, software_receive: true, ..Abilities::default() };
        let eth = InterfaceReport {
            name: "eth0".into(),
            addresses: vec!["192.0.2.1".parse().unwrap()],
            stamps: Some(software),
            ..InterfaceReport::default()
        };
        let held = |c: Capability| HeldCapability { name: c.name(), purpose: c.purpose(), held: true };
        Checkup {
            at: WallTime(0),
            question: CheckupTraffic { period: Span::millis(20), payload: 80, duration: Span::seconds(6) },
            host: HostFacts { sync_before: Some(sync), ..HostFacts::default() },
            wall_clock: reading(),
            steady_clock: reading(),
            wake: vec![woken("sleep", false, Span::micros(60)), woken("hybrid", true, Span::micros(3))],
            one_way: Ok(baseline.clone()),
            two_way: Ok(baseline),
            machine: MachineReport {
                cpus: 4,
                load: Some(0.1),
                realtime_permitted: true,
                ..MachineReport::default()
            },
            sockets: SocketReport { receive: Some(16 << 20), ping: true, ..SocketReport::default() },
            interfaces: vec![eth],
            capabilities: Capability::ALL.map(held).into(),
            grant: None,
        }
    }

    fn worst(c: &Checkup) -> Finding {
        judge(c).remove(0)
    }

    #[test]
    fn a_good_host_is_called_one() {
        let findings = judge(&good());
        assert!(findings.iter().all(|f| f.level == Level::Good), "{findings:#?}");
        assert!(findings.iter().any(|f| f.text.contains("Jitter below 18.00 us comes from this host")));
    }

    #[test]
    fn the_paper_of_1997_would_have_been_warned() {
        // The paper on the ATM loopback reports: "sometimes a simple timestamp would take up to 20 ms".
        let mut c = good();
        c.wall_clock =
            ClockReading { max: Span::millis(20), stalls: 1, stalled: Span::millis(20), ..reading() };
        let f = worst(&c);
        assert_eq!((f.code, f.level), ("clock_stalls", Level::Poor));
        assert!(f.text.contains("at most 20.00 ms"), "{}", f.text);
    }

    #[test]
    fn every_trouble_has_a_finding_and_most_a_remedy() {
        type Trouble = (&'static str, Level, bool, fn(&mut Checkup));
        let troubles: [Trouble; 14] = [
            ("clock_backwards", Level::Bad, true, |c| c.wall_clock.backwards = 2),
            ("clock_slow", Level::Poor, true, |c| {
                c.wall_clock.p50 = Span(900);
                c.machine.clock_sources = vec!["hpet".into(), "tsc".into()];
            }),
            ("unsynchronised", Level::Note, true, |c| {
                if let Some(s) = &mut c.host.sync_before {
                    s.synchronised = false;
                }
            }),
            ("waking", Level::Bad, true, |c| c.wake[0].p99 = Span::millis(11)),
            ("loopback_failed", Level::Bad, true, |c| c.two_way = Err("no way".into())),
            ("loopback_loss", Level::Bad, true, |c| {
                c.one_way = Ok(Baseline { sent: 50, received: 49, ..Baseline::default() });
            }),
            ("load", Level::Poor, true, |c| c.machine.load = Some(4.2)),
            ("quota", Level::Poor, true, |c| c.machine.quota = Some(0.5)),
            ("governor", Level::Note, true, |c| c.machine.governors.extend([("powersave".into(), 4)])),
            ("idle_states", Level::Note, true, |c| {
                c.machine.idle_states = vec![IdleState { name: "C6".into(), exit_us: 133 }];
            }),
            ("stolen", Level::Poor, true, |c| c.machine.stolen = Some(3.0)),
            ("buffers", Level::Note, true, |c| c.sockets.receive = Some(212_992)),
            ("coalescing", Level::Note, true, |c| c.interfaces[0].coalesce_us = Some(64)),
            ("no_send_stamps", Level::Note, false, |c| c.interfaces[0].stamps = Some(Abilities::default())),
        ];
        for (code, level, remedy, trouble) in troubles {
            let mut c = good();
            trouble(&mut c);
            let found = judge(&c);
            let f =
                found.iter().find(|f| f.code == code).unwrap_or_else(|| panic!("no {code} in {found:#?}"));
            assert_eq!((f.level, f.change.is_some()), (level, remedy), "{f:#?}");
        }
    }

    #[test]
    fn what_an_adapter_can_is_said_with_the_option_that_uses_it() {
        let mut c = good();
        let all = Abilities { hardware_send: true, hardware_receive: true, ..Abilities::default() };
        (c.interfaces[0].stamps, c.interfaces[0].launch_times) = (Some(all), Some(LaunchTimes::Adapter));
        let clock =
            |timescale, offset| Some(AdapterClock { device: 3, timescale, offset, bound: Span::micros(1) });
        for (clock, code, words) in [
            (clock(AdapterTimescale::Tai, Span(-800)), "adapter_clock", "ptp3) is -800.0 ns from"),
            (clock(AdapterTimescale::Utc, Span::millis(4)), "adapter_clock_off", "is 4.000 ms from"),
            (clock(AdapterTimescale::Other, Span::seconds(-9)), "adapter_clock_off", "is not set"),
        ] {
            c.interfaces[0].clock = clock;
            let found = judge(&c);
            let f = found.iter().find(|f| f.code == code).unwrap();
            assert!(f.text.contains(words) && f.change.is_some() == (code != "adapter_clock"), "{f:#?}");
        }
        let found = judge(&c);
        for (code, option) in [("hardware_stamps", "--stamps hardware"), ("launch_times", "--pace etf")] {
            let f = found.iter().find(|f| f.code == code).unwrap();
            assert_eq!(f.level, Level::Good);
            assert!(f.text.starts_with("eth0") && f.change.as_ref().unwrap().contains(option), "{f:#?}");
        }
    }

    #[test]
    fn missing_privileges_come_with_the_command_that_grants_them() {
        let mut c = good();
        c.capabilities.iter_mut().for_each(|g| g.held = false);
        c.machine.realtime_permitted = false;
        c.sockets.ping = false;
        c.grant = Some("sudo setcap cap_net_raw,cap_sys_nice=ep /usr/bin/jitlat".into());
        let found = judge(&c);
        let change = |code| found.iter().find(|f| f.code == code).and_then(|f| f.change.clone()).unwrap();
        assert!(
            change("no_realtime").contains("cap_sys_nice") && change("no_capture").contains("cap_net_raw")
        );
        assert!(change("no_icmp").contains("ping_group_range"));
    }
}
