//! `--pace`: how a sender waits.

use clap::ValueEnum;
use jitlat_net::pace::Mode;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pace {
    Auto,
    Sleep,
    Hybrid,
    Spin,
    Etf,
}

impl From<Pace> for Option<Mode> {
    fn from(pace: Pace) -> Option<Mode> {
        match pace {
            Pace::Auto => None,
            Pace::Sleep => Some(Mode::Sleep),
            Pace::Hybrid => Some(Mode::Hybrid),
            Pace::Spin => Some(Mode::Spin),
            Pace::Etf => Some(Mode::Etf),
        }
    }
}
