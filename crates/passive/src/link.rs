//! [`LinkQuestion`]: effect of an access link on captured traffic. Computes the serialisation time of packet pairs on
//! a known link ([`ModelFigures`]), or fits an unknown link to pairs of different sizes ([`fit_sizes`]).

use super::sizes::SizeFigures;
use core::str::FromStr;
use jitlat_core::Span;
use jitlat_core::link::{AccessLink, LinkFit, MAX_OVERHEAD, NotALink, fit};
use serde::Serialize;

/// A question about a link: the effect of a known link, or the properties of an unknown link.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkQuestion {
    /// Compute the effect of a known link.
    Compare(AccessLink),
    /// Find the link that the sizes suggest.
    Fit {
        /// Bytes added by a tunnel.
        tunnel: u64,
    },
}

impl LinkQuestion {
    /// Returns the link to compare with; `None` if it is to be found.
    pub fn link(&self) -> Option<&AccessLink> {
        match self {
            LinkQuestion::Compare(link) => Some(link),
            LinkQuestion::Fit { .. } => None,
        }
    }
}

impl FromStr for LinkQuestion {
    type Err = NotALinkQuestion;

    fn from_str(s: &str) -> Result<LinkQuestion, NotALinkQuestion> {
        let Some(rest) = s.strip_prefix("fit") else { return Ok(LinkQuestion::Compare(s.parse()?)) };
        if rest.is_empty() {
            return Ok(LinkQuestion::Fit { tunnel: 0 });
        }
        let bytes = rest.strip_prefix(",tunnel=").and_then(|n| n.parse().ok());
        let tunnel = bytes.filter(|n| *n <= MAX_OVERHEAD).ok_or(NotALinkQuestion::Fit)?;
        Ok(LinkQuestion::Fit { tunnel })
    }
}

/// Reason why a text is not a question about a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotALinkQuestion {
    /// The text begins with `fit`, but the rest is invalid.
    #[error("use fit, or fit,tunnel=BYTES")]
    Fit,
    /// The text is not a valid link.
    #[error(transparent)]
    Link(#[from] NotALink),
}

/// Time that a link alone needs for a pair of packets, and the excess of the measured round trips: a column of Table II
/// in CAIA 080530B.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModelFigures {
    /// Number of ATM cells of the OUT packet; `None` on other links.
    pub out_cells: Option<u64>,
    /// Number of ATM cells of the IN packet; `None` on other links.
    pub in_cells: Option<u64>,
    /// Serialisation time of the OUT packet.
    #[serde(rename = "up_ns")]
    pub up: Span,
    /// Serialisation time of the IN packet.
    #[serde(rename = "down_ns")]
    pub down: Span,
    /// Serialisation time of both packets.
    #[serde(rename = "rtt_ns")]
    pub rtt: Span,
    /// Smallest round trip minus [`Self::rtt`].
    #[serde(rename = "min_above_ns")]
    pub min_above: Span,
    /// Median round trip minus [`Self::rtt`].
    #[serde(rename = "median_above_ns")]
    pub median_above: Span,
    /// Mean round trip minus [`Self::rtt`], in ns.
    pub mean_above_ns: f64,
}

impl ModelFigures {
    /// Computes the times of `link` for pairs of these sizes.
    pub fn of(link: &AccessLink, size: &SizeFigures) -> ModelFigures {
        let (out, back) = (u64::from(size.out_length), u64::from(size.in_length));
        let rtt = link.rtt(out, back);
        ModelFigures {
            out_cells: link.cells(out),
            in_cells: link.cells(back),
            up: link.delay_up(out),
            down: link.delay_down(back),
            rtt,
            min_above: Span(size.min_rtt_ns) - rtt,
            median_above: Span(size.median_rtt_ns) - rtt,
            mean_above_ns: size.mean_rtt_ns - rtt.0 as f64,
        }
    }
}

/// Fits a link to the pairs of two packets of equal size; `None` if no link can be fitted.
pub fn fit_sizes(sizes: &[SizeFigures], tunnel: u64) -> Option<LinkFit> {
    let same: Vec<_> = sizes
        .iter()
        .filter(|s| s.out_length == s.in_length)
        .map(|s| (u64::from(s.out_length), s.min_rtt_ns as f64))
        .collect();
    fit(&same, tunnel)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read() {
        let question = |text: &str| text.parse::<LinkQuestion>();
        let plain = "plain,up=1k".parse().unwrap();
        assert_eq!(question("plain,up=1k"), Ok(LinkQuestion::Compare(plain)));
        assert_eq!(question("fit"), Ok(LinkQuestion::Fit { tunnel: 0 }));
        assert_eq!(question("fit,tunnel=65535"), Ok(LinkQuestion::Fit { tunnel: 65_535 }));
        for wrong in ["fit,tunnel=65536", "fit,tunnel=", "fit28"] {
            assert_eq!(question(wrong), Err(NotALinkQuestion::Fit));
        }
        assert_eq!(question("up=1k"), Err("up=1k".parse::<AccessLink>().unwrap_err().into()));
    }

    #[test]
    fn what_a_model_leaves_of_a_size_is_above_it() {
        let link: AccessLink = "plain,up=8M,down=4M".parse().unwrap();
        // 100 bytes take 0.1 ms, 200 bytes take 0.4 ms.
        let size = SizeFigures {
            out_length: 100,
            in_length: 200,
            pairs: 3,
            min_rtt_ns: 600_000,
            median_rtt_ns: 700_000,
            mean_rtt_ns: 800_000.5,
            percentiles: Vec::new(),
        };
        let f = ModelFigures::of(&link, &size);
        assert_eq!((f.up, f.down, f.rtt), (Span(100_000), Span(400_000), Span(500_000)));
        assert_eq!((f.min_above, f.median_above, f.mean_above_ns), (Span(100_000), Span(200_000), 300_000.5));
        assert_eq!(LinkQuestion::Compare(link).link(), Some(&link));
        assert_eq!(LinkQuestion::Fit { tunnel: 0 }.link(), None);
    }

    #[test]
    fn sizes_of_pairs_count_where_both_packets_have_them() {
        let sizes = |out_length: u32, in_length: u32| SizeFigures {
            out_length,
            in_length,
            pairs: 9,
            min_rtt_ns: 1000 * i64::from(out_length),
            median_rtt_ns: 7,
            mean_rtt_ns: 7.0,
            percentiles: Vec::new(),
        };
        let mut of: Vec<_> = [100, 200, 300, 400].map(|l| sizes(l, l)).into();
        of.push(SizeFigures { min_rtt_ns: 0, ..sizes(1000, 100) });
        let f = fit_sizes(&of, 0).unwrap();
        assert!(f.steps.is_none() && (f.slope_ns - 1000.0).abs() < 1e-6 && f.fixed_ns.abs() < 1e-6, "{f:?}");
        assert_eq!(fit_sizes(&of[1..], 0), None, "three of one size each way");
    }
}
