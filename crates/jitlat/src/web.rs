//! `jitlat web [ARCHIVE]`: the page of an archive.

use crate::exit::Status;
use crate::options::read_key_file;
use crate::{console, interrupt};
use anyhow::{Context, Result};
use clap::Args;
use jitlat_web::{Access, PORT, Settings, Token, Web};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

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

/// `192.0.2.7:80`, `[::1]:80`, `192.0.2.7`, `::1` or `8080`.
fn listen(text: &str) -> Result<SocketAddr, String> {
    let address = |ip: IpAddr| SocketAddr::new(ip, PORT);
    let port = |port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let parsed = text.parse().ok().or_else(|| text.trim_matches(['[', ']']).parse().ok().map(address));
    parsed
        .or_else(|| text.parse().ok().map(port))
        .ok_or_else(|| "write an address, a port, or both, as in 192.0.2.7:2680 or [::1]:2680".to_owned())
}

/// Serves until the user stops it.
pub fn run(args: &WebArgs) -> Result<Status> {
    let mut settings = Settings::new(&args.archive);
    settings.listen = args.listen.unwrap_or(settings.listen);
    settings.access = match &args.token_file {
        Some(path) => {
            let file = read_key_file(path)?;
            let token = Token::of_file_contents(&file.contents);
            Access::Token(token.with_context(|| format!("--token-file {}", file.name))?)
        }
        None if args.behind_proxy => Access::Proxy,
        None => Access::Local,
    };
    let stop = interrupt::stop()?;
    let web = Web::bind(&settings)?;
    console::print(&format!("jitlat web: http://{}/\n", web.address()))?;
    web.run(|| stop.is_requested())?;
    Ok(Status::Measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_to_listen_is_an_address_a_port_or_both() {
        for (text, address) in [
            ("192.0.2.7:80", "192.0.2.7:80"),
            ("[::1]:80", "[::1]:80"),
            ("192.0.2.7", "192.0.2.7:2680"),
            ("::1", "[::1]:2680"),
            ("[::1]", "[::1]:2680"),
            ("8080", "127.0.0.1:8080"),
        ] {
            assert_eq!(listen(text), Ok(address.parse().unwrap()), "{text}");
        }
        assert!(listen("example.org").is_err() && listen("70000").is_err());
    }
}
