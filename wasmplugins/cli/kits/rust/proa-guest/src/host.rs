//! The server's functions.

use alloc::string::String;
use alloc::vec::Vec;

use crate::patch::ToJson;
use crate::value::Value;

#[cfg(target_arch = "wasm32")]
mod imports {
    #[link(wasm_import_module = "proa")]
    extern "C" {
        pub fn log(level: i32, p: *const u8, n: usize);
        pub fn call(op: *const u8, op_n: usize, request: *const u8, request_n: usize) -> i32;
        pub fn read(p: *mut u8, n: usize) -> i32;
    }
}

/// Outside of the server there is nobody to call.
#[cfg(not(target_arch = "wasm32"))]
mod imports {
    pub unsafe fn log(_: i32, _: *const u8, _: usize) {}
    pub unsafe fn call(_: *const u8, _: usize, _: *const u8, _: usize) -> i32 {
        -1
    }
    pub unsafe fn read(_: *mut u8, _: usize) -> i32 {
        0
    }
}

fn log(level: i32, text: &str) {
    unsafe { imports::log(level, text.as_ptr(), text.len()) }
}

/// Writes a line to the server's log. A call may write 8 KiB.
pub fn debug(text: &str) {
    log(0, text)
}

/// Writes a line to the server's log.
pub fn info(text: &str) {
    log(1, text)
}

/// Writes a line to the server's log.
pub fn warn(text: &str) {
    log(2, text)
}

/// Writes a line to the server's log.
pub fn error(text: &str) {
    log(3, text)
}

/// Calls an operation of the server with a request in JSON. The error is the
/// server's text. What is not granted does not return: the call ends with
/// CapabilityDenied.
pub fn call(op: &str, request: &str) -> Result<Value<'static>, String> {
    let r = unsafe { imports::call(op.as_ptr(), op.len(), request.as_ptr(), request.len()) };
    let mut reply: Vec<u8> = Vec::with_capacity(if r < 0 { -1 - r } else { r } as usize);
    unsafe {
        let n = imports::read(reply.as_mut_ptr(), reply.capacity());
        reply.set_len(n as usize);
    }
    if r < 0 {
        return Err(String::from_utf8_lossy(&reply).into_owned());
    }
    Ok(Value::parse(reply.leak() as &'static [u8]))
}

/// Makes a JSON object of names and texts, of which empty ones are left out.
fn object(members: &[(&str, &str)]) -> String {
    let mut out = String::from("{");
    for (name, text) in members.iter().filter(|(_, text)| !text.is_empty()) {
        if out.len() > 1 {
            out.push(',');
        }
        name.to_json(&mut out);
        out.push(':');
        text.to_json(&mut out);
    }
    out.push('}');
    out
}

/// Reads an object.
pub fn kube_get(group: &str, version: &str, resource: &str, namespace: &str, name: &str) -> Result<Value<'static>, String> {
    call("kube.get", &object(&[("group", group), ("version", version), ("resource", resource), ("namespace", namespace), ("name", name)]))
}

/// Reads `{"items":[…]}`.
pub fn kube_list(group: &str, version: &str, resource: &str, namespace: &str, label_selector: &str) -> Result<Value<'static>, String> {
    call("kube.list", &object(&[("group", group), ("version", version), ("resource", resource), ("namespace", namespace), ("labelSelector", label_selector)]))
}

/// Reports whether the plugin's ServiceAccount may do something.
pub fn can_i(verb: &str, group: &str, resource: &str, namespace: &str, name: &str) -> bool {
    call("authz.can_i", &object(&[("verb", verb), ("group", group), ("resource", resource), ("namespace", namespace), ("name", name)]))
        .map_or(false, |v| v.get("allowed").bool())
}

/// Reads `{"data":{…}}` of a ConfigMap.
pub fn config(namespace: &str, name: &str) -> Result<Value<'static>, String> {
    call("config.read", &object(&[("namespace", namespace), ("name", name)]))
}

/// Answers `{"status":…,"headers":{…},"body":base64}`.
pub fn http(method: &str, url: &str) -> Result<Value<'static>, String> {
    call("http", &object(&[("method", method), ("url", url)]))
}

/// The time in nanoseconds since 1970.
pub fn now() -> Option<i64> {
    call("clock.wall", "{}").ok()?.get("unixNanos").int()
}

/// Answers `{"base64":…}` with up to n bytes.
pub fn random(n: u32) -> Result<Value<'static>, String> {
    let mut request = String::from(r#"{"bytes":"#);
    n.to_json(&mut request);
    request.push('}');
    call("random", &request)
}
