import { Text } from "./text"

// A Value is a JSON value that stays encoded. All methods of a missing one
// answer with nothing, so lookups chain without checks.
@final
export class Value {
  // at is where the value begins, 0 if it is missing; end is the end of the
  // whole text.
  constructor(readonly at: usize = 0, readonly end: usize = 0) {}

  private first(): u32 {
    return this.at ? load<u8>(this.at) : 0
  }

  // A null is not missing, but it is null; a missing value is both.
  missing(): bool { return this.at == 0 }
  isNull(): bool { return this.at == 0 || this.first() == 0x6e }
  isObject(): bool { return this.first() == 0x7b }
  isArray(): bool { return this.first() == 0x5b }
  isString(): bool { return this.first() == 0x22 }

  // get returns the value at a path of keys.
  get(a: string, b: string | null = null, c: string | null = null, d: string | null = null, e: string | null = null): Value {
    let v = this.field(a)
    if (b !== null) v = v.field(b)
    if (c !== null) v = v.field(c)
    if (d !== null) v = v.field(d)
    if (e !== null) v = v.field(e)
    return v
  }

  private field(key: string): Value {
    if (!this.isObject()) return missing
    const i = this.items()
    while (i.step()) if (i.keyIs(key)) return new Value(i.from, this.end)
    return missing
  }

  // items goes over the members of an object or the items of an array:
  //
  //	for (let i = v.items(); i.next(); ) … i.index, i.key, i.value
  items(): Iter { return new Iter(this) }

  // length is the number of members or items.
  get length(): i32 {
    const i = this.items()
    while (i.step()) {}
    return i.index + 1
  }

  // text returns the content of a string, and "" for other values.
  text(): string {
    return this.isString() ? unquote(this.at + 1, quoted(this.at + 1, this.end) - 1) : ""
  }

  // is reports whether the value is this string.
  is(s: string): bool {
    return this.isString() && same(this.at + 1, quoted(this.at + 1, this.end) - 1, s)
  }

  bool(): bool { return this.first() == 0x74 }

  // isInt reports whether the value is an integer of 64 bits; int returns it.
  isInt(): bool {
    const s = this.raw()
    const v = I64.parseInt(s)
    return s.length > 0 && v.toString() == s
  }
  int(): i64 { return this.isInt() ? I64.parseInt(this.raw()) : 0 }

  // isFloat reports whether the value is a number; float returns it.
  isFloat(): bool {
    const c = this.first()
    return c == 0x2d || (c >= 0x30 && c <= 0x39)
  }
  float(): f64 { return this.isFloat() ? F64.parseFloat(this.raw()) : 0 }

  // raw returns the JSON, "" for a missing value.
  raw(): string { return String.UTF8.decodeUnsafe(this.at, this.size()) }

  // size is the length of the JSON, in bytes from at.
  size(): usize { return this.at ? skip(this.at, this.end) - this.at : 0 }
}

const missing = new Value()

// parse returns the first value in a text.
export function parse(s: string): Value {
  const t = new Text().put(s)
  return parseAt(t.at, t.size)
}

export function parseAt(at: usize, n: usize): Value {
  const p = space(at, at + n)
  return p < at + n ? new Value(p, at + n) : missing
}

// An Iter stands at a member or an item.
@final
export class Iter {
  index: i32 = -1
  from: usize = 0 // where the value begins
  private object: bool
  private at: usize
  private end: usize
  private keyAt: usize = 0
  private keyEnd: usize = 0

  constructor(v: Value) {
    this.object = v.isObject()
    this.at = this.object || v.isArray() ? v.at + 1 : v.end
    this.end = v.end
  }

  // next goes to the next one, if there is one.
  next(): bool { return this.step() }

  get key(): string { return this.object ? unquote(this.keyAt, this.keyEnd) : "" }
  get value(): Value { return new Value(this.from, this.end) }

