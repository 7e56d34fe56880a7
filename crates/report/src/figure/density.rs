//! [`DensityCells`]: number of points in each cell of a grid.

use serde::{Serialize, Serializer};

/// Counts of points in equal cells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DensityCells {
    /// Left edge of the first column.
    pub x0: f64,
    /// Width of a cell.
    pub dx: f64,
    /// Number of columns.
    pub columns: usize,
    /// Lower edge of the first row.
    pub y0: f64,
    /// Height of a cell.
    pub dy: f64,
    /// Number of rows.
    pub rows: usize,
    /// Non-empty cells: index `column × rows + row` and count, in ascending order of index. Serialised as a flat list
    /// of the distance to the previous cell and the count.
    #[serde(serialize_with = "compact_cells")]
    pub cells: Vec<(u32, u64)>,
}

pub(super) fn compact_cells<S: Serializer>(cells: &[(u32, u64)], s: S) -> Result<S::Ok, S::Error> {
    let mut before = 0;
    s.collect_seq(cells.iter().flat_map(|(index, count)| {
        let gap = u64::from(index - std::mem::replace(&mut before, *index));
        [gap, *count]
    }))
}
