//! [`Helpers`]: threads that a caller lends for the analysis of a long test.

/// Threads that can be lent. This crate starts none.
pub trait Helpers: Sync {
    /// Runs `work` on this thread and on others at the same time, and returns when it has ended on all.
    fn run(&self, work: &(dyn Fn() + Sync));
}
