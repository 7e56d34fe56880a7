//! [`RowOrder`]: rows of a table in the order of `rx_index`, in which the packets arrived.
//!
//! Jitter, bursts and reordering depend on this order, and engines that sort, join or distribute a table change it.

use crate::errors::invalid;
use jitlat_store::log::LogRow;
use pyo3::PyResult;
use std::collections::BTreeMap;

/// Order of the rows of one test.
#[derive(Default)]
pub struct RowOrder {
    /// `rx_index` of the next row.
    next: u64,
    /// Rows retained because a row with a smaller `rx_index` is missing, by `rx_index`.
    waiting: BTreeMap<u64, LogRow>,
    /// True if two rows have the same `rx_index`, as in logs that were joined by hand: further rows stay in their order.
    is_ambiguous: bool,
}

impl RowOrder {
    /// Checks that `rows` are in order and continue the previous ones.
    pub fn check(&mut self, rows: &[LogRow]) -> PyResult<()> {
        for row in rows {
            if row.index < self.next {
                return Err(invalid(format!(
                    "the packet with rx_index {} follows the one with {}: sort the rows by rx_index, the order in which packets arrived",
                    row.index,
                    self.next - 1
                )));
            }
            self.next = row.index + 1;
        }
        Ok(())
    }

    /// Takes rows in any order. Returns those of them, and of the retained rows, that continue the previous ones without a gap,
    /// in order; retains the others.
    pub fn restore(&mut self, rows: Vec<LogRow>) -> Vec<LogRow> {
        let in_order = |next: u64| rows.iter().zip(next..).all(|(row, index)| row.index == index);
        if self.is_ambiguous {
            return rows;
        }
        if self.waiting.is_empty() && in_order(self.next) {
            self.next += rows.len() as u64;
            return rows;
        }
        let mut ready = Vec::with_capacity(rows.len());
        let mut rows = rows.into_iter();
        while let Some(row) = rows.next() {
            if row.index < self.next || self.waiting.contains_key(&row.index) {
                self.is_ambiguous = true;
                ready.extend(std::mem::take(&mut self.waiting).into_values());
                ready.push(row);
                ready.extend(rows);
                return ready;
            }
            self.waiting.insert(row.index, row);
            while let Some(row) = self.waiting.remove(&self.next) {
                ready.push(row);
                self.next += 1;
            }
        }
        ready
    }

    /// Returns the retained rows in order, across gaps, which a log with unreadable rows has.
    pub fn rest(&mut self) -> Vec<LogRow> {
        std::mem::take(&mut self.waiting).into_values().collect()
    }
}
