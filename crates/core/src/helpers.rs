//! [`Helpers`]: threads that a caller lends for the analysis of a long test.

/// Threads that can be lent. This crate starts none.
pub trait Helpers: Sync {
    /// Runs `work`, which takes one of `pieces` after the other, on this thread and on others at the same time; returns when it has
    /// ended on all. More threads than pieces are of no use.
    fn run(&self, pieces: usize, work: &(dyn Fn() + Sync));
}
