import { Patch } from "./patch"
import { Text } from "./text"
import { Value, parseAt } from "./value"

// A Request is a write on its way to storage.
export class Request {
  // mutate is the phase in which the answer may change the object.
  readonly mutate: bool
  // settings are the binding's spec.settings.
  readonly settings: Value
  // object is the new object, missing on DELETE; oldObject the stored one,
  // missing on CREATE.
  readonly object: Value
  private readonly all: Value // an AdmissionRequest of admission.k8s.io/v1

  constructor(v: Value) {
    this.mutate = v.get("phase").is("mutate")
    this.settings = v.get("settings")
    const all = v.get("request")
    this.all = all
    this.object = there(all.get("object"))
  }

  get oldObject(): Value { return there(this.all.get("oldObject")) }

  // field returns a field of the AdmissionRequest by its path.
  field(a: string, b: string | null = null, c: string | null = null): Value { return this.all.get(a, b, c) }

  get operation(): string { return this.all.get("operation").text() }
  get kind(): string { return this.all.get("kind", "kind").text() }
  get resource(): string { return this.all.get("resource", "resource").text() }
  get subResource(): string { return this.all.get("subResource").text() }
  get namespace(): string { return this.all.get("namespace").text() }
  get name(): string { return this.all.get("name").text() }
  get username(): string { return this.all.get("userInfo", "username").text() }
  get dryRun(): bool { return this.all.get("dryRun").bool() }
}

function there(v: Value): Value {
  return v.isNull() ? new Value() : v
}

// An Answer is what becomes of a request.
export class Answer {
  // When refused: what the user is shown, the HTTP status (0 is 403) and the
  // reason of the status.
  message: string = ""
  code: i32 = 0
  reason: string = ""
  // patch or object, the whole object as JSON, change the object.
  patch: Patch | null = null
  object: string = ""
  private warnings: Text = new Text()
  private annotations: Text = new Text()

  constructor(public allowed: bool) {}

  // warn adds a warning for the user.
  warn(text: string): Answer {
    if (this.warnings.size) this.warnings.byte(0x2c)
    this.warnings.quote(text)
    return this
  }

  // annotate adds an audit annotation.
  annotate(key: string, value: string): Answer {
    if (this.annotations.size) this.annotations.byte(0x2c)
    this.annotations.quote(key).put(":").quote(value)
    return this
  }

  result(): i64 {
    const patch = this.patch
    const changes = patch !== null && !patch.isEmpty()
    if (this.allowed && !changes && !this.warnings.size && !this.annotations.size && !this.object.length) return 0
    const out = new Text()
    if (this.allowed) {
      out.put('{"allowed":true')
    } else {
      out.put('{"allowed":false,"status":{"message":').quote(this.message)
      if (this.code) out.put(',"code":').put(this.code.toString())
      if (this.reason.length) out.put(',"reason":').quote(this.reason)
      out.put("}")
    }
    if (this.warnings.size) {
      out.put(',"warnings":[')
      out.bytes(this.warnings.at, this.warnings.size)
      out.put("]")
    }
    if (this.annotations.size) {
      out.put(',"auditAnnotations":{')
      out.bytes(this.annotations.at, this.annotations.size)
      out.put("}")
    }
    if (changes) {
      out.put(',"patch":')
      out.bytes(patch!.text.at, patch!.text.size)
      out.put("]")
    }
    if (this.object.length) out.put(',"object":').put(this.object)
    return out.put("}").result()
  }
}

// allow lets the request pass, deny refuses it with status 403, and change lets
// it pass with changes.
export function allow(): Answer {
  return new Answer(true)
}

export function deny(message: string): Answer {
  const a = new Answer(false)
  a.message = message
  return a
}

export function change(p: Patch): Answer {
  const a = new Answer(true)
  a.patch = p
  return a
}

// What the plugin has registered.
let admitting: ((r: Request) => Answer) | null = null
let configuring: ((settings: Value) => string) | null = null
let calling: ((request: Value) => string) | null = null

// onAdmit registers the function that judges requests.
export function onAdmit(f: (r: Request) => Answer): void { admitting = f }

// onConfigure registers the function that gets the settings once, before the
// first request; a variable that it sets stays set. It returns the text of an
// error, with which the plugin is not ready, or "".
export function onConfigure(f: (settings: Value) => string): void { configuring = f }

// onCall registers the function for another extension point, which gets JSON
// and answers with JSON; index.ts exports it from the point's file.
export function onCall(f: (request: Value) => string): void { calling = f }

export function admitAt(p: usize, n: usize): i64 {
  return admitting!(new Request(parseAt(p, n))).result()
}

export function configureAt(p: usize, n: usize): i64 {
  if (configuring === null) return 0
  const message = configuring!(parseAt(p, n))
  return message.length ? new Text().put('{"valid":false,"message":').quote(message).put("}").result() : 0
}

export function callAt(p: usize, n: usize): i64 {
  return new Text().put(calling!(parseAt(p, n))).result()
}
