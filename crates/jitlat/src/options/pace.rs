//! The option `--pace`: how a sender waits for its deadlines.

use clap::ValueEnum;
use jitlat_net::pace::PaceMode;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PaceArg {
    Auto,
    Sleep,
    Hybrid,
    Spin,
    Etf,
}

impl From<PaceArg> for Option<PaceMode> {
    fn from(pace: PaceArg) -> Option<PaceMode> {
        match pace {
            PaceArg::Auto => None,
            PaceArg::Sleep => Some(PaceMode::Sleep),
            PaceArg::Hybrid => Some(PaceMode::Hybrid),
            PaceArg::Spin => Some(PaceMode::Spin),
            PaceArg::Etf => Some(PaceMode::Etf),
        }
    }
}
