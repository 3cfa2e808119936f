import { Text } from "./text"
import { Value, parseAt } from "./value"

@external("proa", "log")
declare function hostLog(level: i32, p: usize, n: usize): void
@external("proa", "call")
declare function hostCall(op: usize, opSize: usize, request: usize, requestSize: usize): i32
@external("proa", "read")
declare function hostRead(p: usize, n: usize): i32

function log(level: i32, text: string): void {
  const t = new Text().put(text)
  hostLog(level, t.at, t.size)
}

// These write a line to the server's log. A call may write 8 KiB.
export function debug(text: string): void { log(0, text) }
export function info(text: string): void { log(1, text) }
export function warn(text: string): void { log(2, text) }
export function error(text: string): void { log(3, text) }

// A Reply is the server's answer to a call: JSON, or an error's text. What is
// not granted does not return: the call ends with CapabilityDenied.
export class Reply {
  constructor(readonly value: Value, readonly error: string) {}

  get ok(): bool { return this.error.length == 0 }
}

// call calls an operation of the server with a request in JSON.
export function call(op: string, request: string): Reply {
  const o = new Text().put(op)
  const q = new Text().put(request)
  const r = hostCall(o.at, o.size, q.at, q.size)
  const size: usize = r < 0 ? -1 - r : r
  const at = heap.alloc(size)
  const n = hostRead(at, size)
  return r < 0 ? new Reply(new Value(), String.UTF8.decodeUnsafe(at, n)) : new Reply(parseAt(at, n), "")
}

// object makes a JSON object of names and texts, of which empty ones are left out.
function object(names: string[], texts: string[]): string {
  const t = new Text().put("{")
  for (let i = 0; i < names.length; i++) {
    if (!texts[i].length) continue
    if (t.size > 1) t.byte(0x2c)
    t.quote(names[i]).put(":").quote(texts[i])
  }
  return t.put("}").toString()
}

// kubeGet reads an object, kubeList {"items":[…]}.
export function kubeGet(group: string, version: string, resource: string, namespace: string, name: string): Reply {
  return call("kube.get", object(["group", "version", "resource", "namespace", "name"], [group, version, resource, namespace, name]))
}
export function kubeList(group: string, version: string, resource: string, namespace: string = "", labelSelector: string = ""): Reply {
  return call("kube.list", object(["group", "version", "resource", "namespace", "labelSelector"], [group, version, resource, namespace, labelSelector]))
}

// canI reports whether the plugin's ServiceAccount may do something.
export function canI(verb: string, group: string, resource: string, namespace: string = "", name: string = ""): bool {
  return call("authz.can_i", object(["verb", "group", "resource", "namespace", "name"], [verb, group, resource, namespace, name])).value.get("allowed").bool()
}

// config reads the data of a ConfigMap.
export function config(namespace: string, name: string): Reply {
  return call("config.read", object(["namespace", "name"], [namespace, name]))
}

// http answers {"status":…,"headers":{…},"body":base64}.
export function http(method: string, url: string): Reply {
  return call("http", object(["method", "url"], [method, url]))
}

// now is the time in nanoseconds since 1970, 0 if it is not known.
export function now(): i64 { return call("clock.wall", "{}").value.get("unixNanos").int() }

// random answers {"base64":…} with up to n bytes.
export function random(n: i32): Reply { return call("random", '{"bytes":' + n.toString() + "}") }
