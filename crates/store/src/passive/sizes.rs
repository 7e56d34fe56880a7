//! Round trips by packet size, with what a link takes for them: the whole of the seed's Table II.

use jitlat_core::passive::{LinkQuestion, ModelFigures, SizeFigures};
use serde_json::Value;
use std::io::{self, Write};

/// What the link that is asked about takes for such a pair; None without one.
fn model(size: &SizeFigures, link: Option<&LinkQuestion>) -> Option<ModelFigures> {
    Some(ModelFigures::of(link.and_then(LinkQuestion::link)?, size))
}

/// The sizes as JSON.
///
/// # Errors
/// A value that JSON cannot hold.
pub(super) fn values(sizes: &[SizeFigures], link: Option<&LinkQuestion>) -> serde_json::Result<Vec<Value>> {
    let one = |size: &SizeFigures| {
        let mut value = serde_json::to_value(size)?;
        if let Some(object) = value.as_object_mut() {
            object.insert("model".to_owned(), serde_json::to_value(model(size, link))?);
        }
        Ok(value)
    };
    sizes.iter().map(one).collect()
}

/// Writes a line for each pair of packet sizes, times in ns. The columns of the link are empty where `link` compares
/// with none.
///
/// # Errors
/// What `out` says.
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
