//! [`Heap`]: how much memory is in use.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The system's allocator, which counts the bytes in use: `#[global_allocator]` of a target that holds a budget.
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

    /// Most bytes in use at a time during `body`, beyond those before it.
    pub fn most_during(&self, body: impl FnOnce()) -> usize {
        let before = self.used();
        self.most.store(before, Relaxed);
        body();
        self.most.load(Relaxed).saturating_sub(before)
    }
}

// SAFETY: every call is passed on to the system's allocator as it is.
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
