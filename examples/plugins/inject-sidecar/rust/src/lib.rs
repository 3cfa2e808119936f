//! A plugin of Proa that adds a container to pods which ask for it by the
//! annotation `sidecar.example/inject: "true"`. Settings:
//!
//! ```json
//! {"container": {"name": "proxy", "image": "registry.example/proxy:1"}}
//! ```

use proa_guest::{allow, change, Answer, Global, Json, Patch, Request, Value};

proa_guest::on_configure!(configure);
proa_guest::on_admit!(admit);

/// The container to add.
static CONTAINER: Global<Value<'static>> = Global::new();

fn configure(settings: Value<'static>) -> Result<(), &'static str> {
    let container = settings.get("container");
    if container.get("name").text().is_empty() || container.get("image").text().is_empty() {
        return Err("container must have a name and an image");
    }
    CONTAINER.set(container);
    Ok(())
}

fn admit(r: &Request) -> Answer {
    let container = match CONTAINER.get() {
        Some(container) => *container,
        None => return allow(),
    };
    let (object, name) = (r.object(), container.get("name").text());
    if !object.get(["metadata", "annotations", "sidecar.example/inject"]).is("true") {
        return allow();
    }
    if object.get(["spec", "containers"]).items().any(|c| c.get("name").is(&name)) {
        return allow(); // is there already
    }
    let mut p = Patch::new();
    p.add("/spec/containers/-", container);
    if object.get(["metadata", "labels"]).is_null() {
        p.add("/metadata/labels", Json("{}"));
    }
    p.add("/metadata/labels/sidecar", &name);
    change(p).annotate("injected", &name)
}
