//! Refuses options that the chosen mode of a command would ignore.

use crate::options::check::CheckArgs;
use crate::options::late::LateArgs;
use crate::options::live::LiveArgs;
use crate::options::load::LoadArgs;
use crate::options::one_way::StreamArgs;
use crate::options::one_way_protocol::OneWayProtocolArgs;
use crate::options::outputs::FORMAT;
use crate::options::report::{LengthArgs, QuietArgs, ReportArgs};
use crate::options::unread::{ids, is_given, read_only, refuse_all};
use crate::spp;
use crate::sweep::SweepArgs;
use anyhow::Result;
use clap::{ArgMatches, Command};
use jitlat_output::{OUTPUTS, OwnOption};

/// Refuses options that the mode chosen by `given` does not read. `command` is the definition of the command `name`.
pub fn check(name: &str, command: &Command, given: &ArgMatches) -> Result<()> {
    let with = |id: &str| is_given(given, id);
    let only = |read: Vec<String>, why: &str| read_only(command, given, &read, why);
    let none = |unread: Vec<String>, why: &str| refuse_all(command, given, &unread, why);
    if with("check") {
        let unread = [ids::<LoadArgs>(), named(&["collect", "dataset", "attenuation"])].concat();
        none(unread, "--check prints one line on figures of the test")?;
    }
    match name {
        "jitlat" | "test" => {
            if with("file") {
                return only(saved(), "-f analyses a saved log");
            }
            if with("collect") {
                let unread =
                    [ids::<StreamArgs>(), ids::<LoadArgs>(), ids::<LiveArgs>(), named(NOT_COLLECTED)];
                return none(unread.concat(), "--collect fetches the results of an earlier test");
            }
            if with("load") {
                let unread = named(&["doctor", "path", "capture", "live", "collect"]);
                return none(unread, "--load measures twice, idle and under load");
            }
            Ok(())
        }
        "demo" => {
            let own = named(&["control_port", "bind", "key_file", "src_port", "dst_port", "ipv6"]);
            let unread = [own, ids::<LoadArgs>(), ids::<OneWayProtocolArgs>()].concat();
            none(unread, "the demonstration has a server and a path of its own")
        }
        "ping" if with("others") => {
            let own = named(&["output", "doctor", "path", "corrected", "plot_corrected", "text_plots"]);
            let unread = [ids::<LoadArgs>(), ids::<LateArgs>(), own].concat();
            none(unread, "several hosts are tested at once")
        }
        "ping" if with("load") => {
            let unread = [ids::<LateArgs>(), ids::<LiveArgs>(), named(&["doctor", "path"])].concat();
            none(unread, "--load measures twice, idle and under load")
        }
        "sweep" if with("resume") => {
            let length = ids::<LengthArgs>();
            let read: Vec<String> =
                [outputs(), length, named(&["resume", "log_level", "log_format"])].concat();
            let of_plan = ids::<SweepArgs>().into_iter().filter(|id| !read.contains(id));
            none(of_plan.collect(), "--resume takes this option from the file")
        }
        "compare" if with("attenuation") => none(ids::<LengthArgs>(), "--attenuation has one short table"),
        "spp" if !spp::POINTS.iter().any(|id| with(id)) => {
            let unread =
                ids::<spp::LivePointArgs>().into_iter().filter(|id| !spp::POINTS.contains(&id.as_str()));
            none(unread.collect(), "this option applies only to live points (-i, -I, -r, -R, --follow)")
        }
        _ => Ok(()),
    }
}

/// Options of a test, other than those of its stream, that have no meaning when the results of an earlier test
/// are fetched.
const NOT_COLLECTED: &[&str] =
    &["doctor", "path", "pace", "realtime", "cpu", "priority", "ac", "stamps", "capture"];

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Options that the analysis of a saved log reads.
fn saved() -> Vec<String> {
    let of_report = [ids::<ReportArgs>(), ids::<CheckArgs>(), ids::<QuietArgs>(), ids::<LiveArgs>()].concat();
    [of_report, named(&["file", "log_level", "log_format"])].concat()
}

/// Options of the output formats.
fn outputs() -> Vec<String> {
    let own = OUTPUTS.iter().filter_map(|output| match output.option {
        OwnOption::Shown => Some(output.name.to_owned()),
        OwnOption::Former(name) => Some(name.to_owned()),
        OwnOption::None => None,
    });
    own.chain(["as".to_owned(), FORMAT.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use crate::root;

    fn refusal(line: &str) -> Option<String> {
        let root = root::command();
        let given = root.clone().try_get_matches_from(line.split(' ')).unwrap();
        root::check_modes(&root, &given).err().map(|e| e.to_string())
    }

    #[test]
    fn an_option_that_a_mode_does_not_read_is_refused() {
        for (line, option) in [
            ("jitlat -f log -n 5", "--packets"),
            ("jitlat test -f log --no-log", "--no-log"),
            ("jitlat h --collect log -R", "--reverse"),
            ("jitlat h --load tcp --doctor", "--doctor"),
            ("jitlat demo --control-port 5", "--control-port"),
            ("jitlat demo --load tcp", "--load"),
            ("jitlat ping a b --doctor", "--doctor"),
            ("jitlat ping a b -o log", "-o"),
            ("jitlat ping a --load tcp --graphite g", "--graphite"),
            ("jitlat sweep --resume file -n 5", "--packets"),
            ("jitlat spp -f a -F b --pairs 5", "--pairs"),
            ("jitlat ping a --check --load tcp", "--load"),
            ("jitlat analyze a --check --attenuation", "--attenuation"),
        ] {
            let said = refusal(line).unwrap_or_else(|| panic!("{line} is accepted"));
            assert!(said.starts_with(option) && said.ends_with("leave it out"), "{line}: {said}");
        }
        for line in [
            "jitlat -f log --json x -C --log-level debug",
            "jitlat h -n 5 -R",
            "jitlat ping a b --json x --interval 1s",
            "jitlat ping a b --timeout 1s --stamps user --no-log --log-format json",
            "jitlat -f log --check --warning loss>1%",
            "jitlat demo -n 5 -b",
            "jitlat sweep --resume file -v --json x",
            "jitlat spp -i a -I b --pairs 5",
        ] {
            assert_eq!(refusal(line), None, "{line}");
        }
    }
}
