//! `owfetch`: fetches the records of earlier sessions from an OWAMP server by their identifiers.

use super::arguments::{ForeignOption as Opt, Given, Program};
use super::owping::printed;
use super::perfsonar::{self as common, mode};
use anyhow::{Context, Result, bail};
use jitlat_core::Span;
use jitlat_core::far_host::FarHost;
use jitlat_instruments::Unobserved;
use jitlat_instruments::ping::protocols::twamp::user;
use jitlat_net::client::AddressFamily;
use jitlat_net::owamp::{FetchRequest, fetch};
use jitlat_output::terminal;
use jitlat_proto::amp::{SecurityMode, Sid};
use jitlat_proto::owamp::{self, OwpingOptions, Statistics};
use jitlat_store::output as file;
use std::path::Path;
use tracing::error;

pub static PROGRAM: Program = Program {
    name: "owfetch",
    about: "Fetches the records of sessions from an OWAMP server by their identifiers (SID), with the text of owfetch",
    usage: "[OPTIONS] HOST[:PORT] SID [FILE.owp] [SID FILE.owp]…",
    options: &[
        Opt::printed("-A", "MODES", "protection: letters of A, E and O"),
        Opt::printed("-u", "USER", "name of the user"),
        Opt::printed("-k", "FILE", "file with the users and their passphrases (.pfs)"),
        Opt::printed("-S", "ADDR", "local address"),
        Opt::printed("-4", "", "IPv4 only"),
        Opt::printed("-6", "", "IPv6 only"),
        common::BUCKET,
        common::UNIT,
        common::PACKETS,
        common::UNIX_TIMES,
        common::RAW,
        common::MACHINE,
        common::QUIET,
    ],
    run,
    wrong: 1,
    failed: 1,
};

/// Timeout of each step of the conversation.
const STEP_TIMEOUT: Span = Span::seconds(10);

fn run(given: &Given) -> Result<u8> {
    let [host, rest @ ..] = &given.operands[..] else {
        bail!("give a host and a SID: owfetch HOST SID FILE.owp")
    };
    let FarHost { name, port } = host.parse()?;
    let mut wanted: Vec<(Sid, Option<&str>)> = Vec::new();
    for words in rest.chunks(2) {
        let [word, file @ ..] = words else { continue };
        let number = u128::from_str_radix(word, 16).ok().filter(|_| word.len() == 32);
        let number = number.with_context(|| {
            format!("{word} is not the identifier of a session: it has 32 hexadecimal digits")
        })?;
        let path = file.first().map(String::as_str);
        path.map_or(Ok(()), |path| file::check(Path::new(path)))?;
        wanted.push((Sid(number.to_be_bytes()), path));
    }
    if wanted.is_empty() {
        bail!("give the SID of a session, which owping prints: owfetch {host} SID FILE.owp");
    }
    let key_file = given.file("-k")?.map(|path| {
        let contents = crate::options::read_key_file(Path::new(path))?;
        anyhow::Ok(user(&contents, given.value("-u"), "owamp-user")?)
    });
    let chosen = given.value("-A").map(mode).transpose().map_err(anyhow::Error::msg)?.flatten();
    let request = FetchRequest {
        host: name,
        port: port.unwrap_or(owamp::PORT),
        family: match (given.has("-4"), given.has("-6")) {
            (true, _) => Some(AddressFamily::V4),
            (_, true) => Some(AddressFamily::V6),
            _ => None,
        },
        bind: given
            .value("-S")
            .map(|ip| ip.parse().with_context(|| format!("-S {ip}: give an address")))
            .transpose()?,
        mode: match chosen {
            Some("open") => Some(SecurityMode::Open),
            Some("authenticated") => Some(SecurityMode::Authenticated),
            Some("encrypted") => Some(SecurityMode::Encrypted),
            _ => None,
        },
        user: key_file.transpose()?,
        sids: wanted.iter().map(|(sid, _)| *sid).collect(),
        step_timeout: STEP_TIMEOUT,
    };
    let stop = crate::interrupt::stop()?;
    let fetched = fetch(&request, stop.flag(), &mut Unobserved)?;
    let mut whole = fetched.len() == wanted.len();
    for (sid, data) in fetched {
        let data = match data {
            Ok(data) => data,
            Err(why) => {
                error!("session {sid}: {why}: the server has no records of it, or not for this client");
                whole = false;
                continue;
            }
        };
        let path = wanted.iter().find(|(wanted, _)| *wanted == sid).and_then(|(_, path)| *path);
        if let Some(path) = path {
            file::write(Path::new(path), |out| out.write_all(&data.to_file()))?;
        }
        if !given.has("-Q") {
            let style = OwpingOptions {
                bucket: given.number("-b")?.unwrap_or(OwpingOptions::default().bucket),
                ..OwpingOptions::default()
            };
            terminal::print(&printed(given, &[Statistics { data, style }])?)?;
        }
    }
    Ok(u8::from(!whole))
}
