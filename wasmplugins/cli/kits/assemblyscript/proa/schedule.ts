import { Text } from "./text"
import { Value, parseAt } from "./value"

// The resources of every node, in milli-CPU, bytes and pods.
export const CPU = 0
export const MEMORY = 1
export const STORAGE = 2
export const PODS = 3

// Where the table of nodes is.
let table: usize = 0
let stride: usize = 0

// A Key is the key of a label or a resource. It remembers its place in the
// table, so that looking for it is comparing numbers.
@final
export class Key {
  private at: u32 = 0
  private text: Text

  constructor(text: string) {
    this.text = new Text().put(text)
  }

  is(at: u32, n: u32): bool {
    if (this.at) return this.at == at
    if (n != this.text.size || memory.compare(table + at, this.text.at, n) != 0) return false
    this.at = at
    return true
  }
}

function textAt(at: usize, n: usize): string {
  return String.UTF8.decodeUnsafe(table + at, n)
}

// A Taint is one of a node's taints; effect 1 is NoSchedule, 2 PreferNoSchedule,
// 3 NoExecute.
export class Taint {
  constructor(readonly key: string, readonly value: string, readonly effect: u32) {}
}

// A Node is a record of the table of nodes. It is good until the function
// returns.
@final
export class Node {
  at: usize = 0

  get name(): string { return textAt(load<u32>(this.at), load<u32>(this.at, 4)) }
  // zone is the number of the node's zone, 0 for none.
  get zone(): u32 { return load<u32>(this.at, 8) }
  get zoneName(): string { return textAt(load<u32>(this.at, 120), load<u32>(this.at, 124)) }
  get ready(): bool { return (load<u32>(this.at, 12) & 2) != 0 }
  get unschedulable(): bool { return (load<u32>(this.at, 12) & 4) != 0 }

  // How much the node has of a resource, such as CPU, and how much of it its
  // pods ask for; nonZero is the same of CPU and MEMORY, with the defaults for
  // containers that ask for nothing.
  allocatable(resource: i32): i64 { return load<i64>(this.at + ((resource & 3) << 3), 16) }
  requested(resource: i32): i64 { return load<i64>(this.at + ((resource & 3) << 3), 48) }
  nonZero(resource: i32): i64 { return load<i64>(this.at + ((resource & 1) << 3), 96) }

  private find(key: Key): usize {
    const n = load<u32>(this.at, 92)
    let l = table + load<u32>(this.at, 88)
    for (let i: u32 = 0; i < n; i++, l += 16) {
      if (key.is(load<u32>(l), load<u32>(l, 4))) return l
    }
    return 0
  }

  has(key: Key): bool { return this.find(key) != 0 }

  // label returns the value of a label, "" if the node does not have it.
  label(key: Key): string {
    const l = this.find(key)
    return l ? textAt(load<u32>(l, 8), load<u32>(l, 12)) : ""
  }

  get taints(): Taint[] {
    const taints: Taint[] = []
    const n = load<u32>(this.at, 84)
    let t = table + load<u32>(this.at, 80)
    for (let i: u32 = 0; i < n; i++, t += 24) {
      taints.push(new Taint(textAt(load<u32>(t), load<u32>(t, 4)), textAt(load<u32>(t, 8), load<u32>(t, 12)), load<u32>(t, 16)))
    }
    return taints
  }

  // scalar returns how much the node has of an extended resource, or with
  // requested how much of it its pods ask for; -1 if it has none.
  scalar(name: Key, requested: bool = false): i64 {
    const n = load<u32>(this.at, 116)
    let s = table + load<u32>(this.at, 112)
    for (let i: u32 = 0; i < n; i++, s += 24) {
      if (name.is(load<u32>(s), load<u32>(s, 4))) return requested ? load<i64>(s, 16) : load<i64>(s, 8)
    }
    return -1
  }
}

// A Plan is what a plugin makes of a pod before it sees the nodes.
export class Plan {
  skipFilter: bool = false
  skipScore: bool = false
  // normalize: "scale" makes the highest score 100, "reverse" makes it 0;
  // without it scores are 0 to 100.
  normalize: string = ""
  private reasons: Text = new Text()
  private count: i32 = 0
  private rejection: string = ""
  private nodes: Text = new Text()
  private restricted: bool = false

  // reason returns the number with which filter vetoes a node for a reason.
  // Unresolvable means that removing other pods would not help.
  reason(text: string, unresolvable: bool = false): i32 {
    this.reasons.put(this.count ? ',{"reason":' : '{"reason":').quote(text).put(unresolvable ? ',"unresolvable":true}' : "}")
    return ++this.count
  }

  // reject refuses the pod on every node.
  reject(text: string): void { this.rejection = text }

  // only makes a node one of the only ones that come into question.
  only(name: string): void {
    if (this.restricted) this.nodes.byte(0x2c)
    this.nodes.quote(name)
    this.restricted = true
  }

  result(): i64 {
    const out = new Text().put('{"reasons":[')
    out.bytes(this.reasons.at, this.reasons.size)
    out.put("]")
    if (this.rejection.length) out.put(',"reject":{"reasons":[').quote(this.rejection).put("]}")
    if (this.skipFilter || this.skipScore) {
      out.put(!this.skipScore ? ',"skip":["filter"]' : this.skipFilter ? ',"skip":["filter","score"]' : ',"skip":["score"]')
    }
    if (this.restricted) {
      out.put(',"nodes":[')
      out.bytes(this.nodes.at, this.nodes.size)
      out.put("]")
    }
    if (this.normalize.length) out.put(',"normalize":').quote(this.normalize)
    return out.put("}").result()
  }
}

let preparing: ((pod: Value) => Plan) | null = null
let filtering: ((n: Node) => i32) | null = null
let scoring: ((n: Node) => i32) | null = null
const node = new Node()

// onPrepare registers the function that looks at a pod before the nodes. What it
// stores is there for the nodes, and gone with the next pod.
export function onPrepare(f: (pod: Value) => Plan): void { preparing = f }

// onFilter registers the function that answers 0 to let a node pass, or the
// number of a reason of the plan.
export function onFilter(f: (n: Node) => i32): void { filtering = f }

// onScore registers the function that answers a node's score.
export function onScore(f: (n: Node) => i32): void { scoring = f }

export function pointsNow(): i64 {
  const f = filtering !== null
  const s = scoring !== null
  return new Text().put(f && s ? "prefilter,filter,score" : f ? "prefilter,filter" : s ? "prefilter,score" : "prefilter").result()
}

export function prepareAt(p: usize, n: usize): i64 {
  return preparing === null ? 0 : preparing!(parseAt(p, n).get("pod")).result()
}

export function nodesAt(p: usize, size: usize): void {
  table = p
  stride = size
}

export function filterAt(out: usize, count: i32): void {
  node.at = table
  for (let i = 0; i < count; i++, node.at += stride) {
    if (!load<u8>(out + i)) store<u8>(out + i, filtering!(node))
  }
}

export function scoreAt(out: usize, count: i32): void {
  node.at = table
  for (let i = 0; i < count; i++, node.at += stride, out += 4) {
    if (!load<i32>(out)) store<i32>(out, scoring!(node))
  }
}
