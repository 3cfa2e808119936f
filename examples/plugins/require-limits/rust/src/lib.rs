//! A plugin of Proa that refuses pods whose containers do not say how much
//! memory and processor they may use. Settings, all optional:
//!
//! ```json
//! {"resources": ["memory", "cpu"], "exemptImages": ["registry.example/debug:"]}
//! ```

use proa_guest::{allow, deny, Answer, Global, Request, Value};

proa_guest::on_configure!(configure);
proa_guest::on_admit!(admit);

/// What the settings say.
struct Settings {
    required: Vec<String>,
    exempt: Vec<String>,
}

static SETTINGS: Global<Settings> = Global::new();

fn configure(settings: Value<'static>) -> Result<(), String> {
    let texts = |v: Value| v.items().map(|v| v.text().into_owned()).collect::<Vec<_>>();
    let resources = settings.get("resources");
    let mut required = vec!["memory".into(), "cpu".into()];
    if !resources.missing() {
        if !resources.is_array() || resources.is_empty() {
            return Err("resources must be a list of names".into());
        }
        required = texts(resources);
    }
    SETTINGS.set(Settings { required, exempt: texts(settings.get("exemptImages")) });
    Ok(())
}

fn admit(r: &Request) -> Answer {
    let settings = match SETTINGS.get() {
        Some(settings) => settings,
        None => return allow(),
    };
    let spec = r.object().get("spec");
    let mut missing = Vec::new();
    for c in spec.get("initContainers").items().chain(spec.get("containers").items()) {
        let limits = c.get(["resources", "limits"]);
        for name in &settings.required {
            if limits.get(name).is_null() && !settings.is_exempt(c) {
                missing.push(["container ", &c.get("name").text(), " has no ", name, " limit"].concat());
            }
        }
    }
    if missing.is_empty() {
        return allow();
    }
    deny(missing.join("; "))
}

impl Settings {
    fn is_exempt(&self, container: Value) -> bool {
        let image = container.get("image").text();
        self.exempt.iter().any(|prefix| image.starts_with(prefix.as_str()))
    }
}
