//! `--profile`: makes a test send like an application, and selects the profiles by which the path is judged.

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use jitlat_core::evidence::SharedJudge;
use jitlat_verdict::{PROFILES, Profile};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Options that select the profiles for which a path is tested and judged.
#[derive(Clone, Debug, Default, Args)]
pub struct ProfileArgs {
    /// Names of the profiles.
    #[arg(long = "profile", value_name = "NAME", help_heading = None::<&'static str>, help = "Send and judge for this profile: voice, video and others; may be repeated", long_help = help())]
    pub names: Vec<String>,
    /// TOML file of custom profiles, one [[profile]] table each
    ///
    /// The path is judged by them, and --profile may name them.
    #[arg(long, value_name = "FILE")]
    pub profiles: Option<PathBuf>,
    /// Include the effects of the hosts in the profiles' verdicts
    ///
    /// Stalls, queues in a host's own interface and packets that a host refused or dropped count like those of the path.
    /// The verdict on the path never includes them. Not in constant memory (`--streaming`).
    #[arg(long, conflicts_with = "streaming")]
    pub profile_host: bool,
    /// Selected profiles, built-in or from the file; `None`: all built-in ones.
    #[arg(skip)]
    chosen: Option<Vec<Profile>>,
}

fn help() -> String {
    let names: Vec<&str> = PROFILES.iter().map(|p| &*p.name).collect();
    format!(
        "Send like this profile (its payload, period, DSCP and duration, unless given) and judge by its \
         needs: {}, or a profile of --profiles. May be repeated: the first defines how to send, all are \
         judged",
        names.join(", ")
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    profile: Vec<Profile>,
}

impl ProfileArgs {
    /// Looks up the names, and reads the file.
    ///
    /// # Errors
    /// A name is unknown, the file cannot be read, or a profile in it cannot be measured.
    pub fn resolve(&mut self) -> Result<()> {
        let own = self.profiles.as_deref().map(read).transpose()?.unwrap_or_default();
        if self.names.is_empty() {
            self.chosen = (!own.is_empty()).then_some(own);
            return Ok(());
        }
        let known: Vec<&Profile> = own.iter().chain(&PROFILES).collect();
        let find = |name: &String| {
            let found = known.iter().find(|p| p.name == *name).copied().cloned();
            found.ok_or_else(|| {
                let names: Vec<&str> = known.iter().map(|p| &*p.name).collect();
                anyhow!("--profile: unknown profile '{name}': choose {}, or define it in a file and give --profiles FILE", names.join(", "))
            })
        };
        self.chosen = Some(self.names.iter().map(find).collect::<Result<_>>()?);
        Ok(())
    }

    /// Returns the judge for the profiles.
    pub fn judge(&self) -> SharedJudge {
        match (self.profile_host, &self.chosen) {
            (false, None) => jitlat_verdict::judge(),
            (false, Some(chosen)) => jitlat_verdict::judge_for(chosen.clone()),
            (true, None) => jitlat_verdict::judge_with_hosts(&PROFILES[..]),
            (true, Some(chosen)) => jitlat_verdict::judge_with_hosts(chosen.clone()),
        }
    }

    /// Returns the profile that defines the traffic; `None` if no profile was named.
    pub fn sends(&self) -> Option<&Profile> {
        self.chosen.as_ref().filter(|_| !self.names.is_empty())?.first()
    }
}

fn read(path: &Path) -> Result<Vec<Profile>> {
    let reading = || format!("reading the profiles in {}", path.display());
    let text = std::fs::read_to_string(path).with_context(reading)?;
    let ProfileFile { profile } = toml::from_str(&text).with_context(reading)?;
    for p in &profile {
        if let Some(fault) = p.fault() {
            bail!("{}: profile '{}': {fault}", path.display(), p.name.escape_debug());
        }
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_a_file_come_before_those_known() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let write = |text: &str| std::fs::write(file.path(), text).unwrap();
        let resolve = |names: &[&str]| {
            let names = names.iter().map(|n| (*n).to_owned()).collect();
            let mut args =
                ProfileArgs { names, profiles: Some(file.path().to_owned()), ..ProfileArgs::default() };
            args.resolve().map(|()| args.chosen.clone().unwrap_or_else(|| PROFILES.to_vec()))
        };
        write(
            "[[profile]]\nname = 'intercom'\nabout = 'a door'\npayload = 300\nperiod_ms = 10\n\
             delay_ms = [20, 50, 100]\nmissing = [0.001, 0.01, 0.1]\nsource = 'ours'\n",
        );
        let names = |found: Vec<Profile>| found.iter().map(|p| p.name.to_string()).collect::<Vec<_>>();
        assert_eq!(names(resolve(&[]).unwrap()), ["intercom"]);
        assert_eq!(names(resolve(&["voice", "intercom"]).unwrap()), ["voice", "intercom"]);
        assert!(resolve(&["vioce"]).unwrap_err().to_string().contains("intercom, voice, video"));
        let bad = "[[profile]]\nname = 'x'\nabout = ''\npayload = 3\nperiod_ms = 10\ndelay_ms = [20, 50, 100]\n\
                   missing = [0, 0, 0]\nsource = ''\n";
        write(bad);
        assert!(resolve(&[]).unwrap_err().to_string().contains("at least 12 bytes"));
        write("[[profil]]");
        assert!(resolve(&[]).is_err());
    }
}
