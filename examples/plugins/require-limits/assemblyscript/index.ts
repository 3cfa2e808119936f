// A plugin of Proa that refuses pods whose containers do not say how much memory
// and processor they may use. Settings, all optional:
//
//	{"resources": ["memory", "cpu"], "exemptImages": ["registry.example/debug:"]}

import { Answer, Request, Value, allow, deny, onAdmit, onConfigure } from "../../../../wasmplugins/guest/assemblyscript"
export * from "../../../../wasmplugins/guest/assemblyscript/admission"

// What the settings say.
let required: string[] = ["memory", "cpu"]
const exempt: string[] = []

onConfigure((settings: Value): string => {
  const resources = settings.get("resources")
  if (!resources.missing()) {
    if (!resources.isArray() || resources.length == 0) return "resources must be a list of names"
    required = []
    for (let i = resources.items(); i.next(); ) required.push(i.value.text())
  }
  for (let i = settings.get("exemptImages").items(); i.next(); ) exempt.push(i.value.text())
  return ""
})

onAdmit((r: Request): Answer => {
  const missing: string[] = []
  const spec = r.object.get("spec")
  check(spec.get("initContainers"), missing)
  check(spec.get("containers"), missing)
  return missing.length ? deny(missing.join("; ")) : allow()
})

function check(containers: Value, missing: string[]): void {
  for (let c = containers.items(); c.next(); ) {
    const limits = c.value.get("resources", "limits")
    for (let i = 0; i < required.length; i++) {
      if (limits.get(required[i]).isNull() && !isExempt(c.value)) {
        missing.push("container " + c.value.get("name").text() + " has no " + required[i] + " limit")
      }
    }
  }
}

function isExempt(container: Value): bool {
  const image = container.get("image").text()
  for (let i = 0; i < exempt.length; i++) if (image.startsWith(exempt[i])) return true
  return false
}
