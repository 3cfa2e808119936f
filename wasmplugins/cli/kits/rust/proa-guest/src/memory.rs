//! Memory that is taken and never given back, and what the server writes to it.

use alloc::string::String;
use alloc::vec::Vec;
use core::cell::UnsafeCell;

use crate::value::Value;

/// A variable that [`on_configure!`](crate::on_configure) sets.
///
/// A plugin has one thread; tests that set a `Global` must have one, too.
pub struct Global<T>(UnsafeCell<Option<T>>);

// A module has one thread.
unsafe impl<T> Sync for Global<T> {}

impl<T> Global<T> {
    /// A variable that is not set yet.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Global(UnsafeCell::new(None))
    }

    /// Sets the variable.
    pub fn set(&self, value: T) {
        unsafe { *self.0.get() = Some(value) }
    }

    /// Returns the value, once it is set.
    pub fn get(&self) -> Option<&T> {
        unsafe { (*self.0.get()).as_ref() }
    }
}

#[doc(hidden)]
pub fn alloc_region(n: i32) -> *mut u8 {
    if n < 0 {
        return core::ptr::null_mut();
    }
    let words: Vec<u64> = Vec::with_capacity((n as usize + 7) / 8);
    let p = words.as_ptr() as *mut u8;
    core::mem::forget(words);
    p
}

#[doc(hidden)]
pub fn request(p: *const u8, n: usize) -> Value<'static> {
    Value::parse(unsafe { core::slice::from_raw_parts(p, n) })
}

/// Returns a reply to the server, which reads it before it calls again.
#[doc(hidden)]
pub fn reply(text: String) -> i64 {
    let r = (text.as_ptr() as usize as i64) << 32 | text.len() as i64;
    core::mem::forget(text);
    if r as u32 == 0 {
        return 0;
    }
    r
}

#[cfg(target_arch = "wasm32")]
mod bump {
    use core::alloc::{GlobalAlloc, Layout};
    use core::arch::wasm32::{memory_grow, memory_size};
    use core::cell::UnsafeCell;

    extern "C" {
        static __heap_base: u8;
    }

    struct Bump(UnsafeCell<usize>);

    // A module has one thread.
    unsafe impl Sync for Bump {}

    #[global_allocator]
    static HEAP: Bump = Bump(UnsafeCell::new(0));

    unsafe impl GlobalAlloc for Bump {
        unsafe fn alloc(&self, l: Layout) -> *mut u8 {
            let top = &mut *self.0.get();
            if *top == 0 {
                *top = &__heap_base as *const u8 as usize;
            }
            let start = (*top + l.align() - 1) & !(l.align() - 1);
            let end = match start.checked_add(l.size()) {
                Some(end) => end,
                None => return core::ptr::null_mut(),
            };
            let have = memory_size(0) << 16;
            // More than is needed, so that the next calls need not grow.
            if end > have && memory_grow(0, ((end - have) >> 16) + 4) == usize::MAX {
                return core::ptr::null_mut();
            }
            *top = end;
            start as *mut u8
        }

        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}

        unsafe fn realloc(&self, p: *mut u8, l: Layout, size: usize) -> *mut u8 {
            let top = &mut *self.0.get();
            if p as usize + l.size() == *top && size <= l.size() {
                *top = p as usize + size;
                return p;
            }
            if p as usize + l.size() == *top {
                // The last one: what it needs more lies right behind it.
                let more = Layout::from_size_align_unchecked(size - l.size(), 1);
                return if self.alloc(more).is_null() { core::ptr::null_mut() } else { p };
            }
            let to = self.alloc(Layout::from_size_align_unchecked(size, l.align()));
            if !to.is_null() {
                core::ptr::copy_nonoverlapping(p, to, l.size().min(size));
            }
            to
        }
    }
}
