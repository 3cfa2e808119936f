// A plugin of Proa that adds a container to pods which ask for it by the
// annotation sidecar.example/inject: "true". Settings:
//
//	{"container": {"name": "proxy", "image": "registry.example/proxy:1"}}

import { Answer, Json, Patch, Request, Value, allow, change, onAdmit, onConfigure } from "../../../../wasmplugins/guest/assemblyscript"
export * from "../../../../wasmplugins/guest/assemblyscript/admission"

// The container to add, and its name.
let container: Value = new Value()
let name: string = ""

onConfigure((settings: Value): string => {
  container = settings.get("container")
  name = container.get("name").text()
  return !name.length || !container.get("image").text().length ? "container must have a name and an image" : ""
})

onAdmit((r: Request): Answer => {
  if (!r.object.get("metadata", "annotations", "sidecar.example/inject").is("true")) return allow()
  for (let c = r.object.get("spec", "containers").items(); c.next(); ) {
    if (c.value.get("name").is(name)) return allow() // is there already
  }
  const p = new Patch().add("/spec/containers/-", container)
  if (r.object.get("metadata", "labels").isNull()) p.add("/metadata/labels", new Json("{}"))
  p.add("/metadata/labels/sidecar", name)
  return change(p).annotate("injected", name)
})
