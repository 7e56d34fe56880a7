//! [`PointGrid`]: counts points in cells, in one pass and constant memory, without knowing their range beforehand.
//!
//! Cells are aligned to multiples of a power of two nanoseconds. If a point lies outside, cells of that axis
//! are merged in pairs until it fits. The points therefore always use at least a quarter of the grid's
//! resolution, and two grids of the same stream can be added.

use super::density::DensityCells;

/// Counts of (x, y) points, both in ns.
#[derive(Clone, Debug)]
pub struct PointGrid {
    x: CellAxis,
    y: CellAxis,
    /// Counts, at `column × rows + row`; allocated with the first point.
    cells: Vec<u32>,
    n: u64,
}

/// One axis of cells: cell k covers `(first + k) << shift` up to the start of the next cell.
#[derive(Clone, Copy, Debug)]
struct CellAxis {
    shift: u32,
    first: i64,
    /// Number of cells in use, counted from cell 0.
    used: usize,
    cells: usize,
}

impl CellAxis {
    fn cell(&self, v: i64) -> Option<usize> {
        let k = (v >> self.shift).checked_sub(self.first)?;
        usize::try_from(k).ok().filter(|k| *k < self.cells)
    }

    fn width(&self) -> f64 {
        2f64.powi(self.shift as i32)
    }

    fn start(&self) -> f64 {
        self.first as f64 * self.width()
    }
}

impl PointGrid {
    /// Creates an empty grid of at most `columns × rows` cells. `x_range` is the expected range of x; a wrong
    /// value only costs some time or resolution.
    pub fn new(columns: usize, rows: usize, x_range: i64) -> PointGrid {
        let (columns, rows) = (columns.max(2), rows.max(2));
        let width = (x_range / columns as i64).max(1) as u64;
        let shift = 63 - width.leading_zeros();
        PointGrid {
            x: CellAxis { shift, first: 0, used: 0, cells: columns },
            y: CellAxis { shift: 0, first: 0, used: 0, cells: rows },
            cells: Vec::new(),
            n: 0,
        }
    }

    fn rows(&self) -> usize {
        self.y.cells
    }

    /// Number of points.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Counts one point.
    #[inline]
    pub fn add(&mut self, x: i64, y: i64) {
        if self.cells.is_empty() {
            self.cells = vec![0; self.x.cells * self.y.cells];
            self.x.first = x >> self.x.shift;
            self.y.first = y >> self.y.shift;
        }
        let (column, row) = loop {
            match (self.x.cell(x), self.y.cell(y)) {
                (Some(column), Some(row)) => break (column, row),
                (None, _) => self.make_room_across(x),
                (_, None) => self.make_room_upwards(y),
            }
        };
        self.x.used = self.x.used.max(column + 1);
        self.y.used = self.y.used.max(row + 1);
        let cell = &mut self.cells[column * self.y.cells + row];
        *cell = cell.saturating_add(1);
        self.n += 1;
    }

    /// Moves the columns so that `x` fits. If there is no room for that, merges them in pairs.
    fn make_room_across(&mut self, x: i64) {
        let (by, rows) = (room_below(&self.x, x), self.rows());
        if by > 0 {
            self.cells.rotate_right(by * rows);
            self.x.first -= by as i64;
            self.x.used += by;
            return;
        }
        let odd = (self.x.first & 1) as usize;
        for k in 0..self.x.used {
            let to = (k + odd) / 2;
            if to == k {
                continue;
            }
            for row in 0..self.y.used {
                let count = std::mem::take(&mut self.cells[k * rows + row]);
                let into = &mut self.cells[to * rows + row];
                *into = into.saturating_add(count);
            }
        }
        halve(&mut self.x, odd);
    }

    /// Moves the rows so that `y` fits. If there is no room for that, merges them in pairs.
    fn make_room_upwards(&mut self, y: i64) {
        let (by, rows) = (room_below(&self.y, y), self.rows());
        let odd = (self.y.first & 1) as usize;
        for column in self.cells.chunks_exact_mut(rows).take(self.x.used) {
            if by > 0 {
                column.rotate_right(by);
                continue;
            }
            for k in 0..self.y.used {
                let to = (k + odd) / 2;
                if to != k {
                    let count = std::mem::take(&mut column[k]);
                    column[to] = column[to].saturating_add(count);
                }
            }
        }
        if by > 0 {
            self.y.first -= by as i64;
            self.y.used += by;
        } else {
            halve(&mut self.y, odd);
        }
    }

