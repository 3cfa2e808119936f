//! The kit for writing plugins of Proa in Rust.
//!
//! A plugin is a library of the crate type `cdylib` that names its functions:
//!
//! ```ignore
//! use proa_guest::{allow, deny, Answer, Request};
//!
//! proa_guest::on_admit!(admit);
//!
//! fn admit(r: &Request) -> Answer {
//!     if r.object().get(["metadata", "labels", "team"]).missing() {
//!         return deny("the label team is missing");
//!     }
//!     allow()
//! }
//! ```
//!
//! Build it with `proa plugin build`, or
//! `cargo build --release --target wasm32-unknown-unknown`.
//!
//! Objects are read where they lie: a [`Value`] is a place in the request's
//! JSON, and [`Value::get`] walks it without decoding anything else. The server
//! sends valid JSON; on broken JSON values are missing, nothing more.
//!
//! Every call begins in the state that the plugin was in after it was
//! configured: what a call has stored is gone in the next. So memory is never
//! given back. There is no file, network, or environment.
//!
//! The crate needs no other, and no `std`.

#![no_std]

extern crate alloc;

mod admission;
mod host;
mod memory;
mod patch;
mod schedule;
mod value;

pub use admission::{allow, change, deny, Answer, Request};
pub use host::{call, can_i, config, debug, error, http, info, kube_get, kube_list, now, random, warn};
pub use memory::Global;
pub use patch::{pointer, Json, Patch, ToJson};
pub use schedule::{Key, Node, Plan, Taint, CPU, MEMORY, PODS, STORAGE};
pub use value::{Iter, Path, Value};

#[doc(hidden)]
pub use {
    memory::{alloc_region, reply, request},
    schedule::Table,
};

/// The version of the ABI.
#[no_mangle]
pub extern "C" fn proa_abi() -> i32 {
    0x0001_0000
}

#[no_mangle]
extern "C" fn proa_alloc(n: i32) -> *mut u8 {
    memory::alloc_region(n)
}

/// Names the function that judges requests: `fn(&Request) -> Answer`.
#[macro_export]
macro_rules! on_admit {
    ($f:path) => {
        #[no_mangle]
        extern "C" fn proa_admit(p: *const u8, n: usize) -> i64 {
            let answer: $crate::Answer = $f(&$crate::Request::new($crate::request(p, n)));
            $crate::reply(answer.encode())
        }
    };
}

/// Names the function that gets the settings once, before the first request:
/// `fn(Value<'static>) -> Result<(), String>`. A [`Global`] that it sets stays
/// set. With its error the plugin is not ready.
#[macro_export]
macro_rules! on_configure {
    ($f:path) => {
        #[no_mangle]
        extern "C" fn proa_configure(p: *const u8, n: usize) -> i64 {
            let result: Result<(), _> = $f($crate::request(p, n));
            $crate::reply(match result {
                Ok(()) => Default::default(),
                Err(message) => $crate::Answer::invalid(AsRef::<str>::as_ref(&message)),
            })
        }
    };
}

/// Names the function for another extension point, such as `proa_authorize`:
/// `fn(Value<'static>) -> String`, from JSON to JSON.
#[macro_export]
macro_rules! on_call {
    ($export:ident, $f:path) => {
        #[no_mangle]
        extern "C" fn $export(p: *const u8, n: usize) -> i64 {
            $crate::reply($f($crate::request(p, n)))
        }
    };
}

/// Names the function that looks at a pod before the nodes:
/// `fn(Value<'static>, &mut Plan)`. Every plugin for the scheduler has it; what
/// it stores is there for the nodes, and gone with the next pod.
///
/// The points about a pod and its node, `proa_reserve` and others, are
/// [`on_call!`].
#[macro_export]
macro_rules! on_prepare {
    ($f:path) => {
        #[no_mangle]
        extern "C" fn proa_table(n: i32) -> *mut u8 {
            $crate::alloc_region(n)
        }

        #[no_mangle]
        extern "C" fn proa_nodes(at: *const u8, stride: usize, _count: i32, _gen: i32) -> i32 {
            $crate::Table { at, stride }.set();
            0
        }

        #[no_mangle]
        extern "C" fn proa_prepare(p: *const u8, n: usize) -> i64 {
            let mut plan = $crate::Plan::new();
            $f($crate::request(p, n).get("pod"), &mut plan);
            $crate::reply(plan.encode())
        }
    };
}

/// Names the function that answers 0 to let a node pass, or the number of a
/// reason of the plan: `fn(&Node) -> u8`.
#[macro_export]
macro_rules! on_filter {
    ($f:path) => {
        #[no_mangle]
        unsafe extern "C" fn proa_filter(out: *mut u8, count: usize) -> i32 {
            let table = $crate::Table::current();
            for i in 0..count {
                if *out.add(i) == 0 {
                    *out.add(i) = $f(&$crate::Node::new(table, i));
                }
            }
            0
        }
    };
}

/// Names the function that answers a node's score: `fn(&Node) -> i32`.
#[macro_export]
macro_rules! on_score {
    ($f:path) => {
        #[no_mangle]
        unsafe extern "C" fn proa_score(out: *mut i32, count: usize) -> i32 {
            let table = $crate::Table::current();
            for i in 0..count {
                if *out.add(i) == 0 {
                    *out.add(i) = $f(&$crate::Node::new(table, i));
                }
            }
            0
        }
    };
}

/// Says what the plugin is, in JSON, unless `proa plugin build` puts
/// `manifest.json` into the module.
#[macro_export]
macro_rules! manifest {
    ($json:literal) => {
        #[cfg_attr(target_arch = "wasm32", link_section = "proa.manifest")]
        #[used]
        static PROA_MANIFEST: [u8; $json.len()] = {
            let from = $json.as_bytes();
            let mut to = [0; $json.len()];
            let mut i = 0;
            while i < to.len() {
                to[i] = from[i];
                i += 1;
            }
            to
        };
    };
}
