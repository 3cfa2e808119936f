// Text is UTF-8 that grows: what answers and requests are written with.
export class Text {
  at: usize = 0
  size: usize = 0
  private room: usize = 0

  private grow(n: usize): usize {
    if (this.size + n > this.room) {
      this.room = this.room * 2 + n + 64
      const at = heap.alloc(this.room)
      memory.copy(at, this.at, this.size)
      this.at = at
    }
    const end = this.at + this.size
    this.size += n
    return end
  }

  byte(c: u32): void {
    store<u8>(this.grow(1), c)
  }

  bytes(at: usize, n: usize): void {
    memory.copy(this.grow(n), at, n)
  }

  // put appends text as it is.
  put(s: string): Text {
    const n: usize = String.UTF8.byteLength(s)
    String.UTF8.encodeUnsafe(changetype<usize>(s), s.length, this.grow(n))
    return this
  }

  // quote appends a JSON string.
  quote(s: string): Text {
    const n: usize = String.UTF8.byteLength(s)
    const from = heap.alloc(n)
    String.UTF8.encodeUnsafe(changetype<usize>(s), s.length, from)
    this.byte(0x22)
    for (let i: usize = 0; i < n; i++) {
      const c: u32 = load<u8>(from + i)
      if (c == 0x22 || c == 0x5c) {
        this.byte(0x5c)
        this.byte(c)
      } else if (c < 0x20) {
        this.put("\\u00")
        this.byte(0x30 + (c >> 4))
        const low = c & 15
        this.byte(low < 10 ? 0x30 + low : 0x57 + low)
      } else {
        this.byte(c)
      }
    }
    this.byte(0x22)
    return this
  }

  // result is what a function that the server has called returns.
  result(): i64 {
    return ((this.at as i64) << 32) | (this.size as i64)
  }

  toString(): string {
    return String.UTF8.decodeUnsafe(this.at, this.size)
  }
}
