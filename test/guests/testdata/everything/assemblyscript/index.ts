// A plugin that uses everything of its kit.

import {
  Answer, Json, Patch, Request, Text, Value, allow, call, canI, change, config, deny, http, info, kubeGet, kubeList, now, onAdmit, pointer, random,
} from "../../../../../wasmplugins/guest/assemblyscript"
export * from "../../../../../wasmplugins/guest/assemblyscript/admission"

onAdmit((r: Request): Answer => {
  const what = r.object.get("do").text()
  info("asked to " + what)
  if (what == "read") return read(r)
  if (what == "patch") {
    const p = new Patch().add(pointer("metadata", "labels", "a/b~c"), r.settings.get("text")).test("/list/0", 1).add("/list/1", 7)
    p.add("/list/-", r.object.get("metadata", "labels")).remove("/gone").replace("/same", new Json('{"json":true}'))
    return change(p).warn('careful "é"').warn("second").annotate("k", "v\n")
  }
  if (what == "object") {
    const a = allow()
    a.object = '{"whole":true}'
    return a
  }
  if (what == "echo") {
    const out = new Text().put('{"value":')
    echo(r.object.get("value"), out)
    const a = allow()
    a.object = out.put("}").toString()
    return a
  }
  return what == "host" ? host(r) : allow()
})

function read(r: Request): Answer {
  const list = r.object.get('kéy"')
  const items: Value[] = []
  for (let i = list.items(); i.next(); ) items.push(i.value)
  while (items.length < 6) items.push(new Value())
  const words: string[] = [
    r.operation, r.kind, r.resource, r.subResource, r.namespace, r.name, r.username,
    r.dryRun ? "dry" : "wet",
    r.mutate ? "mutate" : "validate",
    r.oldObject.missing() ? "none" : r.oldObject.get("text").text(),
    r.object.get("text").text(),
    list.length.toString(),
    r.object.get("empty").length.toString(),
    items[0].isInt() ? items[0].int().toString() : "-",
    items[2].missing() ? "missing" : items[2].isNull() ? "null" : "something",
    items[3].bool() ? "true" : "false",
    items[5].text(),
    r.object.get("none", "at", "all").isNull() ? "absent" : "there",
  ]
  const a = deny(words.join(" "))
  if (items[1].isFloat() && items[1].float() == -25) {
    a.code = 422
    a.reason = "Invalid"
  }
  return a
}

function host(r: Request): Answer {
  const got = kubeGet("apps", "v1", "deployments", r.namespace, "web").value
  const words: string[] = [
    got.get("metadata", "name").text(),
    kubeList("", "v1", "pods", "", "a=b").value.get("items").length.toString(),
    canI("delete", "", "pods", r.namespace) ? "yes" : "no",
    now().toString(),
    (random(2).value.get("base64").text().length / 2).toString(), // with a padding
    config(r.namespace, "c").value.get("data", "k").text(),
    http("GET", "https://a.test").value.get("status").int().toString(),
    call("own", '{"x":1}').error,
  ]
  return deny(words.join(" "))
}

// echo puts a value together again, piece by piece.
function echo(v: Value, out: Text): void {
  if (v.isObject() || v.isArray()) {
    const object = v.isObject()
    out.put(object ? "{" : "[")
    for (let i = v.items(); i.next(); ) {
      if (i.index) out.put(",")
      if (object) out.quote(i.key).put(":")
      echo(i.value, out)
    }
    out.put(object ? "}" : "]")
  } else if (v.isString()) {
    out.quote(v.text())
  } else {
    out.put(v.isInt() ? v.int().toString() : v.raw())
  }
}
