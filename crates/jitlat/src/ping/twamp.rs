//! TWAMP: sessions agreed on with a control server, or TWAMP Light without one.

use super::args::PingArgs;
use super::measure::{Found, Setting, gather};
use super::stamp;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use jitlat_core::ntp::{ErrorEstimate, Format};
use jitlat_net::clock;
use jitlat_net::twoway::twamp::{Asking, Control, Error};
use jitlat_net::twoway::{prepare, run_on};
use jitlat_proto::twamp::{self, Mode, Sender, Users, Wish, sender};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// TWAMP alone.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "TWAMP")]
pub struct TwampArgs {
    /// TCP port of the control server
    #[arg(long, value_name = "PORT", default_value_t = twamp::PORT)]
    pub twamp_port: u16,
    /// TWAMP Light: no control server, straight to the reflector at --stamp-port. Without this that is done where
    /// the control port refuses connections
    #[arg(long, conflicts_with_all = ["twamp_key_file", "twamp_user", "twamp_mode", "nat"])]
    pub light: bool,
    /// File with a user and a passphrase in hexadecimal a line (perfSONAR's .pfs), for the keyed modes
    #[arg(long, value_name = "FILE")]
    pub twamp_key_file: Option<PathBuf>,
    /// The user to be; needed where the key file has several
    #[arg(long, value_name = "NAME", requires = "twamp_key_file")]
    pub twamp_user: Option<String>,
    /// Protection; without this the strongest that the server offers: encrypted, authenticated or mixed with a key
    /// file, open without one
    #[arg(long, value_name = "MODE")]
    pub twamp_mode: Option<TwampMode>,
    /// Let the server take the addresses of the control connection, as needed behind address translation
    #[arg(long)]
    pub nat: bool,
}

/// A mode by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TwampMode {
    /// Nothing is protected
    Open,
    /// Control encrypted, test packets signed by their number
    Authenticated,
    /// Control and test packets encrypted
    Encrypted,
    /// Control encrypted, test packets open
    Mixed,
}

impl From<TwampMode> for Mode {
    fn from(mode: TwampMode) -> Mode {
        match mode {
            TwampMode::Open => Mode::Open,
            TwampMode::Authenticated => Mode::Authenticated,
            TwampMode::Encrypted => Mode::Encrypted,
            TwampMode::Mixed => Mode::Mixed,
        }
    }
}

impl TwampArgs {
    /// Bytes of a request without `-l`: the least whose answer is as long.
    pub fn least_size(&self) -> u64 {
        let mode = match (self.twamp_mode, &self.twamp_key_file) {
            (Some(mode), _) => mode.into(),
            (None, Some(_)) => Mode::Encrypted,
            (None, None) => Mode::Open,
        };
        sender::least_size(mode) as u64
    }

    /// The user and the passphrase to prove, if there are any.
    fn user(&self) -> Result<Option<(String, Vec<u8>)>> {
        let Some(path) = &self.twamp_key_file else {
            if self.twamp_mode.is_some_and(|m| m != TwampMode::Open) {
                bail!("this mode of TWAMP needs a user and a passphrase: give --twamp-key-file");
            }
            return Ok(None);
        };
        let users = read_users(path)?;
        let name = match (&self.twamp_user, &users.names().collect::<Vec<_>>()[..]) {
            (Some(name), _) => name.clone(),
            (None, [name]) => (*name).to_owned(),
            (None, names) => {
                bail!("{} has {} users: say which with --twamp-user", path.display(), names.len())
            }
        };
        let passphrase = users
            .passphrase(&name)
            .ok_or_else(|| anyhow!("{} does not know the user {name}", path.display()))?;
        Ok(Some((name, passphrase.to_vec())))
    }
}

/// Reads a file of users and passphrases.
pub fn read_users(path: &Path) -> Result<Users> {
    let what = || format!("reading the key file {}", path.display());
    let users = Users::parse(&std::fs::read_to_string(path).with_context(what)?).with_context(what)?;
    anyhow::ensure!(!users.is_empty(), "the key file {} names no user", path.display());
    Ok(users)
}

/// Measures.
pub fn measure(s: &Setting<'_>) -> Result<Found> {
    let args = s.args;
    if args.twamp.light {
        return stamp::measure(s);
    }
    let server = s.link.to;
    let prepared = prepare(&s.link, s.size)?;
    let local = prepared.socket.local_addr()?.as_socket().context("reading the port of the test socket")?;
    let asking = Asking {
        to: server,
        bind: args.bind,
        mode: args.twamp.twamp_mode.map(Mode::from),
        user: args.twamp.user()?,
        sessions: vec![wish(args, local.port(), (local.ip(), server.ip()), s.size)],
        patience: CONVERSATION,
    };
    let keyed = asking.user.is_some() || asking.mode.is_some() || args.twamp.nat;
    let mut control = match Control::open(asking, s.stop) {
        Ok(control) => control,
        Err(Error::Connect { source, .. }) if source.kind() == io::ErrorKind::ConnectionRefused && !keyed => {
            let mut link = s.link.clone();
            link.to.set_port(args.stamp_port);
            let mut found =
                stamp::measure(&Setting { link, plan: s.plan.clone(), ..*s }).with_context(|| {
                    format!("no TWAMP server at TCP {server}, and no TWAMP Light reflector either")
                })?;
            found.facts().remarks.push(format!("no control server at TCP {server}: measured as TWAMP Light"));
            return Ok(found);
        }
        Err(e @ Error::Connect { .. }) => {
            return Err(e).context("no TWAMP session (without a control server: --light, or --proto stamp)");
        }
        Err(e) => return Err(e.into()),
    };
    let [granted] = control.granted() else { bail!("the TWAMP server granted no session") };
    let (mode, granted) = (control.mode(), granted.clone());
    let mut link = s.link.clone();
    link.to.set_port(granted.port);
    prepared.socket.connect(&link.to.into()).with_context(|| format!("directing the test to {}", link.to))?;
    control.start(s.stop)?;

    let error = ErrorEstimate::of_clock(clock::sync_state(), Format::Ntp);
    let sender = Sender::new(mode, granted.keys, s.size, error);
    let measured = run_on(prepared, |_| sender, s.plan.clone(), &link, s.stop);
    // The session is to end whatever became of the test.
    let stopped = control.stop();
    let setting = Setting { link, plan: s.plan.clone(), ..*s };
    let mut found = gather(&setting, measured?, |_| Vec::new());
    let remarks = &mut found.facts().remarks;
    remarks.push(format!("session {} agreed on with TCP {server}, mode {mode}", granted.sid));
    if let Err(e) = stopped {
        remarks.push(format!("the control connection did not last: {e}"));
    }
    Ok(found)
}

/// How long a server may take for each step of the conversation.
const CONVERSATION: jitlat_core::Span = jitlat_core::Span::seconds(5);

fn wish(args: &PingArgs, port: u16, (local, far): (IpAddr, IpAddr), size: usize) -> Wish {
    let any = match far {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Wish {
        sender_port: port,
        // As twping does: what lets one direction through a filter often lets both.
        receiver_port: port,
        addresses: if args.twamp.nat { (any, any) } else { (local, far) },
        size,
        dscp: args.dscp,
        timeout: args.timeout,
    }
}
