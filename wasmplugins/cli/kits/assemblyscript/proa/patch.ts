import { Text } from "./text"
import { Value } from "./value"

// A Json is encoded JSON.
export class Json {
  constructor(readonly text: string) {}
}

// A Patch is a list of changes as RFC 6902 has them. Values can be strings,
// numbers, bools, string[], Value and Json.
export class Patch {
  text: Text = new Text()

  // add sets the member at path, or inserts before an array's element; the
  // element "-" is behind the last. The others need something at path.
  add<T>(path: string, value: T): Patch { return this.op<T>("add", path, value) }
  replace<T>(path: string, value: T): Patch { return this.op<T>("replace", path, value) }
  test<T>(path: string, value: T): Patch { return this.op<T>("test", path, value) }

  remove(path: string): Patch {
    this.begin("remove", path)
    this.text.byte(0x7d)
    return this
  }

  isEmpty(): bool { return this.text.size == 0 }

  private op<T>(op: string, path: string, value: T): Patch {
    this.begin(op, path)
    this.text.put(',"value":')
    encode<T>(this.text, value)
    this.text.byte(0x7d)
    return this
  }

  private begin(op: string, path: string): void {
    this.text.put(this.isEmpty() ? '[{"op":"' : ',{"op":"').put(op).put('","path":').quote(path)
  }
}

// pointer makes a JSON pointer of its parts.
export function pointer(a: string, b: string | null = null, c: string | null = null, d: string | null = null, e: string | null = null): string {
  let p = "/" + escape(a)
  if (b !== null) p += "/" + escape(b)
  if (c !== null) p += "/" + escape(c)
  if (d !== null) p += "/" + escape(d)
  if (e !== null) p += "/" + escape(e)
  return p
}

function escape(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1")
}

function encode<T>(out: Text, value: T): void {
  if (isString<T>()) {
    out.quote(value as string)
  } else if (isBoolean<T>()) {
    out.put(value ? "true" : "false")
  } else if (isInteger<T>() || isFloat<T>()) {
    out.put(value.toString())
  } else if (isArray<T>()) {
    out.byte(0x5b)
    for (let i = 0; i < value.length; i++) {
      if (i) out.byte(0x2c)
      out.quote(value[i])
    }
    out.byte(0x5d)
  } else if (value instanceof Value) {
    if (value.missing()) out.put("null")
    else out.bytes(value.at, value.size())
  } else if (value instanceof Json) {
    out.put(value.text)
  } else {
    ERROR("a value of this type cannot stand in a patch; encode it and use Json")
  }
}
