//! Scheduling: a pod, and then all nodes.

use alloc::string::String;
use core::cell::Cell;

use crate::patch::ToJson;

/// Milli-CPU, the index of [`Node::allocatable`] and [`Node::requested`].
pub const CPU: usize = 0;
/// Bytes of memory.
pub const MEMORY: usize = 1;
/// Bytes of ephemeral storage.
pub const STORAGE: usize = 2;
/// Pods.
pub const PODS: usize = 3;

/// Where the table of nodes is.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Table {
    pub at: *const u8,
    pub stride: usize,
}

impl Table {
    /// The table of the attempt.
    pub fn current() -> Table {
        TABLE.0.get()
    }

    /// Keeps the table for the attempt.
    pub fn set(self) {
        TABLE.0.set(self)
    }
}

struct Current(Cell<Table>);

// A module has one thread.
unsafe impl Sync for Current {}

static TABLE: Current = Current(Cell::new(Table { at: core::ptr::null(), stride: 0 }));

/// The key of a label or a resource. It remembers its place in the table, so
/// that looking for it is comparing numbers.
pub struct Key {
    text: &'static str,
    at: Cell<u32>,
}

// A module has one thread.
unsafe impl Sync for Key {}

impl Key {
    /// A key, such as `topology.kubernetes.io/zone`.
    pub const fn new(text: &'static str) -> Key {
        Key { text, at: Cell::new(0) }
    }

    /// The key's text.
    pub fn text(&self) -> &'static str {
        self.text
    }

    fn is(&self, t: Table, at: u32, n: u32) -> bool {
        if self.at.get() != 0 {
            return self.at.get() == at;
        }
        if n as usize != self.text.len() || t.text(at, n) != self.text {
            return false;
        }
        self.at.set(at);
        true
    }
}

impl Table {
    fn u32(self, at: usize) -> u32 {
        unsafe { (self.at.add(at) as *const u32).read_unaligned() }
    }

    fn i64(self, at: usize) -> i64 {
        unsafe { (self.at.add(at) as *const i64).read_unaligned() }
    }

    fn text(self, at: u32, n: u32) -> &'static str {
        unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(self.at.add(at as usize), n as usize)) }
    }
}

/// One of a node's taints.
pub struct Taint {
    /// The key.
    pub key: &'static str,
    /// The value.
    pub value: &'static str,
    /// 1 is NoSchedule, 2 PreferNoSchedule, 3 NoExecute.
    pub effect: u32,
}

/// A record of the table of nodes.
#[derive(Clone, Copy)]
pub struct Node {
    t: Table,
    at: usize,
}

impl Node {
    #[doc(hidden)]
    pub fn new(t: Table, index: usize) -> Node {
        Node { t, at: index * t.stride }
    }

    fn list(&self, at: usize) -> (u32, u32) {
        (self.t.u32(self.at + at), self.t.u32(self.at + at + 4))
    }

    fn text(&self, at: usize) -> &'static str {
        let (p, n) = self.list(at);
        self.t.text(p, n)
    }

    fn flag(&self, bit: u32) -> bool {
        self.t.u32(self.at + 12) & bit != 0
    }

    /// The node's name.
    pub fn name(&self) -> &'static str {
        self.text(0)
    }

    /// The number of the node's zone, 0 for none.
    pub fn zone(&self) -> u32 {
        self.t.u32(self.at + 8)
    }

    /// The name of the node's zone.
    pub fn zone_name(&self) -> &'static str {
        self.text(120)
    }

    /// Reports whether the condition Ready is true.
    pub fn ready(&self) -> bool {
        self.flag(2)
    }

    /// Reports whether the node is cordoned.
    pub fn unschedulable(&self) -> bool {
        self.flag(4)
    }

    /// How much the node has of a resource, such as [`CPU`].
    pub fn allocatable(&self, resource: usize) -> i64 {
        self.t.i64(self.at + 16 + 8 * (resource & 3))
    }

    /// How much of a resource the pods on the node ask for.
    pub fn requested(&self, resource: usize) -> i64 {
        self.t.i64(self.at + 48 + 8 * (resource & 3))
    }

    /// The same of [`CPU`] and [`MEMORY`], with the defaults for containers that
    /// ask for nothing.
    pub fn non_zero(&self, resource: usize) -> i64 {
        self.t.i64(self.at + 96 + 8 * (resource & 1))
    }

    /// The value of a label.
    pub fn label(&self, key: &Key) -> Option<&'static str> {
        let (at, n) = self.list(88);
        for i in 0..n as usize {
            let l = at as usize + 16 * i;
            if key.is(self.t, self.t.u32(l), self.t.u32(l + 4)) {
                return Some(self.t.text(self.t.u32(l + 8), self.t.u32(l + 12)));
            }
        }
        None
    }

    /// The node's taints.
    pub fn taints(&self) -> impl Iterator<Item = Taint> {
        let t = self.t;
        let (at, n) = self.list(80);
        (0..n as usize).map(move |i| {
            let e = at as usize + 24 * i;
            Taint { key: t.text(t.u32(e), t.u32(e + 4)), value: t.text(t.u32(e + 8), t.u32(e + 12)), effect: t.u32(e + 16) }
        })
    }

    /// How much the node has of an extended resource, and how much of it the
    /// pods ask for.
    pub fn scalar(&self, name: &Key) -> Option<(i64, i64)> {
        let (at, n) = self.list(112);
        (0..n as usize).map(|i| at as usize + 24 * i).find(|&e| name.is(self.t, self.t.u32(e), self.t.u32(e + 4))).map(|e| (self.t.i64(e + 8), self.t.i64(e + 16)))
    }
}