  step(): bool {
    if (this.from) this.at = skip(this.from, this.end)
    let p = space(this.at, this.end)
    if (p >= this.end) return false
    let c = load<u8>(p)
    if (c == 0x7d || c == 0x5d) return false
    if (this.object) {
      if (c != 0x22) return false
      const behind = quoted(p + 1, this.end)
      this.keyAt = p + 1
      this.keyEnd = behind - 1
      p = space(behind, this.end)
      if (p >= this.end || load<u8>(p) == 0x7d) return false
    }
    this.from = p
    this.index++
    return true
  }

  keyIs(s: string): bool { return same(this.keyAt, this.keyEnd, s) }
}

function space(p: usize, end: usize): usize {
  while (p < end) {
    const c = load<u8>(p)
    if (c != 0x20 && c != 0x2c && c != 0x3a && c != 0x0a && c != 0x0d && c != 0x09) break
    p++
  }
  return p
}

// quoted returns what is behind a string, p being behind its quote.
function quoted(p: usize, end: usize): usize {
  while (p < end) {
    const c = load<u8>(p)
    if (c == 0x22) return p + 1
    p += c == 0x5c ? 2 : 1
  }
  return end
}

// skip returns what is behind a value.
function skip(p: usize, end: usize): usize {
  let depth = 0
  while (p < end) {
    const c = load<u8>(p++)
    if (c == 0x22) {
      p = quoted(p, end)
    } else if (c == 0x7b || c == 0x5b) {
      depth++
      continue
    } else if (c == 0x7d || c == 0x5d) {
      depth--
    } else if (depth == 0) {
      while (p < end) {
        const d = load<u8>(p)
        if (d == 0x2c || d == 0x7d || d == 0x5d || d <= 0x20) break
        p++
      }
    }
    if (depth <= 0) return p
  }
  return end
}

// same compares a string of the JSON, without its quotes, with s.
function same(p: usize, end: usize, s: string): bool {
  const n = s.length
  let i = 0
  for (; p < end && i < n; i++) {
    const c: u32 = load<u8>(p)
    if (c >= 0x80 || c == 0x5c) return unquote(p, end) == s.substring(i)
    if (c != s.charCodeAt(i)) return false
    p++
  }
  return p == end && i == n
}

function hex4(p: usize, end: usize): u32 {
  if (end - p < 4) return 0xfffd
  let u: u32 = 0
  for (let i: usize = 0; i < 4; i++) {
    const c: u32 = load<u8>(p + i)
    const low = c | 0x20
    if (c >= 0x30 && c <= 0x39) u = (u << 4) | (c - 0x30)
    else if (low >= 0x61 && low <= 0x66) u = (u << 4) | (low - 0x57)
    else return 0xfffd
  }
  return u
}

// unquote decodes a string without its quotes.
function unquote(p: usize, end: usize): string {
  let q = p
  while (q < end && load<u8>(q) != 0x5c) q++
  const plain = String.UTF8.decodeUnsafe(p, q - p)
  if (q >= end) return plain
  let out = plain
  while (q < end) {
    if (load<u8>(q) != 0x5c || q + 1 >= end) {
      let r = q + 1
      while (r < end && load<u8>(r) != 0x5c) r++
      out += String.UTF8.decodeUnsafe(q, r - q)
      q = r
      continue
    }
    const c = load<u8>(q + 1)
    q += 2
    let code: u32 = c
    if (c == 0x62) code = 0x08
    else if (c == 0x66) code = 0x0c
    else if (c == 0x6e) code = 0x0a
    else if (c == 0x72) code = 0x0d
    else if (c == 0x74) code = 0x09
    else if (c == 0x75) {
      code = hex4(q, end)
      q = min(q + 4, end)
      if (code >= 0xd800 && code < 0xe000) {
        let low: u32 = 0
        if (code < 0xdc00 && end - q >= 6 && load<u8>(q) == 0x5c && load<u8>(q + 1) == 0x75) low = hex4(q + 2, end)
        if (low >= 0xdc00 && low < 0xe000) {
          out += String.fromCharCode(code)
          code = low
          q += 6
        } else {
          code = 0xfffd
        }
      }
    }
    out += String.fromCharCode(code)
  }
  return out
}