    /// Returns the counts, merged to at most `columns × rows` cells; `None` without points.
    pub fn density(&self, columns: usize, rows: usize) -> Option<DensityCells> {
        if self.n == 0 {
            return None;
        }
        // Skip the empty cells before the first point: they result from moving cells, and are not data.
        let column = |c: usize| &self.cells[c * self.y.cells..][..self.y.used];
        let left = (0..self.x.used).find(|c| column(*c).iter().any(|n| *n > 0))?;
        let low = (left..self.x.used).filter_map(|c| column(c).iter().position(|n| *n > 0)).min()?;
        let (across, upwards) = (self.x.used - left, self.y.used - low);
        let (kx, ky) = (across.div_ceil(columns.max(1)), upwards.div_ceil(rows.max(1)));
        let (columns, rows) = (across.div_ceil(kx), upwards.div_ceil(ky));
        let mut counts = vec![0u64; columns * rows];
        for c in 0..across {
            for (r, n) in column(left + c)[low..].iter().enumerate() {
                counts[c / kx * rows + r / ky] += u64::from(*n);
            }
        }
        let cells = (0u32..).zip(counts).filter(|(_, n)| *n > 0).collect();
        Some(DensityCells {
            x0: self.x.start() + left as f64 * self.x.width(),
            dx: self.x.width() * kx as f64,
            columns,
            y0: self.y.start() + low as f64 * self.y.width(),
            dy: self.y.width() * ky as f64,
            rows,
            cells,
        })
    }

    /// Returns the counts summed over columns: lower edge, height of a cell, count of each row.
    pub fn marginal(&self) -> (f64, f64, Vec<u64>) {
        let mut counts = vec![0u64; self.y.used];
        for column in self.cells.chunks_exact(self.y.cells).take(self.x.used) {
            for (total, n) in counts.iter_mut().zip(column) {
                *total += u64::from(*n);
            }
        }
        (self.y.start(), self.y.width(), counts)
    }
}

/// Returns the number of cells by which to move the used cells up so that `v`, which is below the first cell, fits; 0
/// if it cannot fit. Uses at least half of the free cells, so that a falling sequence needs few moves.
fn room_below(scale: &CellAxis, v: i64) -> usize {
    let free = scale.cells - scale.used;
    let missing = scale.first.saturating_sub(v >> scale.shift);
    match usize::try_from(missing) {
        Ok(by) if by > 0 && by <= free => by.max(free / 2),
        _ => 0,
    }
}

/// Merges the cells of the axis in pairs. If `odd` is 1, the first cell remains alone.
fn halve(scale: &mut CellAxis, odd: usize) {
    scale.used = (scale.used + odd).div_ceil(2);
    scale.shift += 1;
    scale.first >>= 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_counted_is_no_density() {
        assert_eq!(PointGrid::new(8, 8, 1_000_000).density(10, 10), None);
    }

    proptest! {
        #[test]
        fn every_point_is_counted_in_the_cell_that_holds_it(
            points in prop::collection::vec((0i64..1 << 40, -(1i64 << 36)..1 << 36), 1..60),
            expected in 1i64..1 << 42,
        ) {
            let mut grid = PointGrid::new(64, 128, expected);
            for (x, y) in &points {
                grid.add(*x, *y);
            }
            let d = grid.density(24, 24).unwrap();
            prop_assert!(d.columns <= 24 && d.rows <= 24);
            prop_assert_eq!(d.cells.iter().map(|c| c.1).sum::<u64>(), points.len() as u64);
            for (x, y) in &points {
                let column = ((*x as f64 - d.x0) / d.dx) as usize;
                let row = ((*y as f64 - d.y0) / d.dy) as usize;
                let index = (column * d.rows + row) as u32;
                prop_assert!(d.cells.iter().any(|(i, _)| *i == index), "{x} {y} {d:?}");
            }
        }

        #[test]
        fn extreme_values_fit(points in prop::collection::vec((any::<i64>(), any::<i64>()), 1..8)) {
            let mut grid = PointGrid::new(64, 128, 1);
            for (x, y) in &points {
                grid.add(*x, *y);
            }
            prop_assert_eq!(grid.marginal().2.iter().sum::<u64>(), points.len() as u64);
        }
    }
}
