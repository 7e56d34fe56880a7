//! Round trips by packet size, compared with the time that a link takes for them.

use jitlat_passive::{LinkQuestion, ModelFigures, SizeFigures};
use serde::Serialize;
use std::io::{self, Write};

/// Computes the time that the given link takes for a pair of packets of these sizes; `None` without a link.
fn model(size: &SizeFigures, link: Option<&LinkQuestion>) -> Option<ModelFigures> {
    Some(ModelFigures::of(link.and_then(LinkQuestion::link)?, size))
}

/// Round trips of one pair of packet sizes, and the time that a link takes for such a pair.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SizeDocument<'a> {
    /// Round trips.
    #[serde(flatten)]
    pub size: &'a SizeFigures,
    /// Time that the link takes for such a pair; null if there is no link to compare with.
    pub model: Option<ModelFigures>,
}

/// Converts the sizes to JSON documents.
pub(super) fn documents<'a>(sizes: &'a [SizeFigures], link: Option<&LinkQuestion>) -> Vec<SizeDocument<'a>> {
    sizes.iter().map(|size| SizeDocument { size, model: model(size, link) }).collect()
}

/// Writes a line for each pair of packet sizes, with times in ns. The columns about a link are empty unless `link` is a
/// comparison with a link.
///
/// # Errors
/// Errors of `out`.
pub fn write_sizes(
    mut out: impl Write,
    sizes: &[SizeFigures],
    link: Option<&LinkQuestion>,
) -> io::Result<()> {
    writeln!(
        out,
        "out_length,in_length,pairs,min_rtt_ns,median_rtt_ns,mean_rtt_ns,out_cells,in_cells,model_down_ns,model_up_ns,\
         model_rtt_ns,min_above_ns,median_above_ns,mean_above_ns"
    )?;
    let known = |v: Option<i64>| v.map_or(String::new(), |v| v.to_string());
    for s in sizes {
        let m = model(s, link);
        let cells = |f: fn(&ModelFigures) -> Option<u64>| {
            m.as_ref().and_then(f).map_or(String::new(), |v| v.to_string())
        };
        let of = |f: fn(&ModelFigures) -> i64| known(m.as_ref().map(f));
        writeln!(
            out,
            "{},{},{},{},{},{:.0},{},{},{},{},{},{},{},{}",
            s.out_length,
            s.in_length,
            s.pairs,
            s.min_rtt_ns,
            s.median_rtt_ns,
            s.mean_rtt_ns,
            cells(|m| m.out_cells),
            cells(|m| m.in_cells),
            of(|m| m.down.0),
            of(|m| m.up.0),
            of(|m| m.rtt.0),
            of(|m| m.min_above.0),
            of(|m| m.median_above.0),
            of(|m| m.mean_above_ns.round() as i64)
        )?;
    }
    Ok(())
}
