//! [`Helpers`]: threads that a caller supplies for the analysis of a long test.

/// Thread pool supplied by the caller. This crate starts no threads.
pub trait Helpers: Sync {
    /// Runs `work` on this thread and on others at the same time, and returns when all have finished. Each
    /// call of `work` takes one of the `pieces` after another, so more threads than pieces have no effect.
    fn run(&self, pieces: usize, work: &(dyn Fn() + Sync));
}
