//! `jitlat web [ARCHIVE]`: the page of an archive.

use crate::exit::Status;
use crate::options::read_key_file;
use crate::{console, interrupt};
use anyhow::{Context, Result};
use clap::Args;
use jitlat_core::quantity::{self, QuantityError};
use jitlat_web::{Access, PORT, Settings, Token, Web};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Show an archive as pages: which direction of which path is bad, and since when
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Pages can be read by the users of this host only. To show them to others: --listen ADDRESS:PORT with --token-file FILE, or \
                  --behind-proxy where a web server before it asks who they are. Nothing can be changed through a page."
)]
pub struct WebArgs {
    /// The archive's folder, which tests fill with --archive DIR
    #[arg(value_name = "ARCHIVE", default_value = ".", hide_default_value = true)]
    archive: PathBuf,
    /// Where to listen: an address, a port, or both (127.0.0.1:2680); port 0: the system chooses
    #[arg(long, value_name = "ADDRESS", value_parser = listen)]
    listen: Option<SocketAddr>,
    /// Only show pages to who knows the token in the first line of FILE: browsers ask for it, programs send it in the
    /// header Authorization: Bearer TOKEN
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A proxy before it decides who may read, and which names the page has
    #[arg(long, conflicts_with = "token_file")]
    behind_proxy: bool,
}

fn listen(text: &str) -> Result<SocketAddr, QuantityError> {
    quantity::listen(text).map(address)
}

/// An address and a port, with the usual ones for what is not said.
pub fn address((ip, port): (Option<IpAddr>, Option<u16>)) -> SocketAddr {
    SocketAddr::new(ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), port.unwrap_or(PORT))
}

/// Serves until the user stops it.
pub fn run(args: &WebArgs) -> Result<Status> {
    let mut settings = Settings::new(&args.archive);
    settings.listen = args.listen.unwrap_or(settings.listen);
    settings.access = match &args.token_file {
        Some(path) => Access::Token(token(path).with_context(|| format!("--token-file {}", path.display()))?),
        None if args.behind_proxy => Access::Proxy,
        None => Access::Local,
    };
    let stop = interrupt::stop()?;
    let web = Web::bind(&settings)?;
    console::print(&format!("jitlat web: http://{}/\n", web.address()))?;
    web.run(|| stop.is_requested())?;
    Ok(Status::Measured)
}

/// The token in a file.
pub fn token(path: &Path) -> Result<Token> {
    Ok(Token::of_file_contents(&read_key_file(path)?.contents)?)
}