/// What a plugin makes of a pod before it sees the nodes.
#[derive(Default)]
pub struct Plan {
    /// Leaves out filter for this pod.
    pub skip_filter: bool,
    /// Leaves out score for this pod.
    pub skip_score: bool,
    /// `scale` makes the highest score 100, `reverse` makes it 0; without it
    /// scores are 0 to 100.
    pub normalize: &'static str,
    reasons: String,
    count: u8,
    rejection: String,
    nodes: Option<String>,
}

impl Plan {
    /// A plan that goes on with all nodes.
    pub fn new() -> Plan {
        Plan::default()
    }

    /// Returns the number with which filter vetoes a node for a reason.
    pub fn reason(&mut self, text: &str) -> u8 {
        self.add(text, "}")
    }

    /// The same, for a reason that removing other pods would not help.
    pub fn reason_unresolvable(&mut self, text: &str) -> u8 {
        self.add(text, r#","unresolvable":true}"#)
    }

    fn add(&mut self, text: &str, end: &str) -> u8 {
        self.reasons.push_str(if self.count == 0 { r#"{"reason":"# } else { r#",{"reason":"# });
        text.to_json(&mut self.reasons);
        self.reasons.push_str(end);
        self.count += 1;
        self.count
    }

    /// Refuses the pod on every node.
    pub fn reject(&mut self, text: &str) {
        self.rejection.clear();
        text.to_json(&mut self.rejection);
    }

    /// Makes a node one of the only ones that come into question.
    pub fn only(&mut self, name: &str) {
        match &mut self.nodes {
            Some(nodes) => {
                nodes.push(',');
                name.to_json(nodes);
            }
            None => name.to_json(self.nodes.insert(String::new())),
        }
    }

    #[doc(hidden)]
    pub fn encode(&self) -> String {
        let mut out = String::from(r#"{"reasons":["#);
        out.push_str(&self.reasons);
        out.push(']');
        if !self.rejection.is_empty() {
            out.push_str(r#","reject":{"reasons":["#);
            out.push_str(&self.rejection);
            out.push_str("]}");
        }
        out.push_str(match (self.skip_filter, self.skip_score) {
            (false, false) => "",
            (true, false) => r#","skip":["filter"]"#,
            (false, true) => r#","skip":["score"]"#,
            (true, true) => r#","skip":["filter","score"]"#,
        });
        if let Some(nodes) = &self.nodes {
            out.push_str(r#","nodes":["#);
            out.push_str(nodes);
            out.push(']');
        }
        if !self.normalize.is_empty() {
            out.push_str(r#","normalize":"#);
            self.normalize.to_json(&mut out);
        }
        out.push('}');
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans() {
        assert_eq!(Plan::new().encode(), r#"{"reasons":[]}"#);
        let mut p = Plan { skip_score: true, normalize: "scale", ..Plan::new() };
        assert_eq!((p.reason("a"), p.reason_unresolvable("b")), (1, 2));
        p.reject("no");
        p.only("n1");
        p.only("n2");
        assert_eq!(
            p.encode(),
            concat!(
                r#"{"reasons":[{"reason":"a"},{"reason":"b","unresolvable":true}],"reject":{"reasons":["no"]},"#,
                r#""skip":["score"],"nodes":["n1","n2"],"normalize":"scale"}"#
            )
        );
    }
}
