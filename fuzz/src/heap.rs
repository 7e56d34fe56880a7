//! [`Heap`]: how much memory is in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, which counts the bytes in use: `#[global_allocator]` of a target that holds a budget.
#[derive(Debug, Default)]
pub struct Heap(AtomicUsize);

impl Heap {
    pub const fn new() -> Heap {
        Heap(AtomicUsize::new(0))
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.0.load(Relaxed)
    }
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.fetch_add(layout.size(), Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.0.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}
