//! [`Heap`]: counts the memory in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator with a count of the bytes in use: `#[global_allocator]` of a target with a memory budget.
#[derive(Debug, Default)]
pub struct Heap {
    used: AtomicUsize,
    most: AtomicUsize,
}

impl Heap {
    pub const fn new() -> Heap {
        Heap { used: AtomicUsize::new(0), most: AtomicUsize::new(0) }
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// Most bytes in use during `body`, in addition to those before it.
    pub fn most_during(&self, body: impl FnOnce()) -> usize {
        let before = self.used();
        self.most.store(before, Relaxed);
        body();
        self.most.load(Relaxed).saturating_sub(before)
    }
}

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = self.used.fetch_add(layout.size(), Relaxed) + layout.size();
        self.most.fetch_max(used, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.used.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}
